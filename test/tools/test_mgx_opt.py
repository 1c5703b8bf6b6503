"""mgx-opt, with the habits of mlir-opt."""

from __future__ import annotations

from pathlib import Path

import pytest

from mgx_mlir.pipelines.registry import pass_class
from mgx_mlir.tools.mgx_opt import main

PROGRAM = """\
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = mgx.relu %x : tensor<2xf32>
  %1 = mgx.relu %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    file = tmp_path / "program.mlir"
    file.write_text(PROGRAM)
    return str(file)


def test_passes_run_in_the_order_of_the_command_line(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([program, "--mgx-eliminate-identities", "--mgx-fuse-pointwise=max-ops=1"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("mgx.pointwise") == 1 and printed.count("mgx.relu") == 1


def test_upstream_passes_and_ours_share_a_pipeline(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = "builtin.module(mgx-fuse-pointwise{max-ops=8},func.func(canonicalize),cse)"
    assert main([program, f"--pass-pipeline={pipeline}"]) == 0
    assert "mgx.pointwise" in capsys.readouterr().out


def test_one_dash_is_as_good_as_two(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "out.mlir"
    assert main([program, "-canonicalize", "-mgx-fuse-pointwise=max-ops=1", "-o", str(file)]) == 0
    assert file.read_text().count("mgx.pointwise") == 1
    assert main([program, "-one-shot-bufferizes"]) == 2
    assert "'one-shot-bufferizes' is not a pass" in capsys.readouterr().err


def test_named_pipelines(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([program, "--mgx-pipeline=core,optimize,fusion,backend"]) == 0
    assert "mgx.launch @k0_pointwise" in capsys.readouterr().out


def test_bytecode_in_and_out(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "program.mlirbc"
    assert main([program, "--emit-bytecode", "-o", str(file)]) == 0
    assert file.read_bytes().startswith(b"ML\xefR")
    assert main([str(file)]) == 0
    assert "mgx.relu" in capsys.readouterr().out


def test_printing_and_timing_go_to_standard_error(
    program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main([program, "--mgx-fuse-pointwise", "--mlir-print-ir-after-all", "--mlir-timing"]) == 0
    )
    printed = capfd.readouterr()
    assert "IR Dump After" in printed.err and "mgx-fuse-pointwise" in printed.err
    assert "Execution time report" in printed.err
    assert "IR Dump" not in printed.out


def test_the_ir_around_named_passes(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    passes = ["--mgx-fuse-pointwise", "--cse", "--canonicalize"]
    named = ["--mlir-print-ir-before=mgx-fuse-pointwise,cse", "--mlir-print-ir-after", "cse"]
    assert main([program, *passes, *named]) == 0
    printed = capfd.readouterr()
    headings = [line for line in printed.err.splitlines() if line.startswith("// -----//")]
    assert headings == [
        f"// -----// IR Dump {when} //----- //"
        for when in ("Before mgx-fuse-pointwise", "Before cse", "After cse")
    ]
    assert printed.err.count("func.func @main") == 3 and "IR Dump" not in printed.out


def test_list_passes_has_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list-passes"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("--mgx-fuse-pointwise" in line and line.strip().endswith(".") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--mgx-fuse-pointwize"], 2, "did you mean mgx-fuse-pointwise"),
        (["--mgx-fuse-pointwise=max-size=1"], 2, "no option 'max-size'"),
        (["--no-such-pass"], 2, "'no-such-pass' is not a pass"),
        (["--mgx-pipeline=quick"], 2, "there is no pipeline 'quick'"),
        (["--pass-pipeline=cse", "--cse"], 2, "exclude each other"),
        (["--arch=gfx0", "--cse"], 1, "unknown target 'gfx0'"),
        (["--mgx-fuse-pointwse=max-ops=3"], 2, "did you mean mgx-fuse-pointwise?"),
        (["--split-input-fil"], 2, "no option --split-input-fil; did you mean --split-input-file?"),
        (["--mlir-print-ir-after=csee", "--cse"], 2, "there is no pass 'csee'"),
        (["-o", "/dev/full"], 1, "/dev/full: No space left on device"),
    ],
)
def test_wrong_usage_is_explained(
    program: str,
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([program, *arguments]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {}", "the module has no func.func @main"),
        ("func.func private @main(%x: tensor<2xf32>)", "has to have a body of one block"),
        ("func.func @main(%x: memref<2xf32>) { return }", "an input is memref<2xf32>; passes of"),
        ("func.func @main(%x: tensor<*xf32>) { return }", "an input is tensor<*xf32>; passes of"),
    ],
)
def test_modules_that_hold_no_program_are_the_caller_s_fault(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "m.mlir"
    file.write_text(text)
    assert main([str(file), "--mgx-plan-memory"]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1


def test_a_fault_of_a_pass_is_told_in_words(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise KeyError("sizes")

    monkeypatch.setattr(pass_class("mgx-normalize-ops"), "apply", fail)
    assert main([program, "--mgx-normalize-ops"]) == 1
    said = capsys.readouterr().err
    assert "mgx-normalize-ops failed with KeyError: 'sizes' (" in said
    assert "this is a fault of mgx-mlir: please report it with its input" in said


def test_parse_errors_name_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.mlir"
    file.write_text("func.func @main() {\n  %0 = mgx.nonsense\n  return\n}\n")
    assert main([str(file)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith(f"{file}:2:8: error:")
    assert said[1:3] == ["  %0 = mgx.nonsense", "       ^"]


def test_split_parts_fail_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "parts.mlir"
    file.write_text(f"func.func @broken(\n// -----\n{PROGRAM}")
    assert main([str(file), "--split-input-file"]) == 1
    printed = capsys.readouterr()
    assert "mgx.relu" in printed.out and ":1:" in printed.err


def test_verify_diagnostics_matches_comments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "diagnostics.mlir"
    file.write_text(
        "func.func @main(%x: tensor<2xf32>) {\n"
        "  // expected-error@+1 {{axis}}\n"
        "  %0 = mgx.softmax %x axis = 3 : tensor<2xf32>\n"
        "  return\n}\n"
    )
    assert main([str(file), "--verify-diagnostics"]) == 0
    file.write_text(file.read_text().replace("{{axis}}", "{{colour}}"))
    assert main([str(file), "--verify-diagnostics"]) == 1
    assert "expected but not seen" in capsys.readouterr().err


def test_a_reproducer_runs_its_own_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "reproducer.mlir"
    file.write_text(f"// configuration: builtin.module(mgx-fuse-pointwise)\n{PROGRAM}")
    assert main([str(file), "--run-reproducer"]) == 0
    assert "mgx.pointwise" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out.startswith("mgx-opt of mgx-mlir 0.")


def test_a_missing_file_is_named_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such.mlir", "--cse"]) == 1
    assert capsys.readouterr().err == "mgx-opt: no-such.mlir: No such file or directory\n"


def test_nothing_is_written_for_input_that_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, noise, out = tmp_path / "bad.mlir", tmp_path / "noise", tmp_path / "out"
    bad.write_text("func.func")
    noise.write_bytes(b"\xcd\xff")
    assert main([str(bad), "-o", str(out)]) == 1
    assert main([str(noise), "-o", str(out)]) == 2
    assert "is neither MLIR bytecode nor text in UTF-8" in capsys.readouterr().err
    assert not out.exists()


def test_a_closed_input_and_ctrl_c_end_without_a_traceback(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert main([]) == 2
    assert "standard input is closed; name a file" in capsys.readouterr().err

    def interrupt(name: str) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("mgx_mlir.tools.mgx_opt._read", interrupt)
    assert main([program]) == 130
    assert capsys.readouterr().err == "mgx-opt: interrupted\n"
