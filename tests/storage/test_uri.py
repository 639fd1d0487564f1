from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigError, LakeError
from pipeline.storage.uri import list_parquet, local_path


def test_folder_lists_data_files_in_order(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet", "_meta.parquet", ".hidden.parquet", "read.me"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "c.parquet").write_bytes(b"x")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "d.parquet").write_bytes(b"x")
    _, files = list_parquet(str(tmp_path))
    names = [Path(file.path).relative_to(tmp_path).as_posix() for file in files]
    assert names == ["a.parquet", "b.parquet", "deep/d.parquet"]


def test_file_uri_and_plain_path_agree(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"x")
    assert (
        list_parquet(f"file://{tmp_path}/a.parquet")[1]
        == list_parquet(str(tmp_path / "a.parquet"))[1]
    )


@pytest.mark.parametrize(
    ("name", "sentence"), [("nothing", "does not exist"), ("empty", "without Parquet files")]
)
def test_what_is_not_there(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(LakeError, match=sentence):
        list_parquet(str(tmp_path / name))


def test_unknown_scheme_is_a_sentence() -> None:
    with pytest.raises(LakeError, match="nowhere://bucket"):
        list_parquet("nowhere://bucket/edges")


def test_stores_are_local() -> None:
    with pytest.raises(ConfigError, match="--out must be a local path"):
        local_path("s3://bucket/store", "--out")
