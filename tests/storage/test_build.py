from __future__ import annotations

import json
import multiprocessing
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import ConfigError, DamagedBlockError, LakeError, StoreError
from pipeline.storage.artifact import MANIFEST, Artifact
from pipeline.storage.build import Build
from tests.lakes import tree_bytes

RECIPE: dict[str, Any] = {"input": "abc", "order": 3}


def make(root: Path, recipe: dict[str, Any] = RECIPE, *, overwrite: bool = False) -> list[str]:
    """Build two arrays and a text; return the names of the blocks that had to be written."""
    written = []
    with Build(root, "graph", recipe, overwrite=overwrite) as build:
        if build.finished is None:
            for name in ("a.npy", "deep/b.npy"):
                if not build.sink.has(name):
                    build.sink.array(name, np.arange(12, dtype=np.float32).reshape(3, 4))
                    written.append(name)
            if not build.sink.has("c.json"):
                build.sink.json("c.json", {"x": 1})
                written.append("c.json")
            build.commit({"nodes": 3}, {"seconds": {"all": 1.0}})
    return written


def test_finished_artifact_reads_back_and_is_reused(tmp_path: Path) -> None:
    assert make(tmp_path / "out") == ["a.npy", "deep/b.npy", "c.json"]
    artifact = Artifact.open(tmp_path / "out", "graph")
    np.testing.assert_array_equal(artifact.array("deep/b.npy"), np.arange(12.0).reshape(3, 4))
    assert artifact.json("c.json") == {"x": 1}
    assert artifact.measurements() == {"seconds": {"all": 1.0}}
    before = tree_bytes(tmp_path / "out")
    assert make(tmp_path / "out") == []
    assert tree_bytes(tmp_path / "out") == before


def test_same_recipe_gives_same_bytes_anywhere(tmp_path: Path) -> None:
    make(tmp_path / "one")
    make(tmp_path / "two")
    assert tree_bytes(tmp_path / "one") == tree_bytes(tmp_path / "two")


def test_rows_appended_one_by_one_equal_one_array(tmp_path: Path) -> None:
    whole = np.arange(40, dtype=np.int64).reshape(10, 4)
    with Build(tmp_path / "out", "graph", RECIPE) as build:
        build.sink.array("whole.npy", whole)
        with build.sink.array_writer("parts.npy", whole.shape, whole.dtype) as writer:
            for row in range(10):
                writer.append(whole[row : row + 1])
        manifest = build.commit({}, {})
    assert manifest.blocks["whole.npy"] == manifest.blocks["parts.npy"]


def test_interrupted_build_goes_on(tmp_path: Path) -> None:
    def killed() -> None:
        with Build(tmp_path / "out", "graph", RECIPE) as build:
            build.sink.array("a.npy", np.arange(12, dtype=np.float32).reshape(3, 4))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        killed()
    with pytest.raises(StoreError, match="unfinished"):
        Artifact.open(tmp_path / "out", "graph")
    assert make(tmp_path / "out") == ["deep/b.npy", "c.json"]
    make(tmp_path / "undisturbed")
    assert tree_bytes(tmp_path / "out") == tree_bytes(tmp_path / "undisturbed")


def interrupted(out: Path, recipe: dict[str, Any], error: BaseException, **options: Any) -> None:
    """A build that ends with `error` after its first block."""
    with suppress(type(error)), Build(out, "graph", recipe, **options) as build:
        build.sink.array("first.npy", np.zeros(3))
        raise error


def test_unfinished_work_on_something_else_is_not_thrown_away_unasked(tmp_path: Path) -> None:
    interrupted(tmp_path / "out", {"input": "other"}, KeyboardInterrupt())
    with pytest.raises(StoreError, match="unfinished work on something else"):
        make(tmp_path / "out")
    assert (tmp_path / "out" / "first.npy").exists()
    make(tmp_path / "out", overwrite=True)
    make(tmp_path / "undisturbed")
    assert tree_bytes(tmp_path / "out") == tree_bytes(tmp_path / "undisturbed")


def test_unusable_input_leaves_nothing(tmp_path: Path) -> None:
    interrupted(tmp_path / "out", RECIPE, LakeError("row 7 is bad"))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    interrupted(tmp_path / "mine", RECIPE, LakeError("row 7 is bad"))
    assert list((tmp_path / "mine").iterdir()) == []


def test_other_errors_keep_finished_blocks(tmp_path: Path) -> None:
    interrupted(tmp_path / "out", RECIPE, ConfigError("too little memory"))
    with Build(tmp_path / "out", "graph", RECIPE) as build:
        assert build.resumed
        assert build.sink.has("first.npy")
    # nor does bad input in a run that only goes on
    interrupted(tmp_path / "out", RECIPE, LakeError("row 7 is bad"))
    assert (tmp_path / "out" / "first.npy").exists()


def test_failed_replacement_leaves_the_old_artifact(tmp_path: Path) -> None:
    make(tmp_path / "out")
    before = tree_bytes(tmp_path / "out")
    other = {**RECIPE, "order": 4}
    interrupted(tmp_path / "out", other, LakeError("row 7 is bad"), overwrite=True)
    assert tree_bytes(tmp_path / "out") == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_replacement_goes_on_after_a_crash_then_takes_the_place(tmp_path: Path) -> None:
    make(tmp_path / "out")
    before = tree_bytes(tmp_path / "out")
    other = {**RECIPE, "order": 4}
    interrupted(tmp_path / "out", other, KeyboardInterrupt(), overwrite=True)
    assert tree_bytes(tmp_path / "out") == before
    with Build(tmp_path / "out", "graph", other, overwrite=True) as build:
        assert build.sink.has("first.npy")
        build.commit({}, {})
    assert Artifact.open(tmp_path / "out", "graph").manifest.recipe == other
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_straggler_of_an_earlier_build_does_not_count(tmp_path: Path) -> None:
    with Build(tmp_path / "out", "graph", {"input": "old"}) as old:
        straggler = old.sink
    with Build(tmp_path / "out", "graph", RECIPE) as build:
        straggler.array("a.npy", np.zeros(3))
        assert not build.sink.has("a.npy")
        build.sink.array("a.npy", np.ones(3))
        manifest = build.commit({}, {})
    assert list(manifest.blocks) == ["a.npy"]


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_any_flipped_byte_is_named_and_rebuilt(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("flip") / "out"
    make(root)
    before = tree_bytes(root)
    name = data.draw(st.sampled_from(["a.npy", "deep/b.npy", "c.json"]))
    content = bytearray((root / name).read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    (root / name).write_bytes(content)
    with pytest.raises(DamagedBlockError, match=name):
        Artifact.open(root, "graph").path(name)
    assert make(root) == [name]
    assert tree_bytes(root) == before


@pytest.mark.parametrize("harm", ["truncate", "remove"])
def test_missing_or_short_block_is_rebuilt(
    tmp_path: Path, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "out")
    block = tmp_path / "out" / "deep" / "b.npy"
    if harm == "remove":
        block.unlink()
    else:
        block.write_bytes(block.read_bytes()[:-1])
    assert make(tmp_path / "out") == ["deep/b.npy"]
    assert "b.npy" in capsys.readouterr().err


@pytest.mark.parametrize("harm", ["edited", "truncated"])
def test_damaged_manifest_is_noticed_and_rebuilt(tmp_path: Path, harm: str) -> None:
    make(tmp_path / "out")
    before = tree_bytes(tmp_path / "out")
    path = tmp_path / "out" / MANIFEST
    text = path.read_text()
    path.write_text(text.replace('"nodes": 3', '"nodes": 4') if harm == "edited" else text[:90])
    with pytest.raises(DamagedBlockError, match=MANIFEST):
        Artifact.open(tmp_path / "out", "graph")
    assert len(make(tmp_path / "out")) == 3
    assert tree_bytes(tmp_path / "out") == before


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "a web app"}'])
def test_manifest_of_another_program_is_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(StoreError, match=MANIFEST):
        Artifact.open(tmp_path, "graph")
    with pytest.raises(StoreError, match=MANIFEST):
        make(tmp_path, overwrite=True)
    assert (tmp_path / MANIFEST).read_text() == text


def test_newer_format_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "out")
    path = tmp_path / "out" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), "version": 99}))
    with pytest.raises(StoreError, match="version 99"):
        Artifact.open(tmp_path / "out", "graph")


def test_other_recipe_needs_overwrite_and_says_what_differs(tmp_path: Path) -> None:
    make(tmp_path / "out")
    with pytest.raises(StoreError, match="order: 3 there, 4 now"):
        make(tmp_path / "out", {**RECIPE, "order": 4})
    assert Artifact.open(tmp_path / "out", "graph").manifest.recipe == RECIPE
    assert len(make(tmp_path / "out", {**RECIPE, "order": 4}, overwrite=True)) == 3


def test_other_kind_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "out")
    with pytest.raises(StoreError, match="graph store"):
        Artifact.open(tmp_path / "out", "basis")


def test_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(StoreError, match="not this program's"):
        make(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_file_as_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        make(tmp_path / "out")


def _try_to_build(root: Path, result: Any) -> None:
    try:
        make(root)
        result.put("built")
    except StoreError as error:
        result.put(str(error))


def test_two_builders_at_once_are_refused(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    result = context.Queue()
    with Build(tmp_path / "out", "graph", RECIPE):
        other = context.Process(target=_try_to_build, args=(tmp_path / "out", result))
        other.start()
        said = result.get(timeout=60)
        other.join()
    assert "another process" in said
