"""Lowers a whole kernel from mgx ops to a function on tensors."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func
from mlir.passmanager import PassManager

from mgx_mlir.codegen.generic.lowering.element import element_of, shape_of
from mgx_mlir.codegen.generic.lowering.kernel import Kernel
from mgx_mlir.codegen.generic.lowering.value import Stored
from mgx_mlir.dialects import mgx
from mgx_mlir.errors import CompilerError, UnsupportedError
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.plan_attributes import OVERWRITABLE

# Building an op of a dialect that is registered and not loaded crashes: contexts load lazily.
_DIALECTS = ("affine", "arith", "func", "linalg", "math", "scf", "tensor")
_CLEAN_UP = "builtin.module(canonicalize,cse)"


def lower_kernel(kernel: mgx.KernelOp | func.FuncOp) -> ir.Module:
    """The kernel as a new module of the same context.

    kernel: an `mgx.kernel`, or a `func.func` of mgx ops, with static shapes.
    The module holds one `func.func @<name of the kernel>` on tensors of the kernel's shapes, in
    storage types (`Element.storage`: unsigned integers signless, 8-bit floats and 4-bit types as
    i8), of linalg, arith, math, tensor and scf ops. Each result is memory of its own, except that
    the inputs that the function names as `mgx.overwritable` may be the result's memory.
    Raises UnsupportedError, with the op's location, for an op that has no lowering.
    """
    with kernel.context, kernel.location:
        for name in _DIALECTS:
            kernel.context.get_dialect_descriptor(name)
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            _lower_function(kernel)
        try:
            PassManager.parse(_CLEAN_UP).run(module.operation)
        except ir.MLIRError as error:
            name = kernel.sym_name.value
            raise CompilerError(f"lowering of kernel @{name}: {error}") from error
        _separate_fills(module)
    return module


def _lower_function(kernel: mgx.KernelOp | func.FuncOp) -> None:
    type_ = ir.FunctionType(kernel.function_type.value)
    signature = ir.FunctionType.get(
        [_storage_type(t, kernel) for t in type_.inputs],
        [_storage_type(t, kernel) for t in type_.results],
    )
    function = func.FuncOp(kernel.sym_name.value, signature)
    given = overwritable(kernel)
    if given:
        function.attributes[OVERWRITABLE] = ir.DenseI64ArrayAttr.get(sorted(given))
    source = kernel.regions[0].blocks[0]
    state = Kernel()
    with ir.InsertionPoint(function.add_entry_block()):
        for outer, inner in zip(source.arguments, function.arguments, strict=True):
            state.values[outer] = Stored(inner, element_of(outer.type), owned=False)
        func.ReturnOp(state.results(state.lower_block(source)))


def _storage_type(type_: ir.Type, kernel: mgx.KernelOp | func.FuncOp) -> ir.Type:
    if not ir.RankedTensorType(type_).has_static_shape:
        raise UnsupportedError(
            f"{kernel.location}: a kernel with the dynamic type {type_} cannot be lowered; "
            "give its dimensions sizes first",
            (str(kernel.location),),
        )
    return ir.RankedTensorType.get(list(shape_of(type_)), element_of(type_).storage())


def _separate_fills(module: ir.Module) -> None:
    """Gives each user of a linalg.fill that cse has merged its own. A reduction overwrites its
    initial tensor, so bufferization would copy a shared one."""
    for op in list(module.body.operations[0].regions[0].blocks[0].operations):
        if op.operation.name != "linalg.fill":
            continue
        for use in list(op.results[0].uses)[1:]:
            user = use.owner.operation
            copy = op.operation.clone(ir.InsertionPoint(user))
            user.operands[use.operand_number] = copy.results[0]
