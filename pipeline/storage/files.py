"""Files that are whole or absent, and checksums that tell whether they still are."""

from __future__ import annotations

import json
import mmap
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash

from pipeline.types import Array

TEMPORARY: Final = ".tmp"
"""How the name of a file ends that is being written."""
_PIECE: Final = 16 << 20


def checksum_file(path: Path) -> str:
    """The XXH3-128 checksum of a file's bytes."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            return digest.hexdigest()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view, memoryview(view) as raw:
            for start in range(0, len(raw), _PIECE):
                digest.update(raw[start : start + _PIECE])
    return digest.hexdigest()


def fingerprint(value: object) -> str:
    """A short name for a JSON-like value: equal values, and only those, share it."""
    return xxhash.xxh3_128(canonical_json(value).encode()).hexdigest()


def canonical_json(value: object) -> str:
    """JSON with sorted keys and no choice of whitespace, so that equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_durably(temporary: Path, final: Path) -> None:
    """Move a written and synced file to its final name in one step."""
    final.parent.mkdir(parents=True, exist_ok=True)
    temporary.replace(final)
    sync_folder(final.parent)


def write_text_durably(path: Path, text: str) -> None:
    """Write a small text file so that a reader sees the old content or the new, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        replace_durably(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json_durably(path: Path, value: object) -> None:
    """Write JSON for people and programs: indented, keys in the order given."""
    write_text_durably(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def map_array(path: Path) -> Array:
    """A .npy file as a read-only array, memory-mapped so that processes share its pages."""
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def read_json(path: Path) -> Any:
    """Parse a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
