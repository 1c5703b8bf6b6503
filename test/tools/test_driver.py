"""`mgx-driver` takes the words of migraphx-driver."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

import mgx_mlir
from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError
from mgx_mlir.tools.driver import FLAGS, REFUSED, main, translate


def model(rows: str = "2") -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[{rows}, 3] x, float[{rows}, 3] z) => '
    return onnx.parser.parse_model(text + f"(float[{rows}, 3] y) {{ a = Add(x, z) y = Neg(a) }}")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run m.onnx --batch 2", "run m.onnx --batch 2 --target gpu"),
        ("run m.onnx", "run m.onnx --target gpu --default-dyn-dim {1,1}"),
        ("run m.onnx --cpu --fill1 x y --batch 1", "run m.onnx --target cpu --fill1 x --fill1 y "
         "--batch 1"),
        ("time --gpu m.onnx -n 5 --batch 1", "perf --target gpu m.onnx --runs 5 --batch 1"),
        ("perf m.onnx --iterations=5 --batch 1", "perf m.onnx --runs 5 --batch 1 --target gpu"),
        ("read m.onnx --gpu --brief --output-names a b", "read m.onnx --brief --output-names a "
         "--output-names b --default-dyn-dim {1,1}"),
        ("verify m.onnx --ref -i -c c.mxr --batch 1", "verify m.onnx --reference numpy "
         "--per-instruction --compiled-model c.mxr --batch 1 --target gpu"),
        ("compile --onnx m.onnx --disable-fast-math -o m.mgx", "compile m.onnx --exact -o m.mgx "
         "--default-dyn-dim {1,1}"),
        ("perf m.onnx --exhaustive-tune --batch 1", "perf m.onnx --tune=exhaustive --batch 1 "
         "--target gpu"),
        ("perf m.onnx --exhaustive-tune --batch 1 --cpu", "perf m.onnx --batch 1 --target cpu"),
        ("compile m.onnx --exhaustive-tune --batch 1", "compile m.onnx --tune=exhaustive "
         "--batch 1 --target gpu"),
        ("compile m.onnx --binary -O -o m.mgx --batch 1", "compile m.onnx -o m.mgx --batch 1"),
        ("read m.onnx -O --debug-symbols -t 3 --batch 1", "read m.onnx --after optimize "
         "--locations --trim 3 --batch 1"),
        ("roctx m.onnx -n 2 --batch 1", "perf m.onnx --runs 2 --batch 1 --target gpu"),
        ("perf m.onnx --cpu -d --nchw --skip-unknown-operators", "perf m.onnx --target cpu "
         "--skip-unknown-operators --default-dyn-dim {1,1}"),
        ("read m.onnx -o m.mxr --batch 1", "read m.onnx -o m.mxr --batch 1 --program"),
        ("read m.onnx --text -o m.mxr --batch 1", "read m.onnx -o m.mxr --batch 1"),
        ("onnx --list", "op --list"),
        ("-v", "--version"),
        ("run m.onnx --log-level trace --batch 1", "run m.onnx --log-level debug --batch 1 "
         "--target gpu"),
        ("compile m.onnx --enable-symbolic --split-sizes 16 1 --dim-param @n {min:1,max:16} "
         "--batch 1", "compile m.onnx --dim-param @n {1,16,{1,16}} --batch 1"),
        ("compile m.onnx --split-sizes=4 --dim-param @n {1,16} --batch 1",
         "compile m.onnx --dim-param @n {1,16,{4}} --batch 1"),
        ("perf --compile-mode max m.onnx --batch 1", "perf m.onnx --batch 1 --tune=exhaustive "
         "--target gpu"),
        ("perf --compile-mode=60 m.onnx --batch 1 --cpu", "perf m.onnx --batch 1 --target cpu"),
        ("run m.onnx --input-dim @x 1 3 @z 4 --dim-param @n 2 @m 3", "run m.onnx --input-dim @x "
         "1 3 --input-dim @z 4 --dim-param @n 2 --dim-param @m 3 --target gpu "
         "--default-dyn-dim {1,1}"),
    ],
)  # fmt: skip
def test_words_are_translated(words: str, expected: str) -> None:
    made = [word.replace(" ", "") for word in translate(words.split())]
    assert made == expected.split()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("compile m.onnx --split-sizes 1 2", "give it a range"),
        ("compile m.onnx --split-sizes 1 20 --dim-param @n {1,16}", "optimals ascend between"),
        ("compile m.onnx --split-sizes x --dim-param @n {1,16}", "--split-sizes x"),
        ("perf m.onnx --compile-mode quick", "'quick' is no compile mode"),
        ("verify m.onnx --compile-mode 100", "mgx tune first"),
    ],
)
def test_words_that_say_nothing_are_refused(words: str, says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        translate(words.split())


def test_an_artifact_keeps_its_sizes(tmp_path: Path) -> None:
    (tmp_path / "c.mxr").write_bytes(mgx_mlir.compile_to_bytecode(model()).to_bytes())
    words = ["run", str(tmp_path / "c.mxr"), "--migraphx", "--cpu"]
    assert translate(words) == ["run", str(tmp_path / "c.mxr"), "--target", "cpu"]


def test_operators_are_those_of_migraphx(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["op", "--list"]) == 0
    assert {"convolution", "loop", "nonmaxsuppression"} <= set(capsys.readouterr().out.split())
    assert main(["op", "leaky_relu"]) == main(["op", "slice"]) == main(["op", "convert"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        'leaky_relu: {"alpha": 0.01}',
        'slice: {"axes": null, "starts": null, "ends": null}',
        'convert: {"target_type": "half", "saturate": null}',
    ]
    assert main(["op", "softmx"]) == 2
    assert "did you mean 'softmax'" in capsys.readouterr().err


def test_variables_of_migraphx_name_their_counterpart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MIGRAPHX_TRACE_EVAL", "1")
    assert main(["--help"]) == 0
    shown = capsys.readouterr()
    assert "usage: mgx-driver" in shown.out and "mgx verify --per-instruction" in shown.err
    assert main([]) == 2
    assert main(["tf", "--list"]) == 2
    assert "TensorFlow" in capsys.readouterr().err


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
    onnx.save(model(), "m.onnx")
    assert main("run --onnx m.onnx --cpu --fill1 x z --output-names a".split()) == 0
    assert "a: float32 2x3, min 2, max 2" in capsys.readouterr().out
    assert main("verify m.onnx --cpu -b".split()) == 0
    onnx.save(model("n"), "open.onnx")
    assert main("compile --onnx open.onnx --cpu --binary --output c.mxr".split()) == 0
    assert main("run c.mxr --cpu".split()) == main("run open.onnx --cpu".split()) == 0
    assert main("verify open.onnx -c c.mxr --cpu".split()) == 0
    other = model()
    other.graph.node[1].op_type = "Abs"
    onnx.save(other, "other.onnx")
    assert main("compile other.onnx --cpu -o other.mxr".split()) == 0
    assert main("verify m.onnx -c other.mxr --cpu".split()) == 1
    assert main("verify m.onnx -c other.mxr --cpu -b".split()) == 2
    assert main("read open.onnx -o saved.mxr --batch 2".split()) == 0
    saved = migraphx.load("saved.mxr")
    assert not saved.is_compiled() and saved.get_parameter_shapes()["x"].lens() == [2, 3]
    capsys.readouterr()
    assert main("run saved.mxr --cpu --fill1 x z".split()) == 0
    assert "y: float32 2x3, min -2, max -2" in capsys.readouterr().out
    assert main("compile saved.mxr --cpu -o c.mxr".split()) == 0
    assert main("perf saved.mxr --cpu -n 1".split()) == main("read saved.mxr".split()) == 0
    assert main("run saved.mxr --cpu --int8".split()) == 2
    assert "no convolution or dot of floats with a constant" in capsys.readouterr().err
    assert main("perf saved.mxr --cpu --batch 3".split()) == 2
    assert "is imported already" in capsys.readouterr().err
    Path("saved.mxr").write_bytes(Path("saved.mxr").read_bytes()[:-40])
    assert main("run saved.mxr --cpu".split()) == 1
    assert "damaged" in capsys.readouterr().err
    assert main("perf open.onnx --cpu -n 1 --default-dyn-dim {2,4}".split()) == 0
    assert main("perf m.onnx --cpu --detailed -n 1".split()) == 0
    assert main("read m.onnx --gpu --brief -O -t 1".split()) == 0
    assert "mgx.add" in capsys.readouterr().out
    assert not set(FLAGS) & set(REFUSED)
