from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from pipeline.options import parse_bytes


def verb(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Run a verb with --json and return the object on the last line of stdout."""
    assert main([*words, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return found


def test_the_whole_way_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = {
        "synth": "--like pokec --scale 0.004 --out lake",
        "ingest": "--edges lake/edges --nodes lake/nodes --out graph",
        "propagate": "graph --order 2 --out basis --dtype float16 --memory 2GiB",
        "train": "basis --models gscnet,mlp --splits 2 --epochs 40 --out run",
    }
    verbs = {name: [name, *line.split()] for name, line in lines.items()}
    for name, words in verbs.items():
        found = verb(capsys, *words)
        assert found["verb"] == name
        assert not found["reused"]
        assert found["peak_memory_bytes"] > 0
        assert all(seconds >= 0 for seconds in found["seconds"].values())
        assert all(Path(path).exists() for path in found["outputs"].values())
    gscnet, mlp = verb(capsys, *verbs["train"])["models"]
    assert gscnet["accuracy"] > mlp["accuracy"] + 0.1
    for words in verbs.values():
        assert verb(capsys, *words)["reused"]
    report = verb(capsys, "report", "run")
    assert Path(report["outputs"]["report"]).read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["propagate", "nowhere", "--order", "2", "--out", "o"], "holds no graph store"),
        (["train", "nowhere", "--out", "o"], "holds no basis store"),
        (["report", "nowhere"], "holds no run store"),
        (["ingest", "--edges", "none", "--nodes", "none", "--out", "o"], "none does not exist"),
        (["synth", "--like", "wiki", "--scale", "2", "--out", "o"], "SynthConfig.scale"),
        (["propagate", "s", "--order", "2", "--out", "s3://b/o"], "--out must be a local path"),
        (["train", "s", "--out", "o", "--dropout", "1"], "HeadConfig.dropout"),
    ],
)
def test_unusable_input_is_one_sentence_and_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("error: ")
    assert sentence in shown.err
    assert shown.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fly"], "invalid choice: 'fly'"),
        (["train", "b", "--out", "o", "--models", "gscnet,gcm"], "'gcm' is not a model"),
        (["propagate", "s", "--out", "o", "--order", "2", "--memory", "lots"], "such as 4GiB"),
        (["propagate", "s", "--out", "o", "--order", "-1"], "is below 0"),
        (["ingest", "--edges", "e", "--out", "o"], "--nodes"),
    ],
)
def test_typos_are_explained(
    capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert sentence in capsys.readouterr().err


def test_wrong_order_is_refused_before_any_worker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake, graph, basis = (str(tmp_path / name) for name in ("lake", "graph", "basis"))
    verb(capsys, "synth", "--like", "pokec", "--scale", "0.0005", "--out", lake)
    verb(capsys, "ingest", "--edges", f"{lake}/edges", "--nodes", f"{lake}/nodes", "--out", graph)
    verb(capsys, "propagate", graph, "--order", "1", "--out", basis)
    assert main(["train", basis, "--out", str(tmp_path / "run")]) == 2
    assert "propagate with --order 2" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "count"),
    [("100", 100), ("4GiB", 4 << 30), ("1.5 MiB", 3 << 19), ("2gb", 2 * 10**9), ("7k", 7000)],
)
def test_amounts_of_memory(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "4 apples", "1..5GiB", "-3"])
def test_what_is_no_amount(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        parse_bytes(text)


def test_ray_is_not_loaded_without_workers() -> None:
    """Every stage of a one-process run, imported: no Ray."""
    code = "import sys, pipeline.job, pipeline.cli; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_jobs_explain_themselves() -> None:
    for job in ("train_wiki", "train_pokec"):
        done = subprocess.run(
            [sys.executable, f"jobs/{job}.py", "--help"],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0
        for word in ("--edges", "--nodes", "--scale", "--workers", "--work", "--K1"):
            assert word in done.stdout
