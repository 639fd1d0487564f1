"""Building an artifact so that it is whole or absent, and goes on after a crash.

    OUT/.building/recipe.json        what is being built; another recipe starts afresh
    OUT/.building/temporary/…        blocks being written
    OUT/.building/records/NAME.json  one for each finished block
    OUT/NAME                         a block: written and synced elsewhere, then renamed
    OUT/manifest.json                last of all: from now on the artifact exists

A crash at any moment leaves either a finished artifact or records from which the next run goes on.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt
import xxhash

from pipeline.console import say, warn
from pipeline.errors import GscnetError, StoreError
from pipeline.storage.artifact import (
    BUILDING,
    MANIFEST,
    MEASUREMENTS,
    BlockRecord,
    Manifest,
    damage_of,
    read_manifest,
)
from pipeline.storage.files import (
    TEMPORARY,
    checksum_file,
    fingerprint,
    read_json,
    replace_durably,
    sync_folder,
    write_json_durably,
)
from pipeline.types import Array

_RECORDS: Final = f"{BUILDING}/records"
_TEMPORARY: Final = f"{BUILDING}/temporary"
_RECIPE: Final = f"{BUILDING}/recipe.json"


class ArrayWriter:
    """Writes one .npy block row by row, hashing as it goes. Used through BlockSink.array_writer."""

    def __init__(self, file: BinaryIO, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._file, self._digest = file, xxhash.xxh3_128()
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.rows = 0
        header = _HashingHeader(self)
        np.lib.format.write_array_header_1_0(
            header,
            {
                "shape": shape,
                "fortran_order": False,
                "descr": np.lib.format.dtype_to_descr(self.dtype),
            },
        )

    def append(self, rows: Array) -> None:
        """Add rows (along the first axis), cast to the block's dtype."""
        self.rows += len(rows)
        self._put(np.ascontiguousarray(rows, dtype=self.dtype).reshape(-1).view(np.uint8).data)

    def _put(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._digest.update(data)

    def checksum(self) -> str:
        """The checksum of the file so far."""
        return self._digest.hexdigest()


class _HashingHeader:
    """The part of a file that numpy's header writer needs."""

    def __init__(self, writer: ArrayWriter) -> None:
        self._writer = writer

    def write(self, data: bytes) -> int:
        self._writer._put(data)
        return len(data)


@dataclass(frozen=True)
class BlockSink:
    """Where the blocks of an unfinished artifact go. Small and picklable: workers get a copy."""

    root: Path

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """Write block `name` as a plain file: the body fills the path it is given."""
        temporary = self._temporary()
        try:
            yield temporary
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            record = BlockRecord(bytes=temporary.stat().st_size, checksum=checksum_file(temporary))
            self._finish(name, temporary, record)
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def array_writer(
        self, name: str, shape: tuple[int, ...], dtype: npt.DTypeLike
    ) -> Iterator[ArrayWriter]:
        """Write block `name` as an array of known shape, row by row."""
        temporary = self._temporary()
        try:
            with temporary.open("wb") as file:
                writer = ArrayWriter(file, shape, dtype)
                yield writer
                assert writer.rows == shape[0], (name, writer.rows, shape)
                file.flush()
                os.fsync(file.fileno())
            record = BlockRecord(
                bytes=temporary.stat().st_size,
                checksum=writer.checksum(),
                shape=list(shape),
                dtype=str(writer.dtype),
            )
            self._finish(name, temporary, record)
        finally:
            temporary.unlink(missing_ok=True)

    def array(self, name: str, array: Array) -> None:
        """Write block `name` as one array."""
        with self.array_writer(name, array.shape, array.dtype) as writer:
            writer.append(array)

    def json(self, name: str, value: object) -> None:
        """Write block `name` as JSON."""
        with self.file(name) as path:
            write_json_durably(path, value)

    def has(self, name: str) -> bool:
        """Whether block `name` is finished."""
        return self._record(name).exists()

    def _record(self, name: str) -> Path:
        return self.root / _RECORDS / f"{name}.json"

    def _temporary(self) -> Path:
        folder = self.root / _TEMPORARY
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex

    def _finish(self, name: str, temporary: Path, record: BlockRecord) -> None:
        replace_durably(temporary, self.root / name)
        # the record second: it vouches for bytes that are already in place
        write_json_durably(self._record(name), asdict(record))


class Build:
    """An artifact being built, held under a lock that a crash releases. Use as `with Build(…)`.

    After entering, `finished` is the manifest where there is nothing left to do; otherwise ask
    `sink.has(name)` for the blocks that an interrupted run left and write the others.
    """

    def __init__(
        self, root: Path, kind: str, recipe: dict[str, Any], *, overwrite: bool = False
    ) -> None:
        self.root, self.kind, self.recipe = root, kind, recipe
        self.overwrite = overwrite
        self.sink = BlockSink(root)
        self.finished: Manifest | None = None
        self.resumed = False
        self._lock: int | None = None

    def __enter__(self) -> Build:
        self._check_folder()
        self.root.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        try:
            self._find_what_is_there()
        except BaseException:
            self._release_lock()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, GscnetError) and self.finished is None:
            # input that cannot be used leaves nothing behind; a crash leaves what can be resumed
            self._clear()
            self.root.rmdir()
        self._release_lock()

    def commit(self, facts: dict[str, Any], measurements: dict[str, Any]) -> Manifest:
        """Name all finished blocks in the manifest: from now on the artifact exists.

        `measurements` (seconds, memory) differ from run to run and are kept outside the manifest.
        """
        manifest = Manifest(
            kind=self.kind, recipe=self.recipe, facts=facts, blocks=self._finished_blocks()
        )
        write_json_durably(self.root / MEASUREMENTS, measurements)
        write_json_durably(self.root / MANIFEST, manifest.to_json())
        shutil.rmtree(self.root / BUILDING, ignore_errors=True)
        self.finished = manifest
        return manifest

    def _check_folder(self) -> None:
        if not self.root.exists():
            return
        if not self.root.is_dir():
            raise StoreError(f"{self.root} is a file; the output must be a folder.")
        ours = (self.root / MANIFEST).exists() or (self.root / BUILDING).exists()
        if not ours and any(self.root.iterdir()):
            raise StoreError(
                f"{self.root} holds files that are not this program's; choose an empty folder."
            )

    def _take_lock(self) -> None:
        # beside the folder's content, not in .building: a commit removes that
        self._lock = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            self._lock = None
            raise StoreError(
                f"{self.root} is being built by another process; wait for it or stop it."
            ) from error

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _find_what_is_there(self) -> None:
        manifest = read_manifest(self.root)
        if manifest is not None:
            self._check_same(manifest)
        if manifest is not None and manifest.recipe == self.recipe and not self._damaged(manifest):
            shutil.rmtree(self.root / BUILDING, ignore_errors=True)
            self.finished = manifest
            return
        if manifest is not None and manifest.recipe != self.recipe:
            self._clear()
        if manifest is None and not self._same_recipe_as_interrupted():
            self._clear()
        self._begin()

    def _check_same(self, manifest: Manifest) -> None:
        if manifest.kind != self.kind:
            raise StoreError(
                f"{self.root} is a {manifest.kind} store; choose another folder for this."
            )
        if manifest.recipe == self.recipe or self.overwrite:
            return
        keys = sorted(manifest.recipe.keys() | self.recipe.keys())
        changed = [k for k in keys if manifest.recipe.get(k) != self.recipe.get(k)]
        shown = "; ".join(
            f"{k}: {_short(manifest.recipe.get(k))} there, {_short(self.recipe.get(k))} now"
            for k in changed
        )
        raise StoreError(
            f"{self.root} was built from something else ({shown}). "
            "Choose another output folder, or pass --overwrite to replace it."
        )

    def _damaged(self, manifest: Manifest) -> bool:
        """Check every block; where some are damaged, keep records of the others and reopen."""
        found = {
            name: damage
            for name, block in manifest.blocks.items()
            if (damage := damage_of(self.root, name, block)) is not None
        }
        if not found:
            return False
        for damage in found.values():
            warn(f"{damage}; it is being rebuilt.")
        for name, block in manifest.blocks.items():
            if name not in found:
                write_json_durably(self.sink._record(name), asdict(block))
        write_json_durably(self.root / _RECIPE, self.recipe)
        # only now: until the records stand, the manifest is what the next run needs
        (self.root / MANIFEST).unlink()
        sync_folder(self.root)
        return True

    def _same_recipe_as_interrupted(self) -> bool:
        try:
            return bool(read_json(self.root / _RECIPE) == self.recipe)
        except (OSError, ValueError):
            return False

    def _clear(self) -> None:
        # the manifest first: a reader must not see it while blocks vanish
        (self.root / MANIFEST).unlink(missing_ok=True)
        for path in self.root.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def _begin(self) -> None:
        write_json_durably(self.root / _RECIPE, self.recipe)
        shutil.rmtree(self.root / _TEMPORARY, ignore_errors=True)
        for left_over in self.root.rglob(f".*{TEMPORARY}"):
            left_over.unlink()
        for name, block in self._finished_blocks().items():
            damage = damage_of(self.root, name, block)
            if damage is None:
                self.resumed = True
            else:
                warn(f"{damage}; it is being rebuilt.")
                self.sink._record(name).unlink()
        if self.resumed:
            say(f"  going on from {len(self._finished_blocks())} finished blocks in {self.root}")

    def _finished_blocks(self) -> dict[str, BlockRecord]:
        folder = self.root / _RECORDS
        return {
            path.relative_to(folder).as_posix().removesuffix(".json"): BlockRecord(
                **read_json(path)
            )
            for path in sorted(folder.rglob("*.json"))
        }


def recipe_name(recipe: dict[str, Any]) -> str:
    """A short name of a recipe, for folders that hold one artifact a recipe."""
    return fingerprint(recipe)[:12]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "…"
