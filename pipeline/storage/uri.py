"""Where tables live: a local path, or s3:// and gs:// through pyarrow.fs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import ArrowException, fs

from pipeline.errors import ConfigError, LakeError


@dataclass(frozen=True)
class SourceFile:
    """One file of a table: its path within `filesystem` and what identifies this version of it."""

    path: str
    size: int
    modified_ns: int


def resolve(uri: str) -> tuple[Any, str]:
    """The pyarrow filesystem and the path within it that a URI or a local path names."""
    if "://" not in uri:
        return fs.LocalFileSystem(), str(local_path(uri, "the lake").absolute())
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
    except (ArrowException, NotImplementedError, OSError, ValueError) as error:
        raise LakeError(f"{uri!r} is not a URI that can be read here ({error}).") from error
    return filesystem, path


def list_parquet(uri: str) -> tuple[Any, list[SourceFile]]:
    """All Parquet files that a URI names, in the order of their paths.

    A file is taken as it is; of a folder, every *.parquet below it whose name and folders do not
    start with '.' or '_' (what writers use for what is not data).
    """
    filesystem, path = resolve(uri)
    try:
        info = filesystem.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise LakeError(f"{uri} does not exist.")
        if info.type == fs.FileType.File:
            return filesystem, [_source(info)]
        found = filesystem.get_file_info(fs.FileSelector(path, recursive=True))
    except (OSError, ArrowException) as error:
        raise LakeError(f"{uri} cannot be read ({error}).") from error
    files = [
        _source(item)
        for item in found
        if item.type == fs.FileType.File
        and item.path.endswith((".parquet", ".pq"))
        and not _hidden(item.path[len(path) :])
    ]
    if not files:
        raise LakeError(f"{uri} is a folder without Parquet files.")
    return filesystem, sorted(files, key=lambda file: file.path)


def local_path(text: str, field: str) -> Path:
    """The local path that `text` names; `field` is named in the error for anything else."""
    if "://" in text:
        raise ConfigError(f"{field} must be a local path; {text} is not.")
    try:
        text.encode("utf-8")
        path = Path(text).expanduser()
    except (UnicodeEncodeError, RuntimeError) as error:
        raise ConfigError(f"{field} must be a path in UTF-8; {text!r} is not ({error}).") from error
    if not text.strip() or "\0" in text:
        raise ConfigError(f"{field} must be a path, not {text!r}.")
    return path


def _source(info: Any) -> SourceFile:
    return SourceFile(path=info.path, size=info.size, modified_ns=info.mtime_ns or 0)


def _hidden(relative: str) -> bool:
    return any(part.startswith((".", "_")) for part in relative.split("/") if part)
