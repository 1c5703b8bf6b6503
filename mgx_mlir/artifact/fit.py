"""Whether a plan keeps to what its kernels may touch: libmgx's checks, for parts in memory.

A kernel's code touches the memory of its arguments, as large as its interface says, and its own
scratch memory. So a plan is safe whose arguments are that large and lie where they say, and whose
results lie apart from all else that a launch touches, wherever the plan comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from dataclasses import replace

from mgx_mlir.artifact import library
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.plan import Plan
from mgx_mlir.artifact.signature import canonical_json


def check_code(plan: Plan, code: Sequence[CodeObject]) -> None:
    """Raises ArtifactError where a launch may touch memory that the plan does not give it.

    A plan for any sizes is tried with some, of which one has to fit; each run is checked for its
    own sizes. Code without an interface is not looked at: somebody vouches for it together with the
    plan (trust.py).
    """
    records = [canonical_json(replace(one, data=b"").to_json()) for one in code]
    codes = (library.Code * len(records))(*(library.Code(record) for record in records))
    assembly = library.made(
        library.Assembly, plan=canonical_json(plan.to_json()), code=codes, codes=len(codes)
    )
    library.call("mgx_artifact_check", byref(assembly), 1)
