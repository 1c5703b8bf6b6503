"""The Python text that builds a program, for `program.to_py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import UnsupportedError, UsageError
from mgx_mlir.migraphx.described import described
from mgx_mlir.migraphx.instruction import instruction_ref
from mgx_mlir.migraphx.module import module
from mgx_mlir.migraphx.operators import build, names, op
from mgx_mlir.migraphx.shape import ENDLESS_DIM, dynamic_dimension, shape
from mgx_mlir.migraphx.tensors import bounds_of, shape_of, sizes_of

# Larger constants are random ones in the text, as in MIGraphX's.
_MOST_ELEMENTS = 4096
_COMPARED = ("equal", "greater", "less")
# Ops whose sizes an operand holds, and the operator that has them as an attribute.
_STATED = {"broadcast_with_dims": ("multibroadcast", "out_lens"), "reshape_to": ("reshape", "dims")}
# Operators whose results have sizes that are stated, or that are padded where the data decide.
_SIZED = ("broadcast", "multibroadcast", "nonzero", "reshape", "resize")


def listing(main: module) -> str:
    """Statements that build the program whose main module is given.

    Constants of more than 4096 elements become random ones of the same shape, with a comment.
    Each op is built anew beside its text: UnsupportedError is raised for one that the interface
    cannot build, or builds otherwise.
    """
    lines = ["import migraphx", "", "p = migraphx.program()", "m = p.get_main_module()"]
    known: dict[ir.Value, str] = {}
    lines += _instructions(main, "m", known)
    returned = ", ".join(known[value] for value in main._results())
    return "\n".join([*lines, f"m.add_return([{returned}])", ""])


def _instructions(m: module, owner: str, known: dict[ir.Value, str]) -> Iterator[str]:
    for name, value in zip(m.state.names, m._block.arguments, strict=True):
        yield _named(known, [value], f"{owner}.add_parameter({name!r}, {_shape(m, value)})")
    for found in list(m._block.operations):
        if len(found.results):
            yield from _instruction(m, owner, found, known)


def _instruction(
    m: module, owner: str, found: ir.OpView, known: dict[ir.Value, str]
) -> Iterator[str]:
    results = list(found.results)
    if isinstance(found, (mgx.ConstantOp, mgx.LiteralOp)):
        yield _named(known, results, f"{owner}.add_literal({_literal(m, results[0])})")
        return
    bodies: list[str] = []
    attributes: dict[str, Any] = {}
    if isinstance(found, (mgx.IfOp, mgx.LoopOp)):
        for region in found.regions:
            bodies.append(f"b{len(known)}_{len(bodies)}")
            yield from _body(m, bodies[-1], region.blocks[0], known)
        name = str(found.operation.name).removeprefix("mgx.")
        if name == "loop":
            attributes["max_iterations"] = _trips(found)
    else:
        name, attributes = described(found)
    if name not in names():
        raise UnsupportedError(f"mgx.{name} cannot be built through this interface")
    inputs = list(found.operands)
    if name in _STATED:
        name, attribute = _STATED[name]
        inputs, attributes = inputs[:1], {attribute: sizes_of(found.results[0])}
    if name in _SIZED:
        _require_named(found)
    if not bodies:
        _require_rebuilt(m, found, op(name, **attributes), inputs)
    operands = ", ".join(known[value] for value in inputs)
    given = "".join(f", {key}={_text(value)}" for key, value in sorted(attributes.items()))
    extra = f", [{', '.join(bodies)}]" if bodies else ""
    made = f"{owner}.add_instruction(migraphx.op({name!r}{given}), [{operands}]{extra})"
    if name in _COMPARED and shape_of(found.operands[0].type).type_string() != "bool_type":
        # In MIGraphX the result of a comparison has the operands' type.
        made = f"{owner}.add_instruction(migraphx.op('convert', target_type='bool_type'), [{made}])"
    if len(results) == 1 and not bodies:
        yield _named(known, results, made)
        return
    whole = f"t{len(known)}"
    yield f"{whole} = {made}"
    for index, value in enumerate(results):
        element = (
            f'{owner}.add_instruction(migraphx.op("get_tuple_elem", index={index}), [{whole}])'
        )
        yield _named(known, [value], element)


def _trips(found: ir.OpView) -> int:
    """The rows of a loop's scan outputs; without any, no bound."""
    carried = len(found.operands) - 2
    rows = [sizes_of(found.results[i])[0] for i in range(carried, len(found.results))]
    if not all(isinstance(n, int) for n in rows):
        raise UnsupportedError("mgx.loop has scan outputs whose rows have no bound")
    return min(rows, default=ENDLESS_DIM)


def _require_named(found: ir.OpView) -> None:
    """Raises UnsupportedError where the data decide the sizes of the result."""
    result = found.results[0]
    known = int if isinstance(found, mgx.NonzeroOp) else (int, mgx.DimAttr)
    if not all(isinstance(size, known) for size in sizes_of(result)):
        raise UnsupportedError(
            f"{result.type} of {found.operation.name} has sizes that this interface cannot state; "
            "give parse_onnx the sizes of the inputs"
        )


def _require_rebuilt(
    m: module, found: ir.OpView, operator: op, operands: Sequence[ir.Value]
) -> None:
    """Raises UnsupportedError where the operator, built anew, is another op than the one found."""
    block = found.operation.block
    with found.operation.context, ir.Location.unknown():
        at = ir.InsertionPoint.at_block_begin(block)
        holder = ir.Operation.create(mgx.IfOp.OPERATION_NAME, regions=1, ip=at)
        try:
            with ir.InsertionPoint(holder.regions[0].blocks.append()):
                made = build(operator, operands)
            values = [made] if isinstance(made, ir.Value) else list(made)
            again = values[0].owner.opview
            same = [_form(v) for v in values] == [_form(v) for v in found.results]
            if again.operation.name == found.operation.name:
                same = same and described(again) == described(found)
        except UsageError as error:
            raise UnsupportedError(f"{found.operation.name}: {error}") from error
        finally:
            holder.erase()
    if not same and operator.name() not in _COMPARED:
        raise UnsupportedError(
            f"{found.operation.name} has attributes that {operator.name()} of this interface lacks"
        )


def _form(value: ir.Value) -> tuple[str, list[Any]]:
    """The element type and the sizes, None for open ones."""
    sizes = [size if isinstance(size, int) else None for size in sizes_of(value)]
    return str(ir.RankedTensorType(value.type).element_type), sizes


def _text(value: Any) -> str:
    """The Python text of a number, a dimension, or of a list of these."""
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if isinstance(value, mgx.DimAttr):
        return _dimension(bounds_of(value))
    return f"float('{value}')" if isinstance(value, float) and value - value != 0 else repr(value)


def _body(m: module, name: str, block: ir.Block, known: dict[ir.Value, str]) -> Iterator[str]:
    yield f"{name} = p.create_module({name!r})"
    for index, value in enumerate(block.arguments):
        made = f"{name}.add_parameter('{name}_{index}', {_shape(m, value)})"
        yield _named(known, [value], made)
    operations = list(block.operations)
    for found in operations[:-1]:
        yield from _instruction(m, name, found, known)
    returned = ", ".join(known[value] for value in operations[-1].operands)
    yield f"{name}.add_return([{returned}])"


def _named(known: dict[ir.Value, str], values: Sequence[ir.Value], made: str) -> str:
    known[values[0]] = f"x{len(known)}"
    return f"{known[values[0]]} = {made}"


def _shape(m: module, value: ir.Value) -> str:
    return shape_text(shape_of(value.type))


def shape_text(s: shape) -> str:
    """The Python text of a shape."""
    kind = f"type={s.type_string()!r}"
    if not s.dynamic():
        return f"migraphx.shape({kind}, lens={s.lens()})"
    return f"migraphx.shape({kind}, dyn_dims=[{', '.join(map(_dimension, s.dyn_dims()))}])"


def _dimension(d: dynamic_dimension) -> str:
    name = f", {d.name!r}" if d.name else ""
    return f"migraphx.shape.dynamic_dimension({d.min}, {d.max}, {sorted(d.optimals)}{name})"


def _literal(m: module, value: ir.Value) -> str:
    found = instruction_ref(m, [value])
    s = found.shape()
    if s.elements() > _MOST_ELEMENTS:
        return f"migraphx.generate_argument({shape_text(s)})"
    return f"migraphx.create_argument({shape_text(s)}, {_text(found.get_literal().tolist())})"
