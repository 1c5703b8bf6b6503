"""The memory that a kernel's functions may touch: facts of its portable form, kept with its code.

The finalizer derives them where it reads a kernel anyway. They go wherever the code goes, so that
a plan is checked against them without a compiler (fit.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mgx_mlir.elements import ELEMENTS

# The bytes of an element by its numpy name; elements of less than 8 bits take a byte each.
ITEM_BYTES = {row.numpy: max(row.bits // 8, 1) for row in ELEMENTS}

# No number of a file is larger: bytes of a tensor, sizes of a dimension.
_MOST = 1 << 63


@dataclass(frozen=True)
class Operand:
    """A tensor that a kernel reads or writes: its elements' numpy type, and its bytes.

    `bytes` below 0 refers to a formula of the code object. A result may have the memory of each
    input that `over` numbers, all of it and no more.
    """

    dtype: str
    bytes: int
    over: tuple[int, ...] = ()

    def to_json(self) -> list[Any]:
        return [self.dtype, self.bytes, *([list(self.over)] if self.over else [])]


@dataclass(frozen=True)
class Interface:
    """A kernel's inputs, which it reads, and outputs, which it writes, in the order of arguments.

    `dims` are the least and the greatest size of each symbol that the code depends on; None: no
    bound. `zeros` refer to formulas that are 0 where all that the code does lies inside of its
    tensors. The code is for no other sizes.
    """

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    dims: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    zeros: tuple[int, ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs, then the outputs."""
        return self.inputs + self.outputs

    def to_json(self) -> dict[str, Any]:
        """The facts as JSON values."""
        dims = {"dims": {name: list(ends) for name, ends in self.dims.items()}}
        return {
            "inputs": [operand.to_json() for operand in self.inputs],
            "outputs": [operand.to_json() for operand in self.outputs],
            **(dims if self.dims else {}),
            **({"zeros": list(self.zeros)} if self.zeros else {}),
        }

    @classmethod
    def from_json(cls, value: Any, formulas: int = 0) -> Interface:
        """Reads `to_json`'s form; ValueError for anything else."""
        if not isinstance(value, dict) or not isinstance(value.get("dims", {}), dict):
            raise ValueError(f"an interface has inputs, outputs and dims, got {value!r:.80}")
        inputs = tuple(_operand(v, formulas, 0) for v in _list(value, "inputs"))
        outputs = tuple(_operand(v, formulas, len(inputs)) for v in _list(value, "outputs"))
        zeros = value.get("zeros", [])
        if not isinstance(zeros, list) or not all(
            type(n) is int and -formulas <= n < 0 for n in zeros
        ):
            raise ValueError(f"an interface's zeros are numbers of formulas, got {zeros!r:.80}")
        dims = {name: _ends(ends) for name, ends in value.get("dims", {}).items()}
        return cls(inputs, outputs, dims, tuple(zeros))


def _list(value: dict[str, Any], name: str) -> list[Any]:
    found = value.get(name)
    if not isinstance(found, list):
        raise ValueError(f"an interface's {name} are a list, got {found!r:.80}")
    return found


def _operand(value: Any, formulas: int, inputs: int) -> Operand:
    if not isinstance(value, list) or len(value) not in (2, 3) or value[0] not in _DTYPES:
        raise ValueError(f"an operand is [type, bytes] and inputs, got {value!r:.80}")
    over = value[2] if len(value) == 3 else []
    if type(value[1]) is not int or not -formulas <= value[1] < _MOST or not _numbers(over, inputs):
        raise ValueError(f"an operand has bytes and numbers of inputs, got {value!r:.80}")
    return Operand(value[0], value[1], tuple(over))


def _ends(value: Any) -> tuple[int, int | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"a symbol has two bounds, got {value!r:.80}")
    low, high = value
    if not _numbers([low, 0 if high is None else high], _MOST):
        raise ValueError(f"the bounds of a symbol are sizes, got {value!r:.80}")
    return low, high


def _numbers(values: Any, end: int) -> bool:
    """Whether these are whole numbers from 0, below `end`."""
    return isinstance(values, list) and all(type(n) is int and 0 <= n < end for n in values)


_DTYPES: Sequence[str] = tuple(ITEM_BYTES)
