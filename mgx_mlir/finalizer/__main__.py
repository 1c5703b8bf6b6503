"""Finalizes one stored kernel: what the reproducer of a failure calls.

python -m mgx_mlir.finalizer KERNEL.mlirbc --arch gfx942[,gfx1100] [-o FOLDER]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import MgxError
from mgx_mlir.finalizer import finalize_kernel_for


def main(arguments: list[str] | None = None) -> int:
    """Prints the statistics of each function; 1 when the kernel cannot be finalized."""
    parser = argparse.ArgumentParser(prog="python -m mgx_mlir.finalizer", description=__doc__)
    parser.add_argument("kernel", type=Path, help="a stored kernel (MLIR bytecode)")
    parser.add_argument("--arch", required=True, help="targets, such as gfx942,x86-64-v3, or cpu")
    parser.add_argument("-o", type=Path, dest="folder", help="where to write the code objects")
    options = parser.parse_args(arguments)
    try:
        targets = [Target.get(name) for name in options.arch.split(",")]
        found = finalize_kernel_for(options.kernel.read_bytes(), targets)
    except (MgxError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for target, code in zip(targets, found, strict=True):
        print(f"{target.name}: {len(code.data)} bytes, {code.scratch_bytes} bytes of scratch")
        for name, figures in code.stats.items():
            print(f"  {name}: " + " ".join(f"{key}={value}" for key, value in figures.items()))
        if options.folder is not None:
            options.folder.mkdir(parents=True, exist_ok=True)
            (options.folder / f"{options.kernel.stem}.{target.name}.elf").write_bytes(code.data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
