"""The mgx dialect in Python: `mgx` holds the ops, `types` the element types.

Importing this package makes the dialect known to every `mlir.ir.Context` created
afterwards.
"""

from mlir import ir as _ir
from mlir._mlir_libs import get_dialect_registry as _get_dialect_registry
from mlir._mlir_libs._mlir import globals as _globals

from mgx_mlir._native import _mgx

_mgx.register_dialects(_get_dialect_registry())
# Parsed ops come back as the classes of mgx_mlir.dialects.mgx.
_globals.append_dialect_search_prefix("mgx_mlir.dialects")

__all__ = ["context"]


def context() -> _ir.Context:
    """A new Context with mgx loaded, one thread, and ops of unknown dialects refused.

    Upstream's dialects are registered and load when they are met.
    """
    made = _ir.Context(load_on_create_dialects=["mgx"])
    made.enable_multithreading(False)
    made.allow_unregistered_dialects = False
    return made
