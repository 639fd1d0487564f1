"""Heads as safetensors files: the weights and all that is needed to load them again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from pipeline.config import HeadConfig
from pipeline.errors import GscnetError, StoreError
from pipeline.models.head import PrecomputedHead, build_head
from pipeline.storage.files import canonical_json

_KEY: Final = "gscnet.head"
_VERSION: Final = 1


def save_head(head: PrecomputedHead, path: Path, notes: dict[str, Any] | None = None) -> None:
    """Write a head; equal heads give equal bytes. `notes` (JSON-like) are kept in the file."""
    about = {
        "version": _VERSION,
        "head": asdict(head.config),
        "features": head.features,
        "classes": head.classes,
        "notes": notes or {},
    }
    weights = {name: w.detach().cpu().contiguous() for name, w in head.state_dict().items()}
    # a single key: safetensors writes several in an order that changes from run to run
    save_file(weights, path, metadata={_KEY: canonical_json(about)})


def load_head(path: Path, device: torch.device | str = "cpu") -> PrecomputedHead:
    """The head that `save_head` wrote.

    Raises:
        StoreError: the file is missing, damaged, or holds something else.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        if _KEY not in metadata:
            raise StoreError(f"{path} holds tensors, but no head of this project.")
        about = json.loads(metadata[_KEY])
        if about["version"] != _VERSION:
            raise StoreError(
                f"{path} has format version {about['version']}; "
                f"this program reads version {_VERSION}."
            )
        head = build_head(HeadConfig(**about["head"]), about["features"], about["classes"], seed=0)
        head.load_state_dict(load_file(path))
    except FileNotFoundError as error:
        raise StoreError(f"{path} is missing.") from error
    except GscnetError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise StoreError(f"{path} cannot be read as a head ({error}).") from error
    return head.to(device)
