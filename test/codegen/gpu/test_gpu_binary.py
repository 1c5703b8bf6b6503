"""Code objects: accepted by LLVM's tools, the same bytes each time, what lld would link."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import gpu_kernels
import pytest
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import code_object, disassemble
from mgx_mlir.codegen.gpu.builders.passes import to_llvm_ir
from mgx_mlir.errors import CompilerError, TargetError
from mgx_mlir.machine import ocml
from mgx_mlir.machine.amdgpu_metadata import code_object_metadata
from mgx_mlir.machine.link import link
from mgx_mlir.machine.llvm_amdgpu import emit_object

CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1151", "gfx1200", "gfx1201")
TOOLS = Path("/usr/lib/llvm-22/bin")
OCML = any(Path(folder, "ocml.bc").is_file() for folder in ocml.FOLDERS)
PORTABLE = [k for k in gpu_kernels.ALL if k is not gpu_kernels.SCALAR]


def tool(name: str) -> str:
    path = shutil.which(TOOLS / name) or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    return path


@pytest.fixture
def llvm_ir() -> str:
    program = gpu_kernels.TABLE.program()
    with program.module.context, ir.Location.unknown():
        return to_llvm_ir(program.module, "gfx942", program.index_bits)


@pytest.mark.parametrize("chip", CHIPS)
def test_llvm_s_tools_accept_every_kernel(chip: str, tmp_path: Path) -> None:
    for kernel in PORTABLE:
        code = code_object(kernel.program(), Target.get(chip))
        path = tmp_path / f"{kernel.name}.hsaco"
        path.write_bytes(code.data)
        read = subprocess.run(
            [tool("llvm-readelf"), "-h", "-l", "--dyn-symbols", "--notes", str(path)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert not read.stderr
        assert f"amdgcn-amd-amdhsa--{chip}" in read.stdout
        assert "ABI Version:                       3" in read.stdout  # code object version 5
        shown = subprocess.run(
            [tool("llvm-objdump"), "-d", str(path)], capture_output=True, text=True, check=True
        )
        assert "s_endpgm" in shown.stdout
        assert "<unknown>" not in shown.stdout
        for launch in code.launches:
            assert f"<{launch.function}>:" in shown.stdout
            assert f" {launch.function}.kd" in read.stdout


def test_stats_come_from_the_code_object() -> None:
    code = code_object(gpu_kernels.SOFTMAX.program(), Target.get("gfx1100"))
    assert sorted(code.stats) == sorted(launch.function for launch in code.launches)
    for launch in code.launches:
        figures = code.stats[launch.function]
        assert figures["wave_size"] == 32
        assert 0 < figures["vgpr"] <= 256
        assert figures["kernarg_bytes"] == 8 * len(launch.arguments)
        assert figures["scratch_bytes"] == figures["vgpr_spills"] == figures["lds_bytes"] == 0


def test_hidden_arguments_are_not_asked_for() -> None:
    data = code_object(gpu_kernels.SOFTMAX.program(), Target.get("gfx942")).data
    for kernel in code_object_metadata(data)["amdhsa.kernels"]:
        assert {argument[".value_kind"] for argument in kernel[".args"]} == {"global_buffer"}


@pytest.mark.parametrize(
    "chip, words", [("gfx942", 4), ("gfx90a", 4), ("gfx1250", 4), ("gfx1201", 0)]
)
def test_the_first_arguments_come_in_registers(chip: str, words: int, tmp_path: Path) -> None:
    code = code_object(gpu_kernels.SOFTMAX.program(), Target.get(chip))
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(code.data)
    name = f"{code.launches[0].function}.kd"
    shown = subprocess.run(
        [tool("llvm-objdump"), "-d", "-j", ".rodata", f"--disassemble-symbols={name}", str(path)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert f".amdhsa_user_sgpr_kernarg_preload_length {words}" in shown or not words, shown
    assert words or "preload_length" not in shown


@pytest.mark.parametrize("chip", ["gfx942", "gfx1201"])
def test_same_program_gives_the_same_bytes(chip: str) -> None:
    target = Target.get(chip)
    program = gpu_kernels.PRODUCT.program()
    first = code_object(program, target)
    assert code_object(program, target) == first
    assert code_object(gpu_kernels.PRODUCT.program(), target) == first


def test_program_survives_being_compiled() -> None:
    program = gpu_kernels.CONCAT.program()
    before = str(program.module)
    for chip in CHIPS:
        code_object(program, Target.get(chip))
    assert str(program.module) == before


def test_linking_gives_what_lld_loads(llvm_ir: str, tmp_path: Path) -> None:
    source, linked = tmp_path / "a.o", tmp_path / "a.so"
    source.write_bytes(emit_object(llvm_ir, "gfx942"))
    command = [tool("ld.lld"), "-shared", str(source), "-o", str(linked)]
    subprocess.run(command, check=True)
    theirs, ours = linked.read_bytes(), link(source.read_bytes())
    # Up to the end of what is loaded, but for where and how many the section headers are.
    dynamic = 64 + 4 * 56
    end = int.from_bytes(theirs[dynamic + 8 : dynamic + 16], "little") + 7 * 16
    different = [i for i in range(end) if theirs[i] != ours[i]]
    assert set(different) <= {*range(40, 48), *range(60, 64)}


def test_linking_names_what_is_missing(llvm_ir: str) -> None:
    call = llvm_ir.replace("fmul", "call float @nowhere(float 0.0) ;", 1)
    with pytest.raises(CompilerError, match="nowhere"):
        link(emit_object(call + "\ndeclare float @nowhere(float)\n", "gfx942"))


def test_llvm_s_refusal_is_an_error_and_not_an_exit() -> None:
    text = """
define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  %x = load float, ptr addrspace(1) %p
  %y = call float @llvm.tanh.f32(float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}
declare float @llvm.tanh.f32(float)
"""
    with pytest.raises(CompilerError, match=r"gfx942.*tanh"):
        emit_object(text, "gfx942")
    with pytest.raises(CompilerError, match="does not parse"):
        emit_object("not LLVM IR", "gfx942")


@pytest.fixture
def no_device_library(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(ocml, "FOLDERS", ())
    ocml._ocml.cache_clear()
    yield
    ocml._ocml.cache_clear()


@pytest.mark.usefixtures("no_device_library")
def test_f32_math_needs_no_device_library() -> None:
    functions = "acos asin atan cos cosh erf exp log sin sinh sqrt tan tanh".split()
    pairs = zip(["x", *functions], functions, strict=False)
    x = "tensor<9xf32>"
    body = "\n".join(f"%{n} = mgx.{n} %{m} : {x}" for m, n in pairs)
    body += f"\n%y = mgx.fmod %{functions[-1]}, %x : {x}, {x} -> {x}"
    program = gpu_kernels.loops_of(f"%x: {x}", f"%y: {x}", body)
    assert code_object(program, Target.get("gfx1201")).data
    with pytest.raises(TargetError, match=r"__ocml_\w+_f64.*rocm-device-libs"):
        code_object(gpu_kernels.SCALAR.program(), Target.get("gfx1201"))


@pytest.mark.skipif(not OCML, reason="rocm-device-libs is not installed")
@pytest.mark.parametrize("chip", CHIPS)
def test_f64_math_links_the_device_library(chip: str) -> None:
    code = code_object(gpu_kernels.SCALAR.program(), Target.get(chip))
    assert len(code.data) < 20000
    assert "v_fma_f64" in disassemble(code.data)


@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "f64"])
def test_remainders_of_every_float_are_compiled(element: str) -> None:
    x = f"tensor<9x{element}>"
    body = f"%m = mgx.fmod %x, %z : {x}, {x} -> {x}\n%y = mgx.add %m, %m : {x}, {x} -> {x}"
    program = gpu_kernels.loops_of(f"%x: {x}, %z: {x}", f"%y: {x}", body)
    assert code_object(program, Target.get("gfx942")).data


def test_isa_version_of_a_chip() -> None:
    assert [ocml._isa_version(chip) for chip in ("gfx90a", "gfx942", "gfx1030", "gfx1151")] == [
        9010, 9402, 10300, 11501,
    ]  # fmt: skip


def test_disassembly_starts_with_a_function() -> None:
    text = disassemble(code_object(gpu_kernels.CONCAT.program(), Target.get("gfx942")).data)
    assert "<kernel_0>:" in text.splitlines()[0]
