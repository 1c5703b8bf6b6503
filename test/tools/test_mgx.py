"""The `mgx` command, run as a user runs it, on the digits model."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mgx_mlir
from mgx_mlir.tools.mgx import main, verb_names

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples/digits.onnx"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all tests of a worker, away from the user's."""
    monkeypatch.setenv("MGX_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "kernel-cache"))


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    file = tmp_path / "digits.mgx"
    assert main(["compile", str(DIGITS), "-o", str(file), "--arch", "gfx942"]) == 0
    return file


def test_run_prints_each_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(DIGITS)]) == 0
    assert capsys.readouterr().out.startswith("probabilities: float32 1x10, min ")


def test_shapes_may_stand_before_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "--input-dim", "@image", "1", "1", "8", "8", str(DIGITS)]) == 0
    assert "image: float32 1x1x8x8" in capsys.readouterr().out


def test_run_reads_and_writes_arrays(tmp_path: Path) -> None:
    image = tmp_path / "image.npy"
    np.save(image, np.zeros((1, 1, 8, 8), np.float32))
    out = tmp_path / "out"
    assert main(["run", str(DIGITS), "--input", f"image={image}", "--output", str(out)]) == 0
    probabilities = np.load(out / "probabilities.npy")
    assert probabilities.shape == (1, 10)
    assert probabilities.sum() == pytest.approx(1, abs=1e-5)


def test_one_artifact_runs_with_any_sizes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = helper.make_node("Relu", ["x"], ["y"], "relu")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3]) for n in "xy")
    graph = helper.make_graph([node], "any", [x], [y])
    model, made = tmp_path / "any.onnx", str(tmp_path / "any.mgx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), model)
    given = ["--mode", "full-dynamic", "--dim-param", "@batch", "{1, 8, {2}}"]
    assert main(["compile", str(model), *given, "-o", made]) == 0
    assert main(["params", made]) == 0
    assert main(["inspect", made]) == 0
    assert main(["run", made]) == 0
    assert main(["run", made, "--dim-param", "@batch", "5"]) == 0
    shown = capsys.readouterr().out
    for text in ("x: float32 batch x 3", "size    batch from 1 to 8, best 2", "float32[batch, 3]",
                 "for batch = 2", "y: float32 2x3", "y: float32 5x3"):  # fmt: skip
        assert text in shown
    assert main(["run", made, "--dim-param", "@batch", "9"]) == 2
    assert "the program is for 'batch' from 1 to 8" in capsys.readouterr().err
    assert main(["run", str(model), "--dim-param", "@batch", "{8, 1}"]) == 2


def test_equal_seeds_give_equal_results(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for seed in ("1", "1", "2"):
        assert main(["run", str(DIGITS), "--seed", seed]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1] != outputs[2]


def test_verify_agrees_with_both_references(capsys: pytest.CaptureFixture[str]) -> None:
    for reference in ("onnxruntime", "numpy"):
        assert main(["verify", str(DIGITS), "--reference", reference]) == 0
        assert capsys.readouterr().out.endswith("verified\n")


def test_an_artifact_is_inspected_run_and_finalized_further(
    artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["finalize", str(artifact), "--arch", "gfx1100"]) == 0
    capsys.readouterr()
    assert main(["inspect", str(artifact), "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert sorted(content["code_objects"]) == ["gfx1100", "gfx942"]
    kernel = content["kernels"][0]["name"]
    assert main(["inspect", str(artifact), "--kernel", kernel]) == 0
    assert 'arch = #mgx.arch<"gfxMIGX">' in capsys.readouterr().out
    assert main(["inspect", str(artifact), "--isa", kernel, "--arch", "gfx942"]) == 0
    assert "s_endpgm" in capsys.readouterr().out
    assert main(["inspect", str(artifact), "--why", "--arch", "gfx942"]) == 0
    reasons = capsys.readouterr().out
    assert f"  {kernel}: " in reasons
    assert "generic path" in reasons or "tile " in reasons
    assert main(["run", str(artifact)]) == 0


def test_equal_inputs_give_equal_bytes(artifact: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.mgx"
    assert main(["compile", str(DIGITS), "-o", str(again), "--arch", "gfx942"]) == 0
    assert again.read_bytes() == artifact.read_bytes()


def test_read_prints_the_ir_after_each_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    expected = {"import": "mgx.convolution", "fusion": "mgx.pointwise", "backend": "mgx.launch"}
    for pipeline, op in expected.items():
        assert main(["read", str(DIGITS), "--after", pipeline]) == 0
        assert op in capsys.readouterr().out


def test_params_gives_names_types_and_shapes(
    artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["params", str(DIGITS)]) == 0
    assert "image: float32 1x1x8x8" in capsys.readouterr().out
    assert main(["params", str(artifact)]) == 0
    assert "image: float32 1x1x8x8" in capsys.readouterr().out


def test_explain_and_timing_say_what_happened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.mgx"
    command = ["compile", str(DIGITS), "-o", str(file), "--explain", "--timing"]
    assert main([*command, "--disable-pass", "mgx-simplify-algebra"]) == 0
    printed = capsys.readouterr().out
    assert "mgx-fuse-pointwise: " in printed and "mgx-outline-kernels" in printed
    assert "mgx-simplify-algebra" not in printed
    assert main(["inspect", str(file)]) == 0
    assert "mode default, without mgx-simplify-algebra: " in capsys.readouterr().out
    assert main([*command, "--disable-pass", "mgx-nonsense"]) == 2
    assert "there is no pass 'mgx-nonsense'" in capsys.readouterr().err


def test_op_lists_the_operators(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["op", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 100
    assert main(["op", "conv"]) == 0
    assert "convolution" in capsys.readouterr().out
    assert main(["op", "Nonsense"]) == 2


def test_op_describes_ops_of_the_dialect(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["op", "--mgx"]) == 0
    assert "mgx.pooling" in capsys.readouterr().out.split()
    for name in ("mgx.topk", "convolution_backwards"):
        assert main(["op", name]) == 0
        assert f"= mgx.{name.removeprefix('mgx.')} %x" in capsys.readouterr().out
    assert main(["op", "mgx.conv"]) == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\3\4....", "mgx compile, params, perf, read, run and verify take those"),
        (b"ML\xefR....", "bytecode of MLIR"),
        (b"module {\n}", "text of MLIR"),
        (b'{"graph": {}}', "JSON"),
        (b"import migraphx\n", "python -m mgx_mlir.migraphx"),
    ],
)
def test_files_that_are_no_models_are_named(
    data: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "m.mxr").write_bytes(data)
    assert main(["check", str(tmp_path / "m.mxr")]) == 1
    assert said in capsys.readouterr().err


def unsupported_model(file: Path) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    nodes = [
        helper.make_node("Mystery", ["x"], ["a"], "first", domain="org.example"),
        helper.make_node("Relu", ["a"], ["b"], "fine"),
        helper.make_node("Mystery", ["b"], ["y"], "second", domain="org.example"),
    ]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("org.example", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), file)
    return file


def test_check_lists_every_unsupported_node(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(DIGITS)]) == 0
    assert main(["check", str(unsupported_model(tmp_path / "m.onnx"))]) == 1
    printed = capsys.readouterr().out
    assert "first" in printed and "second" in printed and "org.example" in printed


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "missing.onnx"], 1, "missing.onnx"),
        (["run", str(DIGITS), "--input", "image"], 2, "use name=file.npy"),
        (["run", str(DIGITS), "--input", "picture=x.npy"], 2, "the model's inputs are image"),
        (["run", str(DIGITS), "--dim-param", "@n", "x"], 2, "whole numbers"),
        (["compile", str(DIGITS), "-o", "no/such/folder/x.mgx"], 2, "no/such/folder"),
        (["compile", str(DIGITS), "-o", "x.mgx", "--arch", "gfx1"], 1, "unknown target 'gfx1'"),
        (["run", str(DIGITS), "--target", "gfx1"], 1, "unknown target 'gfx1'"),
        (["read", str(DIGITS), "--after", "nothing"], 2, "import, dynamic_shapes, core"),
    ],
)
def test_wrong_usage_is_explained(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == code
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_damaged_files_are_errors_of_one_line(
    artifact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.mgx"
    broken.write_bytes(artifact.read_bytes()[:1000])
    capsys.readouterr()
    assert main(["inspect", str(broken)]) == 1
    assert "Traceback" not in capsys.readouterr().err
    model = tmp_path / "broken.onnx"
    model.write_bytes(DIGITS.read_bytes()[:5000])
    assert main(["run", str(model)]) == 1
    assert "broken.onnx" in capsys.readouterr().err


def test_every_verb_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in verb_names():
        with pytest.raises(SystemExit) as stop:
            main([verb, "--help"])
        assert stop.value.code == 0
    assert "MGX_CACHE_DIR" not in capsys.readouterr().err
    assert main([]) == 2


@pytest.mark.parametrize(
    "words, unloaded",
    [
        (["--version"], {"numpy", "mlir", "onnx", "rich"}),
        (["--help"], {"numpy", "mlir", "onnx", "rich"}),
        *(([verb, "--help"], {"mlir", "onnx", "rich"}) for verb in verb_names()),
    ],
)
def test_help_loads_no_compiler(words: list[str], unloaded: set[str]) -> None:
    code = (
        "import sys\nfrom mgx_mlir.tools.mgx import main\n"
        f"try:\n    main({words})\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        f"assert not {unloaded} & set(sys.modules), {unloaded} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ([], "gpu"),
        (["--target", "cpu"], "cpu"),
        (["--target", "cpu", "--arch", "x86-64-v3"], "cpu"),
        (["--target", "cpu", "--arch", "gfx942"], "gpu"),
    ],
)
def test_a_program_without_chips_is_for_cpus_alone(
    words: list[str], kind: str, tmp_path: Path
) -> None:
    output = tmp_path / "digits.mgx"
    assert main(["compile", str(DIGITS), "-o", str(output), *words]) == 0
    assert mgx_mlir.load(output).options.get("kind", "gpu") == kind


def test_bash_completes_verbs_and_flags(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for words, found in (("mgx compl", "completion"), ("mgx finalize --ar", "--arch")):
        ask = (
            f"{script}\nCOMP_WORDS=({words}); COMP_CWORD={words.count(' ')}; _shtab_mgx\n"
            'echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
        assert done.stdout.split() == [found]


def test_the_manual_page_names_each_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(".TH MGX")
    assert "mgx \\- compile ONNX models" in page
    for verb in verb_names():
        assert f"mgx {verb}" in page.replace("\\", "")


def test_inspect_shows_what_a_schedule_was_chosen_from(
    artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["inspect", str(artifact), "--why", "--arch", "gfx942"]) == 0
    listed = capsys.readouterr().out.splitlines()
    name, why = next(line.split(": ", 1) for line in listed if "mgx.convolution: tile" in line)
    assert main(["inspect", str(artifact), "--why", "--kernel", name.strip()]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:2] == [f"{name.strip()} for gfx942:", why.removesuffix("; untuned")]
    assert why.endswith("; untuned") and shown[-1] == "untuned"


def test_inspect_prints_each_stage_of_a_kernel(
    artifact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    kernel = mgx_mlir.load(artifact).kernels[0].name
    shown = {}
    for stage in ("portable", "gpu", "llvm", "isa"):
        assert main(["inspect", str(artifact), "--ir", kernel, "--stage", stage]) == 0
        shown[stage] = capsys.readouterr().out
    assert "mgx.kernel" in shown["portable"] and "gpu.func" in shown["gpu"]
    assert "define amdgpu_kernel" in shown["llvm"] and "s_endpgm" in shown["isa"]
    # Without code for a chip, its stages are made.
    assert main(["inspect", str(artifact), "--ir", kernel, "--stage", "cpu", "--arch", "cpu"]) == 0
    assert "func.func" in capsys.readouterr().out
    assert main(["inspect", str(artifact), "--ir", kernel, "--stage", "cpu"]) == 2
    assert "a kernel for gfx942 has no stage 'cpu'; it has portable, gpu, llvm, isa" in (
        capsys.readouterr().err
    )
    assert main(["inspect", str(artifact), "--stage", "gpu"]) == 2


def test_a_verb_imports_what_it_needs() -> None:
    """`finalize` needs neither the importer nor the passes, nor ONNX."""
    code = (
        "import sys\nfrom mgx_mlir.tools.mgx import main\n"
        "assert main(['finalize', 'nothing.mgx', '--arch', 'gfx942']) == 1\n"
        "print(*{'mgx_mlir.compiler', 'mlir.ir', 'onnx', 'rich'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"


def _children(pid: int | str) -> str:
    """The children of all threads of a process, by number."""
    found = ""
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found += task.read_text()
    return found


def test_ctrl_c_leaves_nothing_half_written(tmp_path: Path) -> None:
    model = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    environment = os.environ | {"MGX_CACHE_DIR": "none", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "mgx_mlir.tools.mgx", "compile", str(model), "-o", "out.mgx"]
    process = subprocess.Popen(
        [*command, "--arch", "gfx942,gfx1100"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs, and so their children, ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # The children of its child, the server, are workers: from the first kernel to the last.
    while process.poll() is None and not any(map(_children, _children(process.pid).split())):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    assert list(tmp_path.iterdir()) == []


def host_model(file: Path) -> Path:
    """Strings and sizes that the data decide, around a computation."""
    model = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["": 20]>
        pick (float[4, n] x, string[m] label) => (float[k] y, string[a] twice) {
            rectified = Relu (x)
            places = NonZero (rectified)
            rows = Transpose (places)
            kept = GatherND (x, rows)
            y = Mul (kept, kept)
            twice = StringConcat (label, label)
        }""")
    onnx.save(model, file)
    return file


def test_check_lists_what_the_host_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(host_model(tmp_path / "m.onnx"))]) == 0
    printed = capsys.readouterr().out
    assert "compiles to an artifact in parts" in printed
    assert "on the host, between compiled parts (2 of 6 nodes):" in printed
    assert "NonZero (node 'NonZero_1'): the data decide the size of its results" in printed
    assert "StringConcat (node 'StringConcat_5'): strings have no form" in printed


def test_models_of_the_host_run_and_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = str(host_model(tmp_path / "m.onnx"))
    np.save(tmp_path / "x.npy", np.array([[1, -2]] * 4, np.float32))
    np.save(tmp_path / "label.npy", np.array(["a", "b"]))
    files = [f"--input={name}={tmp_path / name}.npy" for name in ("x", "label")]
    assert main(["run", model, *files, "--output", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "y: float32 4," in printed.out and "twice: string 2: 'aa', 'bb'" in printed.out
    assert "on the host: NonZero 'NonZero_1', StringConcat" in printed.err
    assert np.load(tmp_path / "out" / "y.npy").tolist() == [1, 1, 1, 1]
    assert main(["verify", model, *files]) == 0
    assert "twice: ok" in capsys.readouterr().out
    assert main(["run", model]) == 2
    error = capsys.readouterr().err
    assert "'n' (dimension 1 of input 'x') has no size; give one by --dim-param @n N" in error
    assert "or give the input by --input x=FILE, an array of float32 4 x n" in error
