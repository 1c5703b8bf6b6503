"""The memory of a kernel: its inputs, its results, scratch, and tables of known elements."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import memref

from mgx_mlir.artifact.code_object import Argument
from mgx_mlir.codegen.builders.emit import add_table
from mgx_mlir.codegen.meaning.element import Element
from mgx_mlir.sizes.arithmetic import Number

# The element count of a pointer's type (memref types have sizes): more than any tensor has.
UNBOUNDED = 1 << 40


@dataclass(eq=False)
class Place:
    """Memory of a kernel: an input, an output, or (argument None) scratch.

    shared: the place whose memory it takes, if any.
    """

    type: ir.Type
    size: Number
    argument: Argument | None = None
    shared: Place | None = None

    @property
    def home(self) -> Place:
        """The place whose memory it has."""
        return self if self.shared is None else self.shared.home


@dataclass(eq=False)
class Table(Place):
    """Memory of known elements, which are part of the code."""

    elements: ir.DenseElementsAttr | None = None


@dataclass(frozen=True)
class Start:
    """The initial elements of a result: a number, or None where they are undefined."""

    shape: tuple[Number, ...]
    element: Element
    value: float | int | None

    @property
    def type(self) -> ir.Type:
        return self.element.storage()


def memory_type(type_: ir.Type) -> ir.Type:
    """An element's type in memory: a bool is a byte."""
    return ir.IntegerType.get_signless(8) if is_bool(type_) else type_


def element_bytes(type_: ir.Type) -> int:
    """The bytes of an element in memory."""
    held = memory_type(type_)
    assert isinstance(held, ir.IntegerType | ir.FloatType)
    return held.width // 8


def is_bool(type_: ir.Type) -> bool:
    return isinstance(type_, ir.IntegerType) and type_.width == 1


def table_of(table: Table, entry: ir.Block, space: ir.Attribute | None) -> ir.Value:
    """The memref of a table, which the module has once, in a function of it."""
    elements = table.elements
    assert elements is not None
    block = entry.owner.operation.block
    assert isinstance(table.size, int)  # that of a constant
    shape, element = [max(table.size, 1)], memory_type(table.type)
    type_ = ir.MemRefType.get(shape, element, memory_space=space)
    name = f"table_{len(block.operations)}"
    for op in block.operations:
        if op.name == "memref.global" and op.attributes["initial_value"] == elements:
            name = ir.StringAttr(op.attributes["sym_name"]).value
            break
    else:
        add_table(name, type_, elements, block)
    with ir.InsertionPoint.at_block_begin(entry):
        return memref.get_global(type_, name)
