"""The options that verbs and jobs share, and how their values are read."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from typing import Final

from pipeline.config import MODELS, HeadConfig

_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter):
    """Shows defaults, but not those that say nothing."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default is None or action.default is False:
            return action.help
        return super()._get_help_string(action)


def add_column_options(verb: argparse._ActionsContainer) -> None:
    """The options that name the columns of the lake's tables."""
    verb.add_argument("--src", default="src", help="edge column: one end")
    verb.add_argument("--dst", default="dst", help="edge column: the other end")
    verb.add_argument("--id", default="id", help="node column: the id")
    verb.add_argument("--features", default="x", help="node column: list of numbers")
    verb.add_argument("--label", default="y", help="node column: class; null or -1 is unlabelled")


def add_head_options(verb: argparse.ArgumentParser, defaults: HeadConfig) -> None:
    """The options of a head's architecture and optimiser."""
    abouts = {
        "K1": "degree of the positive part",
        "K2": "degree of the negative part",
        "hidden": "width of the hidden layers",
        "layers": "linear layers",
        "lr": "learning rate of the MLP",
        "filter_lr": "learning rate of α and β",
        "weight_decay": "of the MLP",
        "filter_weight_decay": "of α and β",
        "dropout": "before each linear layer",
    }
    head = verb.add_argument_group("the heads")
    for name, about in abouts.items():
        default = getattr(defaults, name)
        flag = f"--{name.replace('_', '-')}"
        head.add_argument(flag, type=type(default), default=default, help=about)


def add_resource_options(verb: argparse.ArgumentParser) -> None:
    """The options that bound what a worker may use."""
    verb.add_argument("--threads", type=positive, help="of each worker (default: a fair share)")
    verb.add_argument(
        "--memory", type=parse_bytes, help="each worker may use, e.g. 4GiB (default: what is free)"
    )


def head_config(name: str, options: argparse.Namespace) -> HeadConfig:
    """The head of model `name` from the options of `add_head_options`."""
    settings = {f.name: getattr(options, f.name) for f in fields(HeadConfig) if f.name != "model"}
    return HeadConfig(model=name, **settings)


def parse_bytes(text: str) -> int:
    """'4GiB' → 4294967296; plain numbers are bytes."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kmg]i?)?b?\s*", text.lower())
    try:
        return int(float(found[1]) * _UNITS[found[2] or ""]) if found else _refuse(text)
    except (ValueError, OverflowError):
        return _refuse(text)


def _refuse(text: str) -> int:
    raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory such as 4GiB or 500MB")


def model_names(text: str) -> list[str]:
    """'gscnet,mlp' → the two names."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in MODELS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"{', '.join(unknown) or text!r} is not a model; there are {', '.join(MODELS)}"
        )
    return names


def count(text: str) -> int:
    """A whole number from 0 on."""
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"{value} is below 0")
    return value


def positive(text: str) -> int:
    """A whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is below 1")
    return value
