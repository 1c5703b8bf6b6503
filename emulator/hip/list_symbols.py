"""Writes symbols.inc: the names of the functions that hip-python can look up.

Run with the hip-python package installed: python list_symbols.py > symbols.inc
"""

import importlib.util
import re
import sys
from pathlib import Path


def names() -> list[str]:
    """The looked-up names, sorted: those of the declarations, renamed as the HIP header does."""
    spec = importlib.util.find_spec("rocm.bindings")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("hip-python is not installed: pip install hip-python")
    text = (Path(next(iter(spec.submodule_search_locations))) / "cyhip.pxd").read_text()
    found = set(re.findall(r"^cdef [\w *]*?(\w+)\([^\n]*nogil$", text, re.MULTILINE))
    renamed = {"hipGetDeviceProperties", "hipChooseDevice"}
    return sorted({n + "R0600" if n in renamed else n for n in found if n.startswith("hip")})


if __name__ == "__main__":
    print("// Functions that hip-python can look up, written by list_symbols.py.")
    for name in names():
        print(f"MGX_SYMBOL({name})")
