"""Reading a finished artifact: a folder of blocks and the manifest that names them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pipeline.errors import DamagedBlockError, StoreError
from pipeline.storage.files import checksum_file, fingerprint, map_array, read_json
from pipeline.types import Array

MANIFEST: Final = "manifest.json"
MEASUREMENTS: Final = "measurements.json"
MEASURED: Final = "measurements"
"""A folder for the measurements of parts; like MEASUREMENTS no part of the content."""
BUILDING: Final = ".building"
FORMAT_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class BlockRecord:
    """What a manifest knows of one file; files that are no array have no shape and dtype."""

    bytes: int
    checksum: str
    shape: list[int] | None = None
    dtype: str | None = None


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The table of contents of an artifact; its presence says that the artifact is finished.

    It holds neither when nor where it was made: the same recipe always gives the same manifest.
    """

    kind: str
    recipe: dict[str, Any]
    """What the artifact was made from: the config and the fingerprints of the inputs."""
    facts: dict[str, Any]
    """What is known of the content: counts, names of classes."""
    blocks: dict[str, BlockRecord]

    @property
    def content(self) -> str:
        """A fingerprint of the content alone: later stages depend on it, not on the recipe."""
        return fingerprint([self.facts, {name: b.checksum for name, b in self.blocks.items()}])

    def to_json(self) -> dict[str, Any]:
        """The form in which a manifest is stored."""
        blocks = {name: asdict(block) for name, block in sorted(self.blocks.items())}
        return {
            "format": f"gscnet.{self.kind}",
            "version": FORMAT_VERSION,
            "recipe": self.recipe,
            "facts": self.facts,
            "content": self.content,
            "blocks": blocks,
        }


def read_manifest(root: Path) -> Manifest | None:
    """The manifest in `root`, or None where no finished artifact is.

    Raises:
        DamagedBlockError: the manifest is not what was written.
        StoreError: it is another program's, or of another version of this one.
    """
    path = root / MANIFEST
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return None
    if '"gscnet.' not in text:
        raise StoreError(f"{path} is not a manifest of this program.")
    try:
        raw = json.loads(text)
        kind = str(raw["format"]).removeprefix("gscnet.")
        version = int(raw["version"])
        manifest = Manifest(
            kind=kind,
            recipe=raw["recipe"],
            facts=raw["facts"],
            blocks={name: BlockRecord(**block) for name, block in raw["blocks"].items()},
        )
        stated = raw["content"]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedBlockError(f"{path} is damaged: it cannot be read ({error}).") from error
    if version != FORMAT_VERSION:
        raise StoreError(
            f"{path} has format version {version}; this program reads version {FORMAT_VERSION}."
        )
    if manifest.content != stated:
        raise DamagedBlockError(f"{path} is damaged: its content does not match its fingerprint.")
    return manifest


def damage_of(root: Path, name: str, block: BlockRecord) -> str | None:
    """Say what is wrong with a block on disk, or None when it is the one that was written."""
    path = root / name
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return f"{path} is missing"
    if size != block.bytes:
        return f"{path} has {size:,} bytes instead of {block.bytes:,}"
    if checksum_file(path) != block.checksum:
        return f"{path} is damaged: its checksum is not the one in the manifest"
    return None


class Artifact:
    """A finished artifact, opened for reading. Every block is verified when it is first opened."""

    def __init__(self, root: Path, manifest: Manifest) -> None:
        self.root = root
        self.manifest = manifest
        self._verified: set[str] = set()
        self._arrays: dict[str, Array] = {}

    @classmethod
    def open(cls, root: Path, kind: str) -> Artifact:
        """Open the artifact of the given kind in `root`.

        Raises:
            StoreError: there is none, it is unfinished, or it is of another kind.
        """
        manifest = read_manifest(root)
        if manifest is None:
            if (root / BUILDING).is_dir():
                raise StoreError(
                    f"{root} is unfinished: the command that builds it was interrupted. "
                    "Run that command again; it goes on where it stopped."
                )
            raise StoreError(f"{root} holds no {kind} store (there is no {root / MANIFEST}).")
        if manifest.kind != kind:
            raise StoreError(f"{root} is a {manifest.kind} store; a {kind} store is needed here.")
        return cls(root, manifest)

    @property
    def facts(self) -> dict[str, Any]:
        """What the manifest says of the content."""
        return self.manifest.facts

    def path(self, name: str) -> Path:
        """The path of a block, verified the first time it is asked for.

        Raises:
            DamagedBlockError: the bytes are not the ones the manifest names.
        """
        if name not in self._verified:
            block = self.manifest.blocks.get(name)
            if block is None:
                raise StoreError(f"{self.root} has no block {name!r}.")
            damage = damage_of(self.root, name, block)
            if damage is not None:
                raise DamagedBlockError(
                    f"{damage}. Run the command that built {self.root} again: "
                    "it rebuilds what is damaged."
                )
            self._verified.add(name)
        return self.root / name

    def array(self, name: str) -> Array:
        """A block as a read-only array, memory-mapped so that processes share its pages."""
        if name not in self._arrays:
            self._arrays[name] = map_array(self.path(name))
        return self._arrays[name]

    def json(self, name: str) -> Any:
        """A block that holds JSON."""
        return read_json(self.path(name))

    def measurements(self) -> dict[str, Any]:
        """Seconds and memory of the run that built this artifact; empty where not kept."""
        try:
            found: dict[str, Any] = read_json(self.root / MEASUREMENTS)
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return found
