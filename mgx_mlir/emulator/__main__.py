"""Prints the emulated devices, and how to point a HIP program at them."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from mgx_mlir import emulator
from mgx_mlir.emulator import build
from mgx_mlir.errors import MgxError
from mgx_mlir.settings import EMULATOR_VARIABLES


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m mgx_mlir.emulator", description=__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the devices as JSON")
    form.add_argument("--build", action="store_true", help="build them anew from a checkout")
    form.add_argument("--env", action="store_true", help="shell lines that select the emulator")
    options = parser.parse_args(arguments)
    try:
        if options.build:
            print(build.build(("all",)))
        elif options.env:
            print(_environment())
        elif options.json:
            print(json.dumps([dataclasses.asdict(d) for d in emulator.devices()], indent=2))
        else:
            print(_report())
    except MgxError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _environment() -> str:
    root = emulator.rocm_path()
    return (
        f'export ROCM_PATH="{root}"\n'
        f'export LD_LIBRARY_PATH="{root / "lib"}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"'
    )


def _report() -> str:
    found = emulator.devices()
    lines = [
        "Emulated HIP devices",
        "====================",
        f"library  {emulator.library_path()}",
        "",
    ]
    if not found:
        lines += ["No device: set MGX_EMULATED_DEVICES, such as gfx942,gfx1100.", ""]
    for device in found:
        lines += _agent(device)
    lines += [
        "To run a HIP program on these devices",
        "-------------------------------------",
        *_environment().splitlines(),
        "or, in Python, before the first HIP call: mgx_mlir.emulator.enable()",
        "",
        "Variables of the library",
        "------------------------",
        *(f"{name:22} {what}" for name, what in sorted(EMULATOR_VARIABLES.items())),
    ]
    return "\n".join(lines)


def _agent(device: emulator.EmulatedDevice) -> list[str]:
    rows: list[tuple[str, str | int]] = [
        ("Name", device.chip),
        ("Marketing Name", device.product),
        ("ISA", f"amdgcn-amd-amdhsa--{device.target_id}"),
        ("Compute Unit", device.compute_units),
        ("SIMDs per CU", device.simds_per_cu),
        ("Max Waves Per CU", device.simds_per_cu * device.max_waves_per_simd),
        ("Wavefront Size", device.wave_size),
        ("Workgroup Max Size", 1024),
        ("Group Segment (LDS)", f"{device.lds_bytes >> 10} KB"),
        ("Vector Registers", device.max_vgprs),
        ("Max Clock Freq.", f"{device.clock_khz // 1000} MHz"),
        ("Memory Clock", f"{device.memory_clock_khz // 1000} MHz, {device.memory_bus_bits} bits"),
        ("Global Memory", f"{device.memory_bytes >> 20} MB, {device.used_bytes} bytes in use"),
        ("L2 Cache", f"{device.l2_bytes >> 10} KB"),
    ]
    title = f"Agent {device.ordinal}"
    return [title, "*" * len(title), *(f"  {name + ':':24}{value}" for name, value in rows), ""]


if __name__ == "__main__":
    sys.exit(main())
