"""Steps that the host does sooner than it launches a program: copies, and truths of few numbers.

Equal(rate, 16000), the condition of an If     ->  numpy.equal
Identity(result of the If)                     ->  numpy.copy
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from mgx_mlir.models.host.values import is_tensor

# The host compares tensors of up to this many elements; it copies any.
_MOST = 64
_RULES: dict[str, Callable[..., Any]] = {
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Identity": np.copy,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}


def are_quick(nodes: Iterable[NodeProto]) -> bool:
    """Whether nodes may be the host's; one with an attribute is of an old definition."""
    return all(not n.domain and n.op_type in _RULES and not n.attribute for n in nodes)


def results(nodes: Sequence[NodeProto], find: Callable[[str], Any]) -> dict[str, Any] | None:
    """The results of quick nodes by name; None where a program has to do it.

    A program also says why operands do not fit.
    """
    found: dict[str, Any] = {}
    for node in nodes:
        operands = [found[name] if name in found else find(name) for name in node.input]
        most = _MOST if node.op_type != "Identity" else np.inf
        if not all(is_tensor(x) and x.size <= most for x in operands):
            return None
        try:
            found[node.output[0]] = np.asarray(_RULES[node.op_type](*operands))
        except ValueError:
            return None
    return found
