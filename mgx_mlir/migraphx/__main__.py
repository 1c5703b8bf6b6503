"""Runs a script whose `import migraphx` is this package: python -m mgx_mlir.migraphx SCRIPT."""

from __future__ import annotations

import runpy
import sys

from mgx_mlir import migraphx


def main() -> int:
    """Runs the script named on the command line, with the words after it as its arguments."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m mgx_mlir.migraphx SCRIPT [ARGUMENT ...]")
        print("Runs a Python script; `import migraphx` in it gives mgx_mlir.migraphx.")
        return 0 if len(sys.argv) > 1 else 2
    sys.modules["migraphx"] = migraphx
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
