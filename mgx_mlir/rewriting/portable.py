"""Kernels in their stored form: versioned MLIR bytecode of mgx ops for the dummy arch.

A stored kernel is a module with one `mgx.kernel @kernel`, without locations, so that equal
kernels are equal bytes wherever they come from. It holds mgx ops and builtin types and
attributes only, and knows no chip: it says which features it needs instead.
"""

from __future__ import annotations

from dataclasses import replace

from mlir import ir
from mlir.passmanager import PassManager

from mgx_mlir._native import _mgx
from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.contents import PortableKernel, version_text
from mgx_mlir.artifact.formulas import Formulas
from mgx_mlir.artifact.interface import Interface, Operand
from mgx_mlir.dialects import context as new_context
from mgx_mlir.dialects import mgx
from mgx_mlir.dialects.types import numpy_dtype
from mgx_mlir.elements import ELEMENTS
from mgx_mlir.errors import ArtifactError, CompilerError, MgxError, UnsupportedError
from mgx_mlir.rewriting.graph import node_name, symbol_name
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.kernel_loops import is_counted
from mgx_mlir.rewriting.queries import walk
from mgx_mlir.rewriting.size_claims import size_claims
from mgx_mlir.rewriting.symbolic import named_symbols, sizes_of
from mgx_mlir.sizes.arithmetic import Number, symbols

ARCH = "gfxMIGX"
SYMBOL = "kernel"
MAGIC = b"ML\xefR"
MAX_BYTES = 1 << 26

# mgx ops that belong to a program, not to a kernel.
PROGRAM_OPS = frozenset(
    op.OPERATION_NAME for op in (mgx.CodeObjectOp, mgx.LaunchOp, mgx.LiteralOp, mgx.IfOp)
)

# The feature that a chip needs for an element type; other types work on every chip.
_TYPE_FEATURES = {row.name: row.feature for row in ELEMENTS if row.feature}

# How attributes of the dialect are written: '#mgx.dim<...>', and enums '#mgx<pooling_mode max>'.
_MGX = ("#mgx.", "#mgx<")

_PLAIN_ATTRIBUTES = (
    ir.BoolAttr,
    ir.DenseBoolArrayAttr,
    ir.DenseElementsAttr,
    ir.DenseF32ArrayAttr,
    ir.DenseF64ArrayAttr,
    ir.DenseI8ArrayAttr,
    ir.DenseI16ArrayAttr,
    ir.DenseI32ArrayAttr,
    ir.DenseI64ArrayAttr,
    ir.FlatSymbolRefAttr,
    ir.FloatAttr,
    ir.IntegerAttr,
    ir.StringAttr,
    ir.UnitAttr,
)


def portable_kernel(kernel: mgx.KernelOp, version: tuple[int, int] | None = None) -> PortableKernel:
    """An `mgx.kernel` of a program in its stored form, with its name and its ONNX nodes.

    The form is the oldest version that holds the kernel. A kernel that needs nothing new has the
    bytes that an older compiler gives it, and every reader that knows its ops can read it.
    Raises CompilerError when the kernel is not portable (`verify_portable`), UnsupportedError when
    a reader of `version` would not know all of it.
    """
    needed, reason = _mgx.required_version(kernel.operation)
    if version is not None and needed > version:
        raise UnsupportedError(
            f"{reason}, from {node_name(kernel) or 'the program'}, needs version "
            f"{version_text(needed)} of the artifact, and {version_text(version)} is asked for"
        )
    bytecode = kernel_to_bytecode(kernel, needed)
    return PortableKernel(
        name=symbol_name(kernel),
        bytecode=bytecode,
        features=tuple(sorted(required_features(kernel))),
        nodes=tuple(filter(None, dict.fromkeys(node_name(kernel).split("+")))),
        dialect=needed,
    )


def kernel_to_bytecode(kernel: mgx.KernelOp, version: tuple[int, int] | None = None) -> bytes:
    """The kernel alone as bytecode; equal kernels give equal bytes.

    `version` is the version of the dialect to write, by default the oldest that holds the
    kernel. Raises CompilerError when the kernel is not portable (`verify_portable`), ValueError
    for a version that cannot be written, naming the op that prevents it.
    """
    with kernel.context, ir.Location.unknown():
        module = ir.Module.create()
        copy = kernel.operation.clone(ip=ir.InsertionPoint(module.body)).operation
        copy.attributes["sym_name"] = ir.StringAttr.get(SYMBOL)
        features = [ir.StringAttr.get(name) for name in sorted(required_features(kernel))]
        copy.attributes["features"] = ir.ArrayAttr.get(features)
        if "sym_visibility" in copy.attributes:
            del copy.attributes["sym_visibility"]
        PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        try:
            verify_portable(module)
        except ArtifactError as error:
            name = symbol_name(kernel)
            raise CompilerError(f"kernel @{name} is not portable: {error}") from error
        return bytes(_mgx.write_bytecode(module.operation, version))


def read_kernel(
    bytecode: bytes, context: ir.Context | None = None
) -> tuple[ir.Module, mgx.KernelOp]:
    """The module of a stored kernel and the `mgx.kernel` in it.

    Keep the module as long as the kernel is used. Raises ArtifactError for bytes that are
    no bytecode, of a version that cannot be read, or not a portable kernel. Bytes that were
    made to harm can end the process or take forever in MLIR's own reader: kernels of a file
    are read in a worker process (see finalizer).
    """
    if bytecode[: len(MAGIC)] != MAGIC:
        raise ArtifactError("a stored kernel is not MLIR bytecode; compile the model again")
    if len(bytecode) > MAX_BYTES:
        raise ArtifactError(f"a stored kernel has at most {MAX_BYTES} bytes, got {len(bytecode)}")
    with context or new_context():
        try:
            module = ir.Module.parse(bytecode)
            return module, verify_portable(module)
        except MgxError:
            raise
        except (ir.MLIRError, MemoryError, RuntimeError, ValueError) as error:
            # RuntimeError: the bindings meet a name that is no UTF-8.
            raise ArtifactError(
                f"a stored kernel cannot be read: {error}. It is damaged, or of a newer version "
                f"of the mgx dialect than {'.'.join(map(str, _mgx.dialect_version()))}: compile "
                "the model again, or use the version of mgx-mlir that wrote it"
            ) from error


def kernel_text(bytecode: bytes) -> str:
    """A stored kernel as MLIR's text. Raises as read_kernel does."""
    return str(read_kernel(bytecode)[0])


def verify_portable(module: ir.Module) -> mgx.KernelOp:
    """Checks that a module is one kernel in portable form (docs/portable.md), and gives it.

    Raises ArtifactError naming the op, type or attribute that is not allowed.
    """
    operations = list(module.body.operations)
    kernel = operations[0] if len(operations) == 1 else None
    if not isinstance(kernel, mgx.KernelOp):
        found = ", ".join(op.operation.name for op in operations) or "nothing"
        raise ArtifactError(f"a stored kernel is a module with one mgx.kernel, found {found}")
    arch = str(kernel.arch)
    if arch != f'#mgx.arch<"{ARCH}">':
        raise ArtifactError(f'a stored kernel has the arch #mgx.arch<"{ARCH}">, not {arch}')
    _check_attributes(module.operation)
    for op in walk(kernel.operation):
        _check_op(op)
        if op.name == mgx.LoopOp.OPERATION_NAME and not _may_stand(op.opview, kernel):
            raise ArtifactError(
                "a loop in a stored kernel is the only one, and its condition is the constant true"
            )
    stated = [ir.StringAttr(name).value for name in kernel.features]
    needed = sorted(required_features(kernel))
    if stated != needed:
        raise ArtifactError(f"a stored kernel needs the features {needed} and states {stated}")
    return kernel


def required_features(kernel: ir.OpView) -> set[str]:
    """The features that a chip needs for the kernel's element types, by `Target`'s names."""
    types = {
        str(_element(value.type))
        for op in walk(kernel.operation)
        for value in (*op.operands, *op.results)
    }
    return {_TYPE_FEATURES[name] for name in types if name in _TYPE_FEATURES}


def interface_of(kernel: mgx.KernelOp, formulas: Formulas) -> Interface:
    """The memory that the kernel's code may touch; sizes that are symbols become `formulas`."""
    signature = ir.FunctionType(kernel.function_type.value)
    inputs, results = list(signature.inputs), list(signature.results)
    over = tuple(sorted(overwritable(kernel)))

    def operand(type_: ir.Type, over: tuple[int, ...] = ()) -> Operand:
        dtype = numpy_dtype(type_)
        total: Number = dtype.itemsize
        for size in sizes_of(type_, None):
            if size is None:
                raise UnsupportedError(f"a kernel takes a tensor of an unknown size: {type_}")
            total = total * size
        return Operand(dtype.name, formulas.number(total), over)

    return Interface(
        tuple(operand(type_) for type_ in inputs),
        tuple(operand(type_, over) for type_ in results),
        _symbol_bounds([*inputs, *results]),
        tuple(formulas.number(claim) for claim in size_claims(kernel)),
    )


def with_interface(code: CodeObject, kernel: mgx.KernelOp) -> CodeObject:
    """The kernel's code with the memory that it may touch."""
    formulas = Formulas({text: number for number, text in enumerate(code.formulas)})
    interface = interface_of(kernel, formulas)
    return replace(code, interface=interface, formulas=tuple(formulas.texts))


def _symbol_bounds(tensors: list[ir.Type]) -> dict[str, tuple[int, int | None]]:
    """The least and greatest sizes of the symbols that tensors have as dimensions."""
    found: dict[str, tuple[int, int | None]] = {}
    for symbol in named_symbols(tensors).values():
        found[symbol.name] = symbol.low, symbol.high
    used = {s.name for t in tensors for n in sizes_of(t, None) if n is not None for s in symbols(n)}
    return {name: ends for name, ends in sorted(found.items()) if name in used}


def _check_op(op: ir.Operation) -> None:
    parent = op.parent
    nested = (
        op.name == mgx.KernelOp.OPERATION_NAME
        and parent is not None
        and parent.name != "builtin.module"
    )
    if not op.name.startswith("mgx.") or op.name in PROGRAM_OPS or nested:
        raise ArtifactError(f"a stored kernel holds mgx ops of a kernel only, found {op.name}")
    _check_attributes(op)
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    for value in (*op.operands, *op.results, *arguments):
        _check_type(value.type, op)


def _may_stand(loop: ir.OpView, kernel: mgx.KernelOp) -> bool:
    loops = [op for op in kernel.body.blocks[0].operations if isinstance(op, mgx.LoopOp)]
    return len(loops) == 1 and loops[0] == loop and is_counted(loops[0])


def _check_attributes(op: ir.Operation) -> None:
    for name in op.attributes:
        _check_attribute(op.attributes[name], name, op)
    extra = _mgx.discardable_attributes(op)
    if extra:
        raise ArtifactError(
            f"a stored kernel holds attributes of the dialect's definitions only, found {extra[0]} "
            f"on {op.name}"
        )


def _check_attribute(attribute: ir.Attribute, name: str, op: ir.Operation) -> None:
    if isinstance(attribute, _PLAIN_ATTRIBUTES):
        return
    if isinstance(attribute, ir.TypeAttr):
        _check_type(attribute.value, op)
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            _check_attribute(element, name, op)
    elif isinstance(attribute, ir.DictAttr):
        for key in (attribute[number].name for number in range(len(attribute))):
            _check_attribute(attribute[key], name, op)
    elif not str(attribute).startswith(_MGX):
        raise ArtifactError(
            f"a stored kernel holds builtin and mgx attributes only, found {name} = "
            f"{attribute!s:.80} on {op.name}"
        )


def _check_type(type_: ir.Type, op: ir.Operation) -> None:
    if isinstance(type_, ir.FunctionType):
        for part in (*type_.inputs, *type_.results):
            _check_type(part, op)
        return
    element = _element(type_)
    encoding = type_.encoding if isinstance(type_, ir.RankedTensorType) else None
    if encoding is not None and not str(encoding).startswith(_MGX):
        raise ArtifactError(f"a tensor of a stored kernel has the encoding {encoding!s:.80}")
    if not isinstance(element, (ir.FloatType, ir.IntegerType, ir.IndexType)):
        raise ArtifactError(
            f"a stored kernel holds builtin tensors and numbers only, found {type_!s:.80} "
            f"on {op.name}"
        )


def _element(type_: ir.Type) -> ir.Type:
    return type_.element_type if isinstance(type_, ir.RankedTensorType) else type_
