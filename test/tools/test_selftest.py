"""mgx selftest: the kernels of a GPU beside the CPU, and faults that it has to find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mgx_mlir
from mgx_mlir import CompileOptions
from mgx_mlir.finalizer.cache import Entry
from mgx_mlir.finalizer.cache_entry import read_entry
from mgx_mlir.loader import kernel_cache
from mgx_mlir.settings import Settings
from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.selftest import Outcome, Results, names
from mgx_mlir.tools.selftest.cases import FORMS, Case, cases
from mgx_mlir.tools.selftest.trial import Reference, tried

SUM = Case(next(form for form in FORMS if form.name == "a sum"), "f32", False)


def settings(folder: Path) -> Settings:
    return Settings(cache_dir=folder, jobs=1, threads=1, hip="emulated")


@pytest.fixture
def emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MGX_HIP": "emulated",
        "MGX_EMULATED_DEVICES": "gfx942,gfx942",
        "MGX_CACHE_DIR": str(tmp_path / "kernels"),
        "MGX_THREADS": "1",
    }.items():
        monkeypatch.setenv(name, value)


def entry_of_gpu(folder: Path) -> Entry:
    cache = kernel_cache(settings(folder))
    assert cache is not None
    (found,) = (e for e in cache.entries() if read_entry(e.path).arch.startswith("gfx942"))
    return found


def test_there_is_a_case_for_each_family_type_and_kind_of_size() -> None:
    found = list(cases())
    assert len({case.name for case in found}) == len(found) > 300
    assert {case.type for case in found} == {"f32", "f16", "bf16", "i8"}
    for form in FORMS:
        case = Case(form, form.types[0], True)
        assert {value.name for value in case.model().graph.input} == case.inputs().keys()


def test_a_device_that_is_right(emulated: None, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    wanted = ("peer copies", "streams", "Softmax, f16, given", "ScatterND, i8, any")
    words = [word for text in wanted for word in ("--only", text)]
    assert main(["selftest", "--target", "gfx942", *words, "-o", str(file)]) == 0
    record = json.loads(file.read_text())
    assert record["counts"] == {"ok": 4}
    assert record["device"]["chip"] == "gfx942" and record["library"] == "emulated"
    kernels = [o for o in record["outcomes"] if not o["case"].startswith("runtime")]
    assert all(o["milliseconds"] > 0 and o["estimate"] > 0 and o["kernels"] for o in kernels)


def test_a_wrong_kernel(tmp_path: Path) -> None:
    """The code of a difference in the cache, where that of a sum belongs."""
    right, other = settings(tmp_path / "right"), settings(tmp_path / "other")
    assert tried(SUM, "gfx942", right, Reference(right)).status == "ok"
    model = SUM.model()
    model.graph.node[0].op_type = "Sub"
    options = CompileOptions(input_dims={n: a.shape for n, a in SUM.inputs().items()})
    mgx_mlir.compile(model, "gfx942", options, settings=other)
    places = [entry_of_gpu(tmp_path / name).path for name in ("right", "other")]
    places[0].write_bytes(places[1].read_bytes())
    outcome = tried(SUM, "gfx942", right, Reference(right))
    assert outcome.status == "wrong"
    assert "differ by more than" in outcome.said


def test_a_kernel_that_does_not_end_and_those_after_it(
    emulated: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGX_EMULATOR_BUDGET", "300")  # a long sum takes more
    words = ["--only", "a long sum, f32, given", "--only", "Transpose, i8, given"]
    assert main(["selftest", "--target", "gfx942", *words]) == 1
    said = capsys.readouterr().out
    assert "HANG     product: a long sum, f32, given sizes" in said
    assert "1 hang, 1 ok" in said


def test_a_process_that_does_not_answer(
    emulated: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mgx_mlir.tools import selftest

    begins = 'cat >/dev/null; echo \'{"begins": "a"}\'; '
    slow = ["sh", "-c", f"{begins} exec sleep 60"]
    monkeypatch.setattr(selftest, "command_of", lambda target: slow)
    found = selftest.selftest("gfx942", ["a"], limit=0.5)
    assert found.outcomes == [Outcome("a", "hang", "it did not end within 0.5 s")]
    killed = ["sh", "-c", f"{begins} kill -ABRT $$"]
    monkeypatch.setattr(selftest, "command_of", lambda target: killed)
    found = selftest.selftest("gfx942", ["a"], limit=20)
    assert found.outcomes == [Outcome("a", "died", "its process ended by signal 6")]


def test_no_device(
    emulated: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGX_EMULATOR_FAIL", "hipGetDeviceCount:1:100")
    assert main(["selftest", "--only", "Softmax"]) == 1
    assert "hipErrorNoDevice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "no such kernel"], "--list prints them"),
        (["--target", "cpu"], "is a CPU"),
        (["--target", "gfx1310"], "unknown target 'gfx1310'"),
    ],
)
def test_wrong_words(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["selftest", *words]) != 0
    assert message in capsys.readouterr().err


def test_times_are_ranked_beside_estimates() -> None:
    times = [(1.0, 2.0), (2.0, 3.0), (3.0, 9.0), (90.0, 10.0)]
    outcomes = [Outcome(f"{n}", milliseconds=t, estimate=e) for n, (t, e) in enumerate(times)]
    results = Results(outcomes=[*outcomes, Outcome("untimed")])
    assert results.rank_correlation() == pytest.approx(1.0)
    assert results.worst()[0][1].case == "3"
    assert Results(outcomes=outcomes[:2]).rank_correlation() is None


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["gfx942", "gfx1100"])
def test_all_cases(
    chip: str, emulated: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MGX_EMULATED_DEVICES", f"{chip},{chip}")
    assert main(["selftest", "--target", chip, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"] == {"ok": len(names())}
