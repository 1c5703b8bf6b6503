"""Levels of CPUs as targets: what each computes, needs, and refuses."""

from __future__ import annotations

import ctypes
import ctypes.util
import subprocess

import emulated_cpu
import level_kernels
import pytest
from cpu_kernels import HostKernel
from emulated_cpu import EmulatedKernel

from mgx_mlir.artifact.target import Target, executable_levels
from mgx_mlir.codegen.gpu.builders.binary import llvm_tool
from mgx_mlir.machine import elf

LEVELS = [target.name for target in Target.cpu_levels()]
HERE = frozenset(target.name for target in executable_levels())
# Code for these differs little from that for their neighbours: a part of the kernels.
RARE = ("x86-64-v4-vnni", "x86-64-v4-amx", "aarch64-sve")
SMALL = [
    pytest.param(level, case, id=f"{level} {case.name}")
    for level in LEVELS
    for case in list(level_kernels.small())[:: 8 if level in RARE else 1]
]


def check_imports(data: bytes) -> None:
    """Every function that the code object calls is one of the C library."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    command = [llvm_tool("llvm-nm"), "--dynamic", "--undefined-only", "--just-symbol-name", "-"]
    listed = subprocess.run(command, input=data, capture_output=True, check=True)
    for name in listed.stdout.decode().split():
        assert hasattr(library, name), name


@pytest.mark.parametrize(("level", "case"), SMALL)
def test_each_level_computes(level: str, case: level_kernels.Case) -> None:
    check(case, level)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_each_level_computes_all_widths(level: str) -> None:
    for case in level_kernels.large():
        check(case, level)


def check(case: level_kernels.Case, level: str) -> None:
    kernel = HostKernel(case.text, Target.get(level))
    check_imports(kernel.code.data)
    machine = elf.HEADER.unpack_from(kernel.code.data)[2]
    assert machine == (elf.EM_AARCH64 if level.startswith("aarch64") else elf.EM_X86_64)
    if level in HERE:
        case.check(kernel)


@pytest.mark.parametrize("level", [level for level in LEVELS if level not in RARE])
@pytest.mark.parametrize("case", [*level_kernels.attentions()], ids=lambda case: case.name)
def test_each_level_computes_attention(case, level: str) -> None:
    kernel = HostKernel(case.text(), Target.get(level))
    check_imports(kernel.code.data)
    if level in HERE:
        inputs = case.arrays()
        assert not len(case.wrong(kernel.run(*inputs), case.meaning(*inputs)))


@pytest.mark.slow
@pytest.mark.parametrize("level", emulated_cpu.LEVELS)
@pytest.mark.parametrize("case", [*level_kernels.small()], ids=lambda case: case.name)
def test_each_level_computes_under_an_emulator(case: level_kernels.Case, level: str) -> None:
    case.check(EmulatedKernel(case.text, level))


@pytest.mark.slow
@pytest.mark.parametrize("level", emulated_cpu.LEVELS)
def test_each_level_computes_some_of_all_widths_under_an_emulator(level: str) -> None:
    for case in list(level_kernels.large())[::7]:
        case.check(EmulatedKernel(case.text, level))


@pytest.mark.slow
@pytest.mark.parametrize("level", emulated_cpu.LEVELS)
@pytest.mark.parametrize("case", [*level_kernels.attentions()], ids=lambda case: case.name)
def test_each_level_computes_attention_under_an_emulator(case, level: str) -> None:
    inputs = case.arrays()
    found = EmulatedKernel(case.text(), level).run(*inputs)
    assert not len(case.wrong(found, case.meaning(*inputs)))
