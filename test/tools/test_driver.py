"""`mgx-driver` takes the words of migraphx-driver."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

import mgx_mlir
from mgx_mlir import migraphx
from mgx_mlir.errors import UsageError
from mgx_mlir.tools.driver import main, translate
from mgx_mlir.tools.driver_variables import COUNTERPARTS
from mgx_mlir.tools.driver_words import FLAGS, FORMS, PASSES, REFUSED


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
        ("time --gpu m.onnx -n 5 --batch 1", "perf --target gpu m.onnx --runs 5 --batch 1 --totals "
         "--only-runs"),
        ("perf m.onnx --iterations=5 --batch 1", "perf m.onnx --runs 5 --batch 1 --target gpu "
         "--totals"),
        ("read m.onnx --gpu --brief --output-names a b", "read m.onnx --output-names a "
         "--output-names b --brief --default-dyn-dim {1,1}"),
        ("read m.onnx -g --brief --batch 1", "read m.onnx --batch 1 --graphviz --brief"),
        ("verify m.onnx --ref -i -c c.mxr --batch 1", "verify m.onnx --reference numpy "
         "--per-instruction --compiled-model c.mxr --batch 1 --target gpu"),
        ("compile --onnx m.onnx --disable-fast-math -o m.mgx", "compile m.onnx --exact -o m.mgx "
         "--form binary --default-dyn-dim {1,1}"),
        ("perf m.onnx --exhaustive-tune --batch 1", "perf m.onnx --tune=exhaustive --batch 1 "
         "--target gpu --totals"),
        ("perf m.onnx --exhaustive-tune --batch 1 --cpu", "perf m.onnx --batch 1 --target cpu "
         "--totals"),
        ("compile m.onnx --exhaustive-tune --batch 1", "compile m.onnx --tune=exhaustive "
         "--batch 1 --form text --target gpu"),
        ("compile m.onnx --binary -O -o m.mgx --batch 1", "compile m.onnx --batch 1 -o m.mgx "
         "--form binary"),
        ("compile m.onnx --python --batch 1", "compile m.onnx --batch 1 --form py"),
        ("run m.onnx --json --output p.json --batch 1", "run m.onnx --batch 1 --save p.json "
         "--form json --target gpu"),
        ("verify m.onnx -o=p.mxr --batch 1", "verify m.onnx --batch 1 --save p.mxr --target gpu"),
        ("run m.onnx --int8 --batch 1", "run m.onnx --int8 --batch 1 --target gpu --allow-none"),
        ("read -p simplify_qdq -p cse m.onnx -s 2 --batch 1", "read --apply-pass "
         "mgx-simplify-quantized --apply-pass cse m.onnx --trim-size 2 --batch 1"),
        ("read m.onnx --apply-pass=optimize_module --replace-literals --batch 1", "read m.onnx "
         "--apply-pass=optimize --replace-literals --batch 1"),
        ("read m.onnx -O --debug-symbols -t 3 --batch 1", "read m.onnx --after optimize "
         "--locations --trim 3 --batch 1"),
        ("roctx m.onnx -n 2 --batch 1", "perf m.onnx --runs 2 --batch 1 --target gpu"),
        ("perf m.onnx --cpu -d --nchw --skip-unknown-operators", "perf m.onnx --target cpu "
         "--skip-unknown-operators --default-dyn-dim {1,1} --totals"),
        ("read m.onnx -o m.mxr --batch 1", "read m.onnx --batch 1 -o m.mxr --program"),
        ("read m.onnx --text -o m.mxr --batch 1", "read m.onnx --batch 1 -o m.mxr"),
        ("read m.onnx -g --debug-symbols --batch 1", "read m.onnx --batch 1 --graphviz"),
        ("onnx --list", "op --list"),
        ("-v", "--version"),
        ("run m.onnx --log-level trace --batch 1", "run m.onnx --log-level debug --batch 1 "
         "--target gpu"),
        ("compile m.onnx --enable-symbolic --split-sizes 16 1 --dim-param @n {min:1,max:16} "
         "--batch 1", "compile m.onnx --dim-param @n {1,16,{1,16}} --batch 1 --form text"),
        ("compile m.onnx --split-sizes=4 --dim-param @n {1,16} --batch 1",
         "compile m.onnx --dim-param @n {1,16,{4}} --batch 1 --form text"),
        ("perf --compile-mode max m.onnx --batch 1", "perf m.onnx --batch 1 --tune=exhaustive "
         "--target gpu --totals"),
        ("perf --compile-mode=60 m.onnx --batch 1 --cpu", "perf m.onnx --batch 1 --target cpu "
         "--totals"),
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
    monkeypatch.setenv("MIGRAPHX_ENABLE_CK", "1")
    monkeypatch.setenv("MIGRAPHX_OF_TOMORROW", "1")
    assert main(["--help"]) == 0
    shown = capsys.readouterr()
    assert "usage: mgx-driver" in shown.out and "mgx verify --per-instruction" in shown.err
    for name in ("ENABLE_CK", "OF_TOMORROW"):
        assert f"MIGRAPHX_{name} is not read, and has no counterpart here" in shown.err
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
    assert main("run saved.mxr --cpu --int8".split()) == 0
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
    assert not {*FLAGS, *FORMS} & set(REFUSED)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "m.onnx")
    return tmp_path


@pytest.mark.parametrize(
    "level", ["none", "error", "warn", "info", "debug", "trace", "0", "1", "2", "3", "4", "5"]
)
def test_levels_of_the_log_are_words_or_numbers(level: str, folder: Path) -> None:
    assert main(["params", "m.onnx", "--log-level", level]) == 0
    assert main(["params", "m.onnx", f"--log-level={level}"]) == 0


def test_the_log_goes_to_several_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "compile m.onnx --cpu --log-level 4 --log-file a.log b.log --log-file c.log"
    assert main(words.split()) == 0
    texts = [Path(f"{name}.log").read_text() for name in "abc"]
    assert " DEBUG mgx_mlir" in texts[0] and len(set(texts)) == 1
    assert main("params --log-file d.log m.onnx".split()) == 0
    assert onnx.load("m.onnx") == model()


def test_a_compiled_program_is_printed_and_leaves_no_file(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    begins = {"": b"module", "--text": b"module", "--json": b"{", "-g": b"digraph {",
              "--py": b"import migraphx", "--binary": b"\x89MGX", "--netron": b""}  # fmt: skip
    for flag, begin in begins.items():
        assert main(["compile", "m.onnx", "--cpu", *flag.split()]) == 0
        assert capfdbinary.readouterr().out.startswith(begin), flag
    assert [file.name for file in folder.iterdir()] == ["m.onnx"]
    assert main("compile m.onnx --cpu --json -o p.json".split()) == 0
    assert main("read p.json".split()) == 1
    assert b"shows a compiled program" in capfdbinary.readouterr().err


@pytest.mark.parametrize("flag", ["--json", "--py", "--binary"])
def test_forms_of_programs_are_read_again(
    flag: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = {"--json": "p.json", "--py": "p.py", "--binary": "p.mxr"}[flag]
    assert main(["read", "m.onnx", flag, "-o", file]) == 0
    for words in ("read", "params", "compile --cpu", "run --cpu", "perf --cpu -n 1",
                  "time --cpu -n 1", "verify --cpu"):  # fmt: skip
        assert main([*words.split(), file]) == 0, words
    shown = capsys.readouterr()
    assert "float32 2x3" in shown.out and "verified" in shown.out and not shown.err
    Path("other").write_bytes(Path(file).read_bytes())
    known = flag == "--py"  # Python is known by its name alone
    assert main(["run", "--cpu", "other"]) == int(known)
    if flag == "--json":
        assert main("run --cpu --migraphx-json other".split()) == 0
        assert main("run --cpu --migraphx-json m.onnx".split()) == 2


def test_run_perf_and_verify_write_the_program(folder: Path) -> None:
    for verb in ("run", "perf", "time", "verify"):
        assert main(f"{verb} m.onnx --cpu -o {verb}.mxr".split()) == 0
        assert migraphx.load(f"{verb}.mxr").is_compiled() == (verb != "verify")
        assert main(f"run {verb}.mxr --cpu".split()) == 0
    assert main("run m.onnx --cpu --json -o p.json".split()) == 0
    assert Path("p.json").read_text().startswith("{")
    assert main("run m.onnx --cpu --binary".split()) == 2


def test_a_compiled_program_stays_as_it_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main("compile m.onnx --cpu -o c.mxr".split()) == 0
    words = "run c.mxr --fp16 --int8 --input-dim @x 4 3 --batch 4 --cpu --disable-fast-math"
    assert main(words.split()) == 0
    shown = capsys.readouterr()
    assert "y: float32 2x3" in shown.out
    assert "--fp16, --int8, --input-dim, --batch, --exact: c.mxr is compiled" in shown.err
    assert main("compile c.mxr --fp16".split()) == main("read c.mxr".split()) == 0
    shown = capsys.readouterr()
    assert "kernels" in shown.out and "c.mxr is compiled already" in shown.err
    assert main("read c.mxr --json".split()) == 0 and capsys.readouterr().out.startswith("{")
    assert main("read c.mxr -g".split()) == main("compile c.mxr -o d.mxr".split()) == 2
    assert not Path("d.mxr").exists()
    onnx.save(model("n"), "open.onnx")
    words = "compile open.onnx --cpu --mode full-dynamic --default-dyn-dim {1,9} -o open.mxr"
    assert main(words.split()) == 0
    assert main("run open.mxr --cpu --batch 4".split()) == 0
    assert "y: float32 4x3" in capsys.readouterr().out


def test_nothing_to_quantize_is_told_and_no_failure(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag in ("--int8", "--fp8", "--int4-weights"):
        assert main(["run", "m.onnx", "--cpu", flag]) == 0
        assert "nothing is to be quantized" in capsys.readouterr().err


def test_scripts_find_rates_and_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model("n"), "open.onnx")
    for words in ("perf open.onnx --batch 4", "time m.onnx"):
        assert main([*words.split(), "--cpu", "-n", "2"]) == 0
        text = capsys.readouterr().out
        (rate,) = re.findall(r"^Rate: (\d+\.\d+) inferences/sec$", text, re.MULTILINE)
        (time,) = re.findall(r"^Total time: (\d+\.\d+)ms", text, re.MULTILINE)
        assert float(rate) * float(time) == pytest.approx(4e3 if "open" in words else 1e3, rel=0.01)
        assert ("kernel" in text) == words.startswith("perf")


def test_bounds_of_sizes_are_params(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model("n"), "open.onnx")
    assert main(["params", "open.onnx", "--dim-param", "@n", "{1, 64, {1, 8}}"]) == 0
    assert "size    n from 1 to 64, best 1, 8" in capsys.readouterr().out


def test_a_program_is_trimmed_on_both_sides(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """g (float[2, 3] x, float[3] b) => (float[2, 3] y) {
        one = Constant<value = float[1] {1.0}>() two = Add(one, one) a = Add(x, b) c = Mul(a, two)
        d = Sub(c, a) y = Exp(d) }"""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), "n.onnx")
    assert main("params n.onnx --trim 1 --trim-size 2".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["input   a: float32 2x3", "output  d: float32 2x3"]
    assert main("run n.onnx -t 1 -s 2 --fill1 a --cpu".split()) == 0
    assert "d: float32 2x3, min 1, max 1" in capsys.readouterr().out
    assert main("verify n.onnx -s 1 --cpu".split()) == 0
    assert main("read n.onnx -s 99 --brief".split()) == 0
    text = """g (float[2, 6] x) => (float[2, 6] y) {
        a = Neg(x) s = Shape(a) b = Exp(a) c = Flatten<axis = 0>(b) y = Reshape(c, s) }"""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), "s.onnx")
    assert main("verify s.onnx -s 1 --cpu".split()) == 0


def test_literals_become_parameters(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """g (float[2, 3] x) => (float[2, 3] y) {
        w = Constant<value = float[3] {1.0, 2.0, 3.0}>() s = Constant<value = float {3.0}>()
        a = Add(x, w) y = Mul(a, s) }"""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), "w.onnx")
    assert main("params w.onnx --replace-literals".split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in lines] == [
        "float32 2x3",
        "float32 3",
        "float32 2x3",
    ]
    assert main("verify w.onnx --replace-literals --cpu".split()) == 0
    assert main("run w.onnx --replace-literals --cpu".split()) == 0


def test_passes_of_migraphx_are_applied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in PASSES:
        words = ["read", "m.onnx", "--brief", "-p", name]
        assert main(words) == (0 if PASSES[name] else 2), name
    assert main("read m.onnx --apply-pass simplify_algbra".split()) == 2
    assert "did you mean simplify_algebra?" in capsys.readouterr().err
    assert main("verify m.onnx --cpu --apply-pass optimize_module".split()) == 0


def test_the_test_model_needs_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("run --test --cpu".split()) == main("compile --cpu --test".split()) == 0
    assert "y: float32 4x3" in capsys.readouterr().out


def test_each_variable_has_a_hint() -> None:
    assert len(COUNTERPARTS) >= 88 and list(COUNTERPARTS) == sorted(COUNTERPARTS)
