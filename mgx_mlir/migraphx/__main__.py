"""Runs a script whose `import migraphx` is this package: python -m mgx_mlir.migraphx SCRIPT.

`onnx_migraphx.backend`, MIGraphX's interface of ONNX's backends, is in `onnx_backend` then.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType

from mgx_mlir import migraphx
from mgx_mlir.migraphx import onnx_backend

_HELP = """\
usage: python -m mgx_mlir.migraphx SCRIPT [ARGUMENT ...]
       python -m mgx_mlir.migraphx -m MODULE [ARGUMENT ...]
Runs a Python script or module; `import migraphx` in it gives mgx_mlir.migraphx."""


def main() -> int:
    """Runs what the command line names, with the words after it as its arguments."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help") or words == ["-m"]:
        print(_HELP)
        return 0 if words and words[0] != "-m" else 2
    onnx_migraphx = ModuleType("onnx_migraphx")
    sys.modules |= {"migraphx": migraphx, "onnx_migraphx": onnx_migraphx}
    for name in ("backend", "backend_rep"):
        setattr(onnx_migraphx, name, onnx_backend)
        sys.modules[f"onnx_migraphx.{name}"] = onnx_backend
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(words[0])
    if not script.is_file():
        print(f"mgx_mlir.migraphx: there is no file {script}", file=sys.stderr)
        return 2
    # As Python does for a script: its folder comes first among those of modules.
    sys.path[0] = str(script.resolve().parent)
    sys.argv = words
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
