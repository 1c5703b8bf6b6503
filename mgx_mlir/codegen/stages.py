"""The forms that a kernel passes through on its way to machine code, for people to read.

    with watched() as forms:
        code = finalize_kernel(bytecode, target)
    print(forms["llvm"])

Outside of `watched`, as when a kernel is compiled, nothing is printed to text.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from mgx_mlir.scopes import holding

_forms: ContextVar[dict[str, str] | None] = ContextVar("_forms", default=None)


def watched() -> AbstractContextManager[dict[str, str]]:
    """Gives the forms of the kernel that is compiled inside, by the names of their stages.

    A kernel that is generated again, since its code spilled registers, leaves its last forms.
    """
    forms: dict[str, str] = {}
    return holding(_forms, forms)


def pass_stage(stage: str, text: Callable[[], str]) -> None:
    """Says that a kernel is at a stage; its `text` is asked for where somebody watches."""
    forms = _forms.get()
    if forms is not None:
        forms[stage] = text()
