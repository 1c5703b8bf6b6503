"""Compiled HIP programs, linked as against ROCm, run on the emulated devices."""

from __future__ import annotations

import os
import subprocess

import pytest
from hip_support import DEVICES, HERE, bundle, clang, compile_kernels, passes

from mgx_mlir import emulator

SOURCE = HERE / "program.hip"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    images = {}
    for chip in DEVICES:
        images[chip] = compile_kernels(chip, SOURCE, folder / f"{chip}.co").read_bytes()
    (folder / "code.hipfb").write_bytes(bundle(images))
    library = emulator.rocm_path() / "lib"
    command = [clang(), "-x", "hip", "--offload-host-only", "-nogpuinc", "-nogpulib", "-O1"]
    command += ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(folder / "code.hipfb")]
    subprocess.run([*command, "-c", str(SOURCE), "-o", str(folder / "program.o")], check=True)
    link = [clang(), str(folder / "program.o"), "-o", str(folder / "program")]
    subprocess.run([*link, f"-L{library}", "-lamdhip64", "-lstdc++"], check=True)
    return folder / "program"


@pytest.mark.parametrize("asynchronous", ["0", "1"])
def test_a_program_with_kernels_symbols_and_launch_syntax_runs(program, asynchronous):
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(emulator.rocm_path() / "lib"),
        "MGX_EMULATED_DEVICES": ",".join(DEVICES),
        "MGX_EMULATOR_ASYNC": asynchronous,
    }
    out = passes(
        subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=60)
    )
    assert out.count("right") == len(DEVICES)
    assert out.count("too large a block: 9") == len(DEVICES)
    assert out.count("blocks: some") == len(DEVICES)
