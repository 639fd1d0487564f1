"""Writing the blocks of an artifact that is not finished yet."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import xxhash

from pipeline.storage.artifact import BUILDING, BlockRecord
from pipeline.storage.files import (
    checksum_file,
    read_json,
    replace_durably,
    write_json_durably,
)
from pipeline.types import Array

_RECORDS: Final = f"{BUILDING}/records"
_TEMPORARY: Final = f"{BUILDING}/temporary"


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
    token: str
    """Names the build: what a straggler of an earlier one still writes does not count in this."""

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

    @property
    def work(self) -> Path:
        """A folder for a stage's intermediate files; gone once the artifact is finished."""
        return self.root / BUILDING / "work" / self.token

    @property
    def folders(self) -> tuple[Path, ...]:
        """What belongs to this build beside its blocks."""
        return self.root / _RECORDS / self.token, self.work

    def finished(self) -> dict[str, BlockRecord]:
        """The records of all finished blocks."""
        folder = self.root / _RECORDS / self.token
        return {
            path.relative_to(folder).as_posix().removesuffix(".json"): BlockRecord(
                **read_json(path)
            )
            for path in sorted(folder.rglob("*.json"))
        }

    def record(self, name: str, block: BlockRecord) -> None:
        """Vouch for a block whose bytes are in place."""
        write_json_durably(self._record(name), asdict(block))

    def forget(self, name: str) -> None:
        """Have a block written again."""
        self._record(name).unlink(missing_ok=True)

    def _record(self, name: str) -> Path:
        return self.root / _RECORDS / self.token / f"{name}.json"

    def _temporary(self) -> Path:
        folder = self.root / _TEMPORARY / self.token
        folder.mkdir(parents=True, exist_ok=True)
        return folder / uuid.uuid4().hex

    def _finish(self, name: str, temporary: Path, record: BlockRecord) -> None:
        replace_durably(temporary, self.root / name)
        # the record second: it vouches for bytes that are already in place
        self.record(name, record)
