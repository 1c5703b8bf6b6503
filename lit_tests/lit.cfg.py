"""The lit suite: `lit lit_tests` from the checkout, with the environment's Python."""

import os
import shutil
import sys

import lit.formats

config.name = "mgx-mlir"  # noqa: F821
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_source_root = os.path.dirname(__file__)  # noqa: F821
config.test_exec_root = os.path.join(config.test_source_root, "Output")  # noqa: F821


def _tool(name: str) -> str:
    """A tool of LLVM 22: on the path, or where the packages put it."""
    found = shutil.which(f"{name}-22") or shutil.which(name)
    if found is None:
        found = shutil.which(name, path="/usr/lib/llvm-22/bin")
    if found is None:
        lit_config.fatal(f"{name} is not installed (package llvm-22-tools)")  # noqa: F821
    return found


_root = os.path.dirname(config.test_source_root)  # noqa: F821
_path = [_root, *filter(None, [os.environ.get("PYTHONPATH")])]
config.environment["PYTHONPATH"] = os.pathsep.join(_path)  # noqa: F821
config.substitutions += [  # noqa: F821
    ("%mgx-opt", f"{sys.executable} -m mgx_mlir.tools.mgx_opt"),
    ("%python", sys.executable),
    ("FileCheck", _tool("FileCheck")),
]
