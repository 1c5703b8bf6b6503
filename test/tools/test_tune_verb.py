"""mgx tune, and what the other verbs do with its results."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import onnx
import pytest

import mgx_mlir
from mgx_mlir.artifact.target import Target
from mgx_mlir.tools.mgx import main
from mgx_mlir.tuning import search
from mgx_mlir.tuning.database import NAME, Database
from mgx_mlir.tuning.lookup import key_of
from mgx_mlir.tuning.record import Record
from mgx_mlir.tuning.work import examine
from test.tuning.models import CHIP, model
from test.tuning.records import record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("MGX_HIP", "emulated")
    monkeypatch.setenv("MGX_JOBS", "1")
    return tmp_path / "cache"


@pytest.fixture
def small(tmp_path: Path) -> str:
    onnx.save(model(), tmp_path / "small.onnx")
    return str(tmp_path / "small.onnx")


def win(folder: Path, artifact: mgx_mlir.Artifact) -> str:
    """Writes that the worst estimate of the first kernel's schedules won; gives its words."""
    target = Target.get(CHIP)
    problem, space = examine(artifact.kernels[0].bytecode, target)
    assert space is not None
    schedule = space.options[-1].schedule
    key = key_of(problem.key, target, True)
    won = Record(key, "rows", "dot", schedule, 2.0, 1.0, 0.0, False, "d", "1", "2026-01-01")
    with Database(folder, write=True) as database:
        database.put(won)
    return schedule.words


def test_problems_are_listed_as_json(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", small, "--target", CHIP, "--list-problems"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(found) == 3
    assert [p["estimate"] for p in found] == sorted((p["estimate"] for p in found), reverse=True)
    assert all(p["launches"] == 1 and p["schedules"] > 10 for p in found)


def test_a_model_is_tuned_and_its_artifact_written(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "small.mgx"
    arguments = ["tune", small, "--target", CHIP, "--kernels", "relu", "-o", str(out)]
    arguments += ["--tried", "2"]
    assert main(arguments) == 0
    first = "1 x transpose dot relu of float16 32x64, float16 128x64: "
    assert capsys.readouterr().out.startswith(first)
    assert CHIP in mgx_mlir.load(out).code_objects
    assert main(["tune", "--list"]) == 0
    assert "dot relu" in capsys.readouterr().out
    assert main(arguments) == 0
    assert "(known)" in capsys.readouterr().out


def test_inspect_says_which_source_chose_a_schedule(
    small: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = win(folder, mgx_mlir.compile_to_bytecode(small))
    out = str(tmp_path / "small.mgx")
    for extra, source in (((), "user's tuning database"), (("--no-tuning-db",), "; untuned")):
        assert main(["compile", small, "-o", out, "--arch", CHIP, *extra]) == 0
        capsys.readouterr()
        assert main(["inspect", out, "--why"]) == 0
        first = capsys.readouterr().out.splitlines()[1]
        assert source in first and (words in first) == (not extra)
    name = mgx_mlir.load(out).kernels[0].name
    assert main(["inspect", out, "--why", "--kernel", name]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("tuned: ") and words in last


def test_records_are_exported_imported_merged_and_forgotten(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Database(folder, write=True) as database:
        database.put(record(1))
        database.put(record(2, chip="gfx1100"))
    file = tmp_path / "records.jsonl"
    assert main(["tune", "--export", str(file)]) == 0
    assert main(["tune", "--forget", "gfx11"]) == 0
    assert main(["tune", "--import", str(file)]) == 0
    assert "records deleted: 1" in (out := capsys.readouterr().out) and "1 records added, 1" in out
    with Database(tmp_path / "other", write=True) as database:
        database.put(record(3))
    assert main(["tune", "--merge", str(tmp_path / "other")]) == 0
    with Database(folder) as database:
        assert list(database.records()) == [record(1), record(2, chip="gfx1100"), record(3)]
    again = tmp_path / "again.jsonl"
    assert main(["tune", "--forget", " 3$"]) == main(["tune", "--export", str(again)]) == 0
    assert again.read_bytes() == file.read_bytes()


@pytest.mark.parametrize("text", ["{", "[1]\n", '{"problem": 1}\n', "\0"])
def test_a_file_of_no_records_changes_nothing(text: str, tmp_path: Path, folder: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(json.dumps(record(1).to_json()) + "\n" + text)
    assert main(["tune", "--import", str(file)]) == 2
    with sqlite3.connect(folder / NAME) as connection:
        assert connection.execute("select count(*) from problems").fetchone() == (0,)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--list", "--forget", "x"],
        ["--forget", "("],
        ["--import", "none.jsonl"],
        ["--merge", "none"],
        ["{model}", "--target", "cpu"],
        ["{model}", "--kernels", "("],
    ],
)
def test_wrong_usage_is_said(arguments: list[str], small: str) -> None:
    words = [word.replace("{model}", small) for word in arguments]
    assert main(["tune", *words]) == 2


def test_other_verbs_tune_first(
    small: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = tuple(2 if x == search.TRIED else x for x in search.Effort.__init__.__defaults__)
    monkeypatch.setattr(search.Effort.__init__, "__defaults__", defaults)
    assert main(["run", "--tune", small, "--target", CHIP]) == 0
    assert main(["tune", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 3
    assert main(["compile", "--tune", small, "--target", "cpu"]) == 2
    assert "--tune needs --arch" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["run", "--tune=most", small])
    with pytest.raises(mgx_mlir.MgxError, match="exhaustive"):
        mgx_mlir.compile(small, CHIP, tune="most")


def test_tune_says_what_it_kept(
    small: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["tune", small, "--target", CHIP, "--tried", "1"]
    assert main(words) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"{folder / NAME}: 3 problems") and "-o writes an artifact" in last
    monkeypatch.setenv("MGX_CACHE_DIR", "none")
    assert main(words) == 0
    assert "nothing was kept" in capsys.readouterr().out.splitlines()[-1]
