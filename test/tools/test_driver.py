"""`mgx-driver` takes the words of migraphx-driver."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from mgx_mlir.tools.driver import FLAGS, REFUSED, main, translate


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run m.onnx", "run m.onnx --target gpu"),
        ("run m.onnx --cpu --fill1 x y", "run m.onnx --target cpu --fill1 x --fill1 y"),
        ("time --gpu m.onnx -n 5", "perf --target gpu m.onnx --runs 5"),
        ("perf m.onnx --iterations=5", "perf m.onnx --runs 5 --target gpu"),
        ("read m.onnx --gpu --brief --output-names a b", "read m.onnx --brief --output-names a "
         "--output-names b"),
        ("verify m.onnx --ref -i", "verify m.onnx --reference numpy --per-instruction "
         "--target gpu"),
        ("compile --onnx m.onnx --disable-fast-math -o m.mgx", "compile m.onnx --exact -o m.mgx"),
        ("perf m.onnx --exhaustive-tune", "perf m.onnx --tune=exhaustive --target gpu"),
        ("compile m.onnx --exhaustive-tune", "compile m.onnx --tune=exhaustive --target gpu"),
        ("compile m.onnx --binary -O -o m.mgx", "compile m.onnx -o m.mgx"),
        ("read m.onnx -O --debug-symbols -t 3", "read m.onnx --after optimize --locations "
         "--trim 3"),
        ("roctx m.onnx -n 2", "perf m.onnx --runs 2 --target gpu"),
        ("perf m.onnx --cpu -d", "perf m.onnx --target cpu"),
        ("onnx --list", "op --list"),
        ("run m.onnx --input-dim @x 1 3", "run m.onnx --input-dim @x 1 3 --target gpu"),
    ],
)  # fmt: skip
def test_words_are_translated(words: str, expected: str) -> None:
    assert translate(words.split()) == expected.split()


@pytest.mark.parametrize("flag", sorted(REFUSED))
def test_flags_without_a_counterpart_say_why(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "m.onnx", flag]) == 2
    assert REFUSED[flag] in capsys.readouterr().err


def test_only_verbs_that_tune_take_exhaustive_tune(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "m.onnx", "--exhaustive-tune"]) == 2
    assert "mgx tune first" in capsys.readouterr().err


def test_a_script_for_the_driver_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2, 3] x, float[2, 3] z) => '
    text += "(float[2, 3] y) { a = Add(x, z) y = Neg(a) }"
    onnx.save(onnx.parser.parse_model(text), "m.onnx")
    assert main("run --onnx m.onnx --cpu --fill1 x z --output-names a".split()) == 0
    assert "a: float32 2x3, min 2, max 2" in capsys.readouterr().out
    assert main("verify m.onnx --cpu -b".split()) == 0
    assert main("perf m.onnx --cpu --detailed -n 1".split()) == 0
    assert main("read m.onnx --gpu --brief -O -t 1".split()) == 0
    assert "mgx.add" in capsys.readouterr().out
    assert not set(FLAGS) & set(REFUSED)
