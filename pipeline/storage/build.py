"""Building an artifact so that it is whole or absent, and goes on after a crash.

OUT/.building/recipe.json        what is being built
OUT/.building/temporary/…        blocks being written
OUT/.building/records/…          one for each finished block
OUT/NAME                         a block: written and synced elsewhere, then renamed
OUT/manifest.json                last of all: from now on the artifact exists

A crash at any moment leaves either a finished artifact or records from which the next run goes on.
To replace a finished artifact by another, the new one is built in OUT.next, and the two change
places once it is finished.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from pipeline.console import say, warn
from pipeline.errors import DamagedBlockError, GscnetError, LakeError, StoreError
from pipeline.storage.artifact import (
    BUILDING,
    MANIFEST,
    MEASURED,
    MEASUREMENTS,
    Manifest,
    damage_of,
    read_manifest,
)
from pipeline.storage.files import fingerprint, read_json, sync_folder, write_json_durably
from pipeline.storage.sink import BlockSink

_RECIPE: Final = f"{BUILDING}/recipe.json"


class Build:
    """An artifact being built, held under a lock that a crash releases. Use as `with Build(…)`.

    After entering, `finished` is the manifest where there is nothing left to do; otherwise ask
    `sink.has(name)` for the blocks that an interrupted run left and write the others. `sink.root`
    is where they are until `commit`.
    """

    def __init__(
        self, out: Path, kind: str, recipe: dict[str, Any], *, overwrite: bool = False
    ) -> None:
        self.out = out.absolute()  # workers may run in another folder
        self.kind, self.recipe, self.overwrite = kind, recipe, overwrite
        self.sink = BlockSink(self.out, fingerprint([kind, recipe])[:16])
        self.finished: Manifest | None = None
        self.resumed = False
        self._made_folder = False
        self._lock: int | None = None

    @property
    def _next(self) -> Path:
        return self.out.with_name(f"{self.out.name}.next")

    @property
    def _old(self) -> Path:
        return self.out.with_name(f"{self.out.name}.old")

    def __enter__(self) -> Build:
        self._finish_interrupted_swap()
        self._check_folder()
        self._made_folder = not self.out.exists()
        self.out.mkdir(parents=True, exist_ok=True)
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
        try:
            if isinstance(error, GscnetError) and self.finished is None:
                self._leave_nothing_useless(error)
        finally:
            self._release_lock()

    def commit(self, facts: dict[str, Any], measurements: dict[str, Any]) -> Manifest:
        """Name all finished blocks in the manifest: from now on the artifact exists.

        `measurements` (seconds, memory) differ from run to run and are kept outside the manifest.
        """
        root = self.sink.root
        manifest = Manifest(
            kind=self.kind, recipe=self.recipe, facts=facts, blocks=self.sink.finished()
        )
        write_json_durably(root / MEASUREMENTS, measurements)
        write_json_durably(root / MANIFEST, manifest.to_json())
        shutil.rmtree(root / BUILDING, ignore_errors=True)
        if root != self.out:
            self.out.rename(self._old)
            root.rename(self.out)
            shutil.rmtree(self._old)
        self.finished = manifest
        return manifest

    def start_afresh(self) -> None:
        """Forget every finished block of this build."""
        for name in self.sink.finished():
            self.sink.forget(name)
        self._sweep()

    def _leave_nothing_useless(self, error: GscnetError) -> None:
        """Input that cannot be used leaves nothing behind; work that another run can use stays."""
        bad_input = isinstance(error, LakeError) and not self.resumed
        if self.sink.finished() and not bad_input:
            return
        with suppress(OSError):  # the user is to see the error itself
            if self.sink.root != self.out or self._made_folder:
                shutil.rmtree(self.sink.root)
            else:
                _empty(self.out)

    def _finish_interrupted_swap(self) -> None:
        if not self.out.exists() and (self._next / MANIFEST).exists():
            self._next.rename(self.out)

    def _check_folder(self) -> None:
        if not self.out.exists():
            return
        if not self.out.is_dir():
            raise StoreError(f"{self.out} is a file; the output must be a folder.")
        ours = (self.out / MANIFEST).exists() or (self.out / BUILDING).exists()
        if not ours and any(self.out.iterdir()):
            raise StoreError(
                f"{self.out} holds files that are not this program's; choose an empty folder."
            )

    def _take_lock(self) -> None:
        self._lock = os.open(self.out, os.O_RDONLY)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._release_lock()
            raise StoreError(
                f"{self.out} is being built by another process; wait for it or stop it."
            ) from error

    def _release_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _find_what_is_there(self) -> None:
        shutil.rmtree(self._old, ignore_errors=True)  # of a swap that was interrupted at its end
        try:
            manifest = read_manifest(self.out)
        except DamagedBlockError as error:
            warn(f"{error} Everything in {self.out} is built again.")
            self._reopen()
            manifest = None
        if manifest is None:
            self._begin()
        elif manifest.kind != self.kind:
            raise StoreError(
                f"{self.out} is a {manifest.kind} store; choose another folder for this."
            )
        elif manifest.recipe != self.recipe:
            self._begin_beside(manifest)
        elif self._reopen_if_damaged(manifest):
            self._begin()
        else:
            shutil.rmtree(self.out / BUILDING, ignore_errors=True)
            shutil.rmtree(self._next, ignore_errors=True)
            self.finished = manifest

    def _reopen(self) -> None:
        """Turn a finished artifact into an unfinished one, with the blocks recorded so far."""
        # the recipe before the manifest goes: a folder with neither would not be known as ours
        write_json_durably(self.out / _RECIPE, self.recipe)
        (self.out / MANIFEST).unlink()
        sync_folder(self.out)

    def _reopen_if_damaged(self, manifest: Manifest) -> bool:
        """Check every block; where some are damaged, keep the others and have those rebuilt."""
        checked = {n: damage_of(self.out, n, block) for n, block in manifest.blocks.items()}
        damages = [damage for damage in checked.values() if damage is not None]
        if not damages:
            return False
        for damage in damages:
            warn(f"{damage}; it is being rebuilt.")
        for name, block in manifest.blocks.items():
            if checked[name] is None:
                self.sink.record(name, block)
        self._reopen()
        return True

    def _begin_beside(self, standing: Manifest) -> None:
        """Build next to a finished artifact of another recipe, which stays until the commit."""
        if not self.overwrite:
            raise StoreError(
                f"{self.out} was built from something else "
                f"({_differences(standing.recipe, self.recipe)}). "
                "Choose another output folder, or pass --overwrite to replace it."
            )
        self.sink = BlockSink(self._next, self.sink.token)
        self._begin()

    def _begin(self) -> None:
        """Go on with an interrupted build of this recipe, or start one."""
        self._check_interrupted()
        write_json_durably(self.sink.root / _RECIPE, self.recipe)
        for name, block in self.sink.finished().items():
            damage = damage_of(self.sink.root, name, block)
            if damage is not None:
                warn(f"{damage}; it is being rebuilt.")
                self.sink.forget(name)
        self._sweep()
        kept = len(self.sink.finished())
        self.resumed = kept > 0
        if self.resumed:
            say(f"  going on from {kept} finished blocks in {self.sink.root}")

    def _check_interrupted(self) -> None:
        """Refuse to throw away another recipe's unfinished work unasked."""
        try:
            other = read_json(self.sink.root / _RECIPE)
        except (OSError, ValueError):
            return
        if other == self.recipe or self.overwrite:
            return
        if not BlockSink(self.sink.root, fingerprint([self.kind, other])[:16]).finished():
            return
        raise StoreError(
            f"{self.out} holds unfinished work on something else "
            f"({_differences(other, self.recipe)}). Run that command again to finish it, choose "
            "another output folder, or pass --overwrite to start afresh."
        )

    def _sweep(self) -> None:
        """Remove what no finished block of this build accounts for."""
        root = self.sink.root
        kept = {root / name for name in self.sink.finished()} | {root / _RECIPE}
        ours = (*self.sink.folders, root / MEASURED)
        for path in sorted(root.rglob("*"), reverse=True):  # what is in a folder before the folder
            if path in kept or any(path.is_relative_to(folder) for folder in ours):
                continue
            if path.is_dir() and not path.is_symlink():
                with suppress(OSError):  # not empty: something in it is kept
                    path.rmdir()
            else:
                path.unlink()


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _differences(there: Any, now: dict[str, Any]) -> str:
    there = there if isinstance(there, dict) else {}
    keys = sorted(there.keys() | now.keys())
    return "; ".join(
        f"{key}: {_short(there.get(key))} there, {_short(now.get(key))} now"
        for key in keys
        if there.get(key) != now.get(key)
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "…"
