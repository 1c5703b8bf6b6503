"""Sizes of a model's inputs: those the caller gives, those the model fixes, and symbols."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import onnx
from onnx import TensorShapeProto, ValueInfoProto

from mgx_mlir.errors import ModelError, OpenError, UnsupportedError, UsageError
from mgx_mlir.importer import dim_names
from mgx_mlir.importer.tensor_data import MAX_ELEMENTS
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.importer.tensors import size as size_of_dim
from mgx_mlir.sizes.arithmetic import Number, Size, Symbol, alone, substitute
from mgx_mlir.sizes.arithmetic import symbols as symbols_in
from mgx_mlir.sizes.range import APART, Given, Range
from mgx_mlir.suggest import instead, listed


def bind(
    model: onnx.ModelProto,
    inputs: Sequence[str],
    input_dims: Mapping[str, Sequence[int | Range]],
    dim_params: Mapping[str, Given],
    default_dim: int | Range | None,
    own: Mapping[str, Range] | None = None,
) -> dict[str, Range]:
    """Writes sizes into the inputs and outputs of the model's graph.

    A size given for a dimension with a name holds wherever the name stands; APART says that the
    name holds for no two of its dimensions. A dimension that stays unknown keeps its name, or
    gets one from the input and its index; a formula of other names is written as mgx_mlir.sizes
    does. `own` are the sizes that the model is for, by name. Returns the ranges of sizes that are
    given, within its own, by name.
    Raises UsageError where the caller contradicts the model or themselves.
    """
    values = {v.name: v for v in _declared(model, inputs)}
    for name in input_dims.keys() - values.keys():
        hint = instead(name, inputs, f"its inputs are {listed(inputs)}")
        raise UsageError(f"the model has no input '{name}'; {hint}")
    symbols = {d.dim_param for v in values.values() for d in _dims(v) if d.dim_param}
    apart = {name for name, size in dim_params.items() if size == APART}
    apart |= contradicted(model, input_dims) - dim_params.keys()
    _name_dims(values.values(), apart)
    symbols |= {d.dim_param for v in values.values() for d in _dims(v) if d.dim_param}
    bound = _Bound()
    for symbol, size in dim_params.items():
        if not isinstance(size, str):
            _bind_symbol(bound, symbol, size, "dim_params")
    for name, sizes in input_dims.items():
        _bind_input(bound, values[name], sizes)
    for symbol in dim_params.keys() - symbols:
        hint = instead(symbol, symbols, f"there are: {listed(sorted(symbols))}")
        raise UsageError(f"no input has a dimension called '{symbol}'; {hint}")
    if isinstance(default_dim, int) and default_dim < 0:
        raise UsageError(f"the default size {default_dim} is negative")
    meanings = dim_names.meanings([*symbols, *bound])
    formulas = {name for name, size in meanings.items() if dim_names.is_formula(name, size)}
    for name in inputs:
        _finish_input(values[name], bound, default_dim, formulas)
    for symbol, range_ in (own or {}).items():
        _bind_own(bound, symbol, range_)
    _evaluate_formulas(values.values(), bound)
    for value in model.graph.output:
        for dim in _dims(value):
            given = bound.get(dim.dim_param)
            if isinstance(given, int):
                dim.dim_value = given
    return {name: size for name, size in bound.items() if isinstance(size, Range)}


def contradicted(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int | Range]]) -> set[str]:
    """The names of dimensions that inputs of these shapes contradict."""
    return dim_names.contradicted(
        (dim.dim_param, size)
        for value in model.graph.input
        if len(sizes := shapes.get(value.name, ())) == len(_dims(value))
        for dim, size in zip(_dims(value), sizes, strict=True)
        if dim.dim_param and isinstance(size, int)
    )


def write_formulas(
    model: onnx.ModelProto, inputs: Sequence[str], ranges: Mapping[str, Range]
) -> None:
    """Writes the names of the inputs' dimensions as mgx_mlir.sizes does: each size one text.

    A name with a range stays a symbol, also where it is a formula.
    """
    dims = [d for v in _declared(model, inputs) for d in _dims(v) if d.dim_param]
    for dim, size in zip(dims, _meanings(dims, ranges), strict=True):
        dim.dim_param = str(size)


def plain(model: onnx.ModelProto, inputs: Sequence[str], range_: Range) -> dict[str, Range]:
    """The range for each symbol that is a dimension of an input."""
    dims = (d for v in _declared(model, inputs) for d in _dims(v))
    found = (alone(_size_of(dim)) for dim in dims)
    return {symbol.name: range_ for symbol in found if symbol is not None}


def _meanings(
    dims: Sequence[TensorShapeProto.Dimension], given: Mapping[str, int | Range]
) -> list[Number]:
    """The size that each dimension's name is, and a number where it follows from those given."""
    names = [dim.dim_param for dim in dims]
    found = dim_names.meanings([*names, *given])
    known = {name: size for name, size in given.items() if isinstance(size, int)}
    sizes: list[Number] = []
    for name in names:
        size = Size.of(Symbol(name.replace("`", "'"))) if name in given else found[name]
        with contextlib.suppress(ZeroDivisionError):
            size = substitute(size, known)
        sizes.append(size)
    return sizes


def _evaluate_formulas(values: Iterable[ValueInfoProto], bound: _Bound) -> None:
    """Gives sizes to dimensions that are formulas of names with sizes."""
    dims = [dim for value in values for dim in _dims(value) if dim.dim_param]
    for dim, size in zip(dims, _meanings(dims, bound), strict=True):
        if isinstance(size, int) and size >= 0:
            dim.dim_value = size


def equate(
    model: onnx.ModelProto,
    inputs: Sequence[str],
    equations: Sequence[tuple[Dim, Dim]],
    ranges: Mapping[str, Range],
) -> bool:
    """Writes what has to be equal into the inputs' shapes: a symbol becomes a size or a formula.

    A run checks the sizes of its inputs against their shapes. Returns whether a symbol is gone;
    one with a range of sizes stays, but for a size of it or a symbol with the same.
    """
    declared = _declared(model, inputs)
    plain = (alone(_size_of(d)) for v in declared for d in _dims(v))
    known = list(dict.fromkeys(symbol.name for symbol in plain if symbol is not None))
    for pair in equations:
        a, b = map(_known_size, pair)
        for one, other in ((a, b), (b, a)) if a is not None and b is not None else ():
            own = alone(one)
            if own is None or own.name not in known or own in symbols_in(other):
                continue
            if not {symbol.name for symbol in symbols_in(other)} <= set(known):
                continue  # a name that onnx's inference made up says nothing
            second = alone(other)
            if second is not None and second.name in known[known.index(own.name) :]:
                continue  # the first name stays
            if not _is_within(other, ranges, ranges.get(own.name)):
                continue
            _substitute(model, declared, own.name, other)
            return True
    return False


def assume_equal(
    model: onnx.ModelProto,
    inputs: Sequence[str],
    equations: Sequence[tuple[Dim, Dim]],
    same: dict[str, Dim],
) -> bool:
    """Adds to `same` what has to be equal, the longer name first: a run checks its sizes.

    Returns whether there is more than before. Sizes of symbols that no input has say nothing.
    """
    dims = [d for v in _declared(model, inputs) for d in _dims(v)]
    known = {symbol.name for d in dims for symbol in symbols_in(_size_of(d) or 0)}
    before = len(same)
    for pair in equations:
        a, b = map(_known_size, pair)
        if a is None or b is None or a == b or a < b or b < a:
            continue
        if not {symbol.name for n in (a, b) for symbol in symbols_in(n)} <= known:
            continue
        kept, other = sorted((a, b), key=lambda n: (not isinstance(n, int), len(str(n)), str(n)))
        if not isinstance(other, int):
            same.setdefault(str(other), kept if isinstance(kept, int) else str(kept))
    return len(same) > before


def _known_size(dim: Dim) -> Number | None:
    """The size of an equation's side. None where it is a number for sizes of 1 or more alone.

    So is min(n, 1), which does not say that n is 1.
    """
    size = size_of_dim(dim)
    return None if isinstance(size, int) and _is_formula(dim) else size


def _is_formula(dim: Dim) -> bool:
    return isinstance(dim, str) and not dim.isdecimal()


def sizes_like(model: onnx.ModelProto, like: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The sizes of symbols in inputs of the shapes `like`."""
    found: dict[str, int] = {}
    for value in model.graph.input:
        for dim, size in zip(_dims(value), like.get(value.name, ()), strict=False):
            symbol = alone(_size_of(dim))
            if symbol is not None:
                found.setdefault(symbol.name, size)
    return found


def _size_of(dim: TensorShapeProto.Dimension) -> Number | None:
    return size_of_dim(dim.dim_param) if dim.dim_param else None


def _is_within(size: Number, ranges: Mapping[str, Range], wanted: Range | None) -> bool:
    """Whether a size has no other values than those of a range."""
    if isinstance(size, int):
        return wanted is None or wanted.low <= size <= (wanted.high or size)
    symbol = alone(size)
    return wanted is None or (symbol is not None and ranges.get(symbol.name) == wanted)


def _substitute(
    model: onnx.ModelProto, inputs: Iterable[ValueInfoProto], name: str, size: Number
) -> None:
    """Replaces a symbol in the inputs' shapes; shapes that were inferred from it go."""
    for value in inputs:
        for dim in _dims(value):
            have = _size_of(dim)
            if have is None or name not in {symbol.name for symbol in symbols_in(have)}:
                continue
            new = substitute(have, {name: size})
            if isinstance(new, int):
                dim.dim_value = new
            else:
                dim.dim_param = str(new)
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            for dim in _dims(value):
                if dim.dim_param:
                    dim.Clear()


class _Bound(dict[str, "int | Range"]):
    """The sizes of symbols, and the source of each."""

    def __init__(self) -> None:
        super().__init__()
        self.givers: dict[str, str] = {}


def _bind_symbol(bound: _Bound, symbol: str, size: int | Range, giver: str) -> None:
    if isinstance(size, Range):
        try:
            size.check()
        except ValueError as error:
            raise UsageError(f"dimension '{symbol}': {error}") from None
    elif not 0 <= size <= MAX_ELEMENTS:
        raise UsageError(f"dimension '{symbol}' cannot have size {size}")
    known = bound.setdefault(symbol, size)
    if isinstance(known, Range) and isinstance(size, int) and size in known:
        bound[symbol] = size
    elif known != size:
        raise UsageError(
            f"dimension '{symbol}' is given both {bound[symbol]} (by {bound.givers[symbol]}) and "
            f"{size} (by {giver})"
        )
    bound.givers.setdefault(symbol, giver)


def _bind_own(bound: _Bound, symbol: str, own: Range) -> None:
    given = bound.setdefault(symbol, own)
    if isinstance(given, Range):
        ends = [end for end in (given.high, own.high) if end is not None]
        low, high = max(given.low, own.low), min(ends, default=None)
        if high is None or low <= high:
            bound[symbol] = Range(low, high, tuple(size for size in given.optimals if size in own))
            return
    elif given in own:
        return
    raise UsageError(
        f"dimension '{symbol}' is given {given} (by {bound.givers[symbol]}), and the model is for "
        f"{own}"
    )


def _bind_input(bound: _Bound, value: ValueInfoProto, sizes: Sequence[int | Range]) -> None:
    kind = value.type.WhichOneof("value") or "tensor_type"
    if kind != "tensor_type":
        raise UnsupportedError(f"inputs of {kind.removesuffix('_type')} type are not supported")
    dims = _dims(value)
    if not value.type.tensor_type.HasField("shape"):
        value.type.tensor_type.shape.SetInParent()
        for _ in sizes:
            value.type.tensor_type.shape.dim.add()
        dims = _dims(value)
    if len(dims) != len(sizes):
        raise UsageError(
            f"input '{value.name}' has {len(dims)} dimensions, and {len(sizes)} sizes are given"
        )
    for place, (dim, size) in enumerate(zip(dims, sizes, strict=True)):
        if isinstance(size, Range):
            _bind_range(bound, value, place, size)
            continue
        if not 0 <= size <= MAX_ELEMENTS:
            raise UsageError(f"dimension {place} of input '{value.name}' cannot have size {size}")
        if dim.HasField("dim_value") and dim.dim_value != size:
            raise UsageError(
                f"the model fixes dimension {place} of input '{value.name}' at "
                f"{dim.dim_value}; {size} is given"
            )
        if dim.dim_param:
            _bind_symbol(bound, dim.dim_param, size, f"input '{value.name}'")
        dim.dim_value = size


def _bind_range(bound: _Bound, value: ValueInfoProto, place: int, size: Range) -> None:
    dim = _dims(value)[place]
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        raise UsageError(
            f"the model fixes dimension {place} of input '{value.name}' at {dim.dim_value}; "
            f"{size} is given"
        )
    if not dim.dim_param:  # the input declares no shape
        dim.dim_param = _name_of(value, place)
    _bind_symbol(bound, dim.dim_param, size, f"input '{value.name}'")


def _name_dims(values: Iterable[ValueInfoProto], apart: set[str]) -> None:
    """Names the dimensions that have no size and no name that counts, each differently."""
    dims = [(value, place, dim) for value in values for place, dim in enumerate(_dims(value))]
    taken = {dim.dim_param for _, _, dim in dims}
    for value, place, dim in dims:
        if dim.HasField("dim_value") and dim.dim_value < 0:  # how some exporters write 'unknown'
            dim.ClearField("dim_value")
        name = dim.dim_param
        if not dim.HasField("dim_value") and (name in apart or dim_names.says_nothing(name)):
            name = _name_of(value, place)
            while name in taken:
                name += "_"
            dim.dim_param = name
            taken.add(name)


def _name_of(value: ValueInfoProto, place: int) -> str:
    return f"{_identifier(value.name)}_d{place}"


def _finish_input(
    value: ValueInfoProto, bound: _Bound, default: int | Range | None, formulas: set[str]
) -> None:
    is_tensor = value.type.WhichOneof("value") == "tensor_type"
    if is_tensor and not value.type.tensor_type.HasField("shape"):
        raise OpenError(
            f"input '{value.name}' declares no shape; give its sizes by "
            f"input_dims={{'{value.name}': [N, N]}}, of as many dimensions as it has"
        )
    for dim in _dims(value):
        if dim.HasField("dim_value"):
            continue
        size = bound.get(dim.dim_param)
        if isinstance(size, int):
            dim.dim_value = size
        elif size is not None:
            continue
        elif default is not None and dim.dim_param not in formulas:
            _bind_symbol(bound, dim.dim_param, default, "default_dim")
            if isinstance(default, int):
                dim.dim_value = default
    if math.prod(d.dim_value or 1 for d in _dims(value)) > MAX_ELEMENTS:
        sizes = [d.dim_value or d.dim_param for d in _dims(value)]
        raise ModelError(f"input '{value.name}' is impossibly large: {sizes}")


def _declared(model: onnx.ModelProto, inputs: Sequence[str]) -> list[ValueInfoProto]:
    """What the model's graph declares of its inputs, in the graph's order."""
    names = set(inputs)
    return [value for value in model.graph.input if value.name in names]


def _dims(value: ValueInfoProto) -> list[TensorShapeProto.Dimension]:
    return list(value.type.tensor_type.shape.dim)


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)
