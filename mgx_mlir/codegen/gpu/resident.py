"""Launches of several kernels as one kernel, whose work-groups all run at a time and stay.

    for phase in phases:                     the launches, in order
        if it waits: a barrier of all work-groups
        for tile in group, group + groups, .. tiles of the phase:
            its body                         the function that the launch names, once in the code

The arguments are memory for the barrier, the number of phases, the number of work-groups, and for
each phase a number, which body it has and whether it waits, and the body's own arguments. So phases
that differ in their pointers alone share a body: the layers of a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import gpu, llvm

from mgx_mlir.artifact.code_object import Launch
from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.builders.binary import gpu_module_of
from mgx_mlir.codegen.gpu.builders.passes import lowered
from mgx_mlir.codegen.gpu.builders.program import GpuProgram
from mgx_mlir.codegen.refusal import Refusal
from mgx_mlir.machine.amdgpu_metadata import kernel_stats
from mgx_mlir.machine.link import link
from mgx_mlir.machine.llvm_amdgpu import emit_object
from mgx_mlir.machine.ocml import libraries_for
from mgx_mlir.rewriting.queries import ops_inside
from mgx_mlir.sizes.arithmetic import ceil_div

NAME = "resident"
# Bytes before the phases' arguments, and from the first counter of the barrier to the second.
HEADER, SECOND_COUNTER = 24, 128
_GROUP_IDS = {f"rocdl.workgroup.id.{d}": i for i, d in enumerate("xyz")}
_THREAD_ID, _BARRIER = "rocdl.workitem.id.x", "rocdl.s.barrier"
_BUFFER = "rocdl.make.buffer.rsrc"
_POSITIONS = re.compile(r"rocdl\.(workgroup|workitem|grid|cluster|barrier|s\.barrier)[\w.]*")


@dataclass(frozen=True)
class Part:
    """A launch of a program, whose function is a body of the kernel."""

    program: GpuProgram
    launch: Launch


@dataclass
class _Body:
    """A part as a device function: its type, and the LDS of one of its work-groups."""

    launch: Launch
    types: list[str]
    lds_bytes: int
    threads: int
    together: int  # work-groups of the launch that a work-group of the kernel has at a time

    @property
    def tiles(self) -> int:
        x, y, z = self.launch.grid
        return ceil_div(x * y * z, self.together)


def resident_code(
    parts: Sequence[Part], arguments: int, target: Target
) -> tuple[bytes, dict[str, dict[str, int]], int] | Refusal:
    """The code object of the kernel `NAME`, the figures of it, and its threads.

    arguments: how many the kernel takes. The parts' programs are of one context.
    """
    threads = max(part.launch.block[0] for part in parts)
    with parts[0].program.module.context, ir.Location.unknown():
        sources = {}
        for program in dict.fromkeys(part.program for part in parts):
            sources[program] = gpu_module_of(program)
            lowered(sources[program], target.chip, program.index_bits)
        merged = _Merged(threads, target)
        for part in parts:
            if said := merged.add(part, sources[part.program]):
                return said
        text = llvm.translate_module_to_llvmir(merged.module(arguments).operation)
    libraries = libraries_for(text, target.chip, target.wave_size)
    data = link(
        emit_object(text, target.name, features=target.gpu.llvm_features, libraries=libraries)
    )
    stats = kernel_stats(data)
    if stats[NAME]["vgpr_spills"] or stats[NAME]["scratch_bytes"]:
        return Refusal("all bodies in one kernel would spill registers")
    return data, stats, threads


class _Merged:
    """The module of the kernel, part by part."""

    def __init__(self, threads: int, target: Target) -> None:
        self._threads, self._wave = threads, target.wave_size
        self._bodies: list[_Body] = []
        self._functions: list[ir.Operation] = []
        self._others: dict[str, ir.Operation] = {}
        self._layout, self._flags = "", 0

    def add(self, part: Part, source: ir.Module) -> Refusal | None:
        """Adds a part, whose function is in a lowered module; why that cannot be, if so."""
        module = next(op for op in source.body.operations if isinstance(op, gpu.GPUModuleOp))
        self._layout = str(module.attributes["llvm.data_layout"])
        named = {_name(op): op for op in module.regions[0].blocks[0].operations}
        function = named[part.launch.function].operation.clone()
        threads = part.launch.block[0]
        if part.launch.block[1:] != (1, 1):
            return Refusal("a work-group of two dimensions")
        ops = _all_ops(function)
        found = {op.name for op in ops if _POSITIONS.match(op.name)}
        for op in (op for op in ops if op.name == _BUFFER):
            flags: Any = op.operands[3].owner
            self._flags = ir.IntegerAttr(flags.attributes["value"]).value
        if odd := found - {*_GROUP_IDS, _THREAD_ID, _BARRIER}:
            return Refusal(f"{', '.join(sorted(odd))} in a function")
        together = self._threads // threads
        waits = _BARRIER in found and threads > self._wave
        if self._threads % threads or (together > 1 and waits):
            return Refusal(
                f"work-groups of {threads} and of {self._threads} threads, with barriers"
            )
        number = len(self._bodies)
        for name, other in named.items():
            if isinstance(other, llvm.LLVMFuncOp) and not other.operation.regions[0].blocks:
                self._others.setdefault(name, other.operation.clone())
        lds: dict[str, int | str] = {}
        taken = 0
        for use in ops_inside(function, llvm.AddressOfOp):
            name = ir.FlatSymbolRefAttr(use.attributes["global_name"]).value
            if name in lds:
                continue
            variable = named[name]
            if "3" not in str(use.result.type):
                own = f"constant_{number}_{len(self._others)}"
                clone = variable.operation.clone()
                clone.attributes["sym_name"] = ir.StringAttr.get(own)
                self._others[own] = clone
                lds[name] = own
                continue
            lds[name] = taken
            taken += ceil_div(_bytes_of(str(variable.attributes["global_type"])), 16) * 16
        types = [str(t) for t in function.regions[0].blocks[0].arguments.types]
        self._convert(function, number, lds, together > 1)
        self._bodies.append(_Body(part.launch, types, taken, threads, together))
        self._functions.append(function)
        return None

    def _convert(
        self, function: ir.Operation, number: int, places: dict[str, int | str], apart: bool
    ) -> None:
        """Makes a kernel a device function that is also given its work-group's number, the number
        of its thread, and its LDS. apart: its work-groups are a wave each, or have no barriers."""
        block = function.regions[0].blocks[0]
        i32, lds_type = ir.IntegerType.get_signless(32), ir.Type.parse("!llvm.ptr<3>")
        here = ir.Location.unknown()
        groups = [block.add_argument(i32, here) for _ in range(3)]
        thread, lds = block.add_argument(i32, here), block.add_argument(lds_type, here)
        for op in _all_ops(function):
            if op.name in _GROUP_IDS:
                op.results[0].replace_all_uses_with(groups[_GROUP_IDS[op.name]])
            elif op.name == _THREAD_ID:
                op.results[0].replace_all_uses_with(thread)
            elif op.name == llvm.AddressOfOp.OPERATION_NAME:
                place = places[ir.FlatSymbolRefAttr(op.attributes["global_name"]).value]
                if isinstance(place, str):
                    op.attributes["global_name"] = ir.FlatSymbolRefAttr.get(place)
                    continue
                with ir.InsertionPoint(op):
                    i8 = ir.TypeAttr.get(ir.IntegerType.get_signless(8))
                    offsets = ir.DenseI32ArrayAttr.get([place])
                    moved = llvm.GEPOp(lds_type, lds, [], offsets, i8.value, 0)
                op.results[0].replace_all_uses_with(moved.result)
            elif not (op.name == _BARRIER and apart):
                continue
            op.erase()
        types = ", ".join(str(t).removeprefix("!llvm.") for t in block.arguments.types)
        given: Any = function.attributes["arg_attrs"]
        promises = [
            ir.DictAttr.get({x.name: x.attr for x in one if x.name != "llvm.inreg"})
            for one in given
        ]
        plain = [ir.DictAttr.get({})] * (len(block.arguments) - len(promises))
        for name in list(function.attributes):
            if name.startswith(("rocdl.", "gpu.")):
                del function.attributes[name]
        function.attributes["sym_name"] = ir.StringAttr.get(f"body_{number}")
        function.attributes["function_type"] = ir.Attribute.parse(f"!llvm.func<void ({types})>")
        function.attributes["arg_attrs"] = ir.ArrayAttr.get([*promises, *plain])
        function.attributes["always_inline"] = ir.UnitAttr.get()
        function.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")

    def module(self, arguments: int) -> ir.OpView:
        """The gpu.module of the kernel with all bodies."""
        text = _kernel_text(self._bodies, arguments, self._threads, self._layout, self._flags)
        module = ir.Module.parse(text)
        (found,) = module.body.operations
        block = found.regions[0].blocks[0]
        for op in list(block.operations):
            if isinstance(op, llvm.LLVMFuncOp) and op.sym_name.value.startswith("body_"):
                op.operation.erase()
        for function in (*self._functions, *self._others.values()):
            block.append(function)
        self._kept = module  # the op that is returned lives in it
        return found


def _all_ops(function: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(visit)
    return found


def _name(op: ir.OpView) -> str:
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def _bytes_of(type_: str) -> int:
    """The bytes of a type of LDS: !llvm.array<4096 x f32>."""
    total = 1
    for number in re.findall(r"(\d+) x ", type_):
        total *= int(number)
    element = re.findall(r"(bf|f|i)(\d+)", type_)[-1]
    return total * ceil_div(int(element[1]), 8)


def _kernel_text(
    bodies: Sequence[_Body], arguments: int, threads: int, layout: str, flags: int
) -> str:
    """The kernel as MLIR's LLVM dialect, with declarations of its bodies. flags: of buffers."""
    lds = max([1, *(body.lds_bytes * body.together for body in bodies)])
    declared = [
        f"llvm.func @body_{i}({', '.join([*body.types, *['i32'] * 4, '!llvm.ptr<3>'])})"
        for i, body in enumerate(bodies)
    ]
    cases = ", ".join(f"{i}: ^body_{i}" for i in range(len(bodies)))
    lines = [
        f"gpu.module @kernels attributes {{llvm.data_layout = {layout}}} {{",
        f"llvm.mlir.global internal @lds() {{addr_space = 3 : i32, alignment = 128 : i64}} : "
        f"!llvm.array<{lds} x i8>",
        *declared,
        f"llvm.func @{NAME}({', '.join(f'%arg{i}: i64' for i in range(arguments))}) attributes "
        f'{{gpu.kernel, rocdl.kernel, passthrough = ["noimplicitfloat"], '
        f'rocdl.flat_work_group_size = "{threads},{threads}", '
        f"rocdl.reqd_work_group_size = array<i32: {threads}, 1, 1>}} {{",
        *_ENTRY.format(
            threads=threads, header=HEADER, second=SECOND_COUNTER, cases=cases, flags=flags
        ).splitlines(),
    ]
    for number, body in enumerate(bodies):
        lines += _case(number, body)
    return "\n".join([*lines, "}", "}"])


# Before its release a wave stores to a buffer of no bytes, which memory does not see: LLVM 22
# leaves out the release's wait for stores in a loop that may be entered without any.
_ENTRY = """
  %k = llvm.call_intrinsic "llvm.amdgcn.kernarg.segment.ptr"() : () -> !llvm.ptr<4>
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %c0w = llvm.mlir.constant(0 : i64) : i64
  %c1w = llvm.mlir.constant(1 : i64) : i64
  %header = llvm.mlir.constant({header} : i64) : i64
  %barrier = llvm.load %k : !llvm.ptr<4> -> !llvm.ptr<1>
  %phases_at = llvm.getelementptr %k[8] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %phases = llvm.load %phases_at : !llvm.ptr<4> -> i64
  %groups_at = llvm.getelementptr %k[16] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %groups = llvm.load %groups_at : !llvm.ptr<4> -> i32
  %group = rocdl.workgroup.id.x : i32
  %thread = rocdl.workitem.id.x range <i32, 0, {threads}> : i32
  %is_first = llvm.icmp "eq" %thread, %c0 : i32
  %lds = llvm.mlir.addressof @lds : !llvm.ptr<3>
  %no_stride = llvm.mlir.constant(0 : i16) : i16
  %flags = llvm.mlir.constant({flags} : i32) : i32
  %nowhere = rocdl.make.buffer.rsrc %barrier, %no_stride, %c0w, %flags : <1> to <7>
  llvm.br ^phase(%c0w, %header, %c0 : i64, i64, i32)
^phase(%i: i64, %at: i64, %passed: i32):
  %is_end = llvm.icmp "eq" %i, %phases : i64
  llvm.cond_br %is_end, ^end, ^begin
^begin:
  %here = llvm.getelementptr %k[%at] : (!llvm.ptr<4>, i64) -> !llvm.ptr<4>, i8
  %what = llvm.load %here : !llvm.ptr<4> -> i64
  %waits = llvm.trunc %what : i64 to i1
  llvm.cond_br %waits, ^wait, ^run(%passed : i32)
^wait:
  %goal = llvm.add %passed, %groups : i32
  llvm.store %c0, %nowhere {{alignment = 4 : i64}} : i32, !llvm.ptr<7>
  llvm.fence syncscope("agent") release
  rocdl.s.barrier
  llvm.cond_br %is_first, ^count, ^counted
^count:
  %old = llvm.atomicrmw add %barrier, %c1 syncscope("agent") monotonic
      {{rocdl.no_fine_grained_memory, rocdl.no_remote_memory}} : !llvm.ptr<1>, i32
  llvm.br ^look
^look:
  %seen = llvm.load %barrier atomic syncscope("agent") monotonic {{alignment = 4 : i64}}
      : !llvm.ptr<1> -> i32
  %is_here = llvm.icmp "uge" %seen, %goal : i32
  llvm.cond_br %is_here, ^counted, ^again
^again:
  llvm.call_intrinsic "llvm.amdgcn.s.sleep"(%c1) : (i32) -> ()
  llvm.br ^look
^counted:
  rocdl.s.barrier
  llvm.fence syncscope("agent") acquire
  llvm.br ^run(%goal : i32)
^run(%now: i32):
  %shifted = llvm.lshr %what, %c1w : i64
  %body = llvm.trunc %shifted : i64 to i32
  llvm.switch %body : i32, ^end [{cases}]
^next(%size: i64):
  %next_at = llvm.add %at, %size : i64
  %next_i = llvm.add %i, %c1w : i64
  llvm.br ^phase(%next_i, %next_at, %now : i64, i64, i32)
^end:
  llvm.cond_br %is_first, ^leave, ^left
^leave:
  %leaving = llvm.getelementptr %barrier[{second}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  %last = llvm.sub %groups, %c1 : i32
  %gone = llvm.atomicrmw uinc_wrap %leaving, %last syncscope("agent") monotonic
      {{rocdl.no_fine_grained_memory, rocdl.no_remote_memory}} : !llvm.ptr<1>, i32
  %is_last = llvm.icmp "eq" %gone, %last : i32
  llvm.cond_br %is_last, ^reset, ^left
^reset:
  %count_of_all = llvm.atomicrmw xchg %barrier, %c0 syncscope("agent") monotonic
      {{rocdl.no_fine_grained_memory, rocdl.no_remote_memory}} : !llvm.ptr<1>, i32
  llvm.br ^left
^left:
  llvm.return
"""


def _case(number: int, body: _Body) -> Iterable[str]:
    """The blocks of a body: its arguments, and its tiles."""
    n, names = number, []
    x, y, z = body.launch.grid
    yield f"^body_{n}:"
    for i, type_ in enumerate(body.types):
        at, type_of_it = 8 * (i + 1), "(!llvm.ptr<4>) -> !llvm.ptr<4>, i8"
        yield f"  %at_{n}_{i} = llvm.getelementptr %here[{at}] : {type_of_it}"
        yield f"  %a_{n}_{i} = llvm.load %at_{n}_{i} : !llvm.ptr<4> -> {type_}"
        names.append(f"%a_{n}_{i}")
    constants = {
        "tiles": body.tiles, "together": body.together, "all": x * y * z, "last": x * y * z - 1,
        "threads": body.threads, "lds": body.lds_bytes, "x": x, "y": y,
    }  # fmt: skip
    for name, value in constants.items():
        yield f"  %{name}_{n} = llvm.mlir.constant({value} : i32) : i32"
    yield f"  llvm.br ^tile_{n}(%group : i32)"
    yield f"^tile_{n}(%t_{n}: i32):"
    yield f'  %goes_{n} = llvm.icmp "ult" %t_{n}, %tiles_{n} : i32'
    yield f"  llvm.cond_br %goes_{n}, ^do_{n}, ^done_{n}"
    yield f"^do_{n}:"
    own, thread, lds = f"%t_{n}", "%thread", "%lds"
    if body.together > 1:
        yield f"  %wide_{n} = llvm.udiv %thread, %threads_{n} : i32"
        yield f"  %sub_{n} = rocdl.readfirstlane %wide_{n} : i32"
        yield f"  %thread_{n} = llvm.urem %thread, %threads_{n} : i32"
        yield f"  %first_{n} = llvm.mul %t_{n}, %together_{n} : i32"
        yield f"  %own_{n} = llvm.add %first_{n}, %sub_{n} : i32"
        yield f"  %skip_{n} = llvm.mul %sub_{n}, %lds_{n} : i32"
        moved = "(!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8"
        yield f"  %lds_{n}_own = llvm.getelementptr %lds[%skip_{n}] : {moved}"
        yield f'  %is_{n} = llvm.icmp "ult" %own_{n}, %all_{n} : i32'
        yield f"  llvm.cond_br %is_{n}, ^call_{n}, ^called_{n}"
        own, thread, lds = f"%own_{n}", f"%thread_{n}", f"%lds_{n}_own"
    else:
        yield f"  llvm.br ^call_{n}"
    yield f"^call_{n}:"
    yield f"  %b_{n} = llvm.intr.umin({own}, %last_{n}) : (i32, i32) -> i32"
    yield f"  %x_{n}_id = llvm.urem %b_{n}, %x_{n} : i32"
    yield f"  %row_{n} = llvm.udiv %b_{n}, %x_{n} : i32"
    yield f"  %y_{n}_id = llvm.urem %row_{n}, %y_{n} : i32"
    yield f"  %z_{n}_id = llvm.udiv %row_{n}, %y_{n} : i32"
    types = ", ".join([*body.types, *["i32"] * 4, "!llvm.ptr<3>"])
    given = ", ".join([*names, f"%x_{n}_id", f"%y_{n}_id", f"%z_{n}_id", thread, lds])
    yield f"  llvm.call @body_{n}({given}) : ({types}) -> ()"
    yield f"  llvm.br ^called_{n}"
    yield f"^called_{n}:"
    if body.lds_bytes:  # the next tile writes where this one still reads
        yield '  llvm.fence syncscope("workgroup") release'
        yield "  rocdl.s.barrier"
        yield '  llvm.fence syncscope("workgroup") acquire'
    yield f"  %next_{n} = llvm.add %t_{n}, %groups : i32"
    yield f"  llvm.br ^tile_{n}(%next_{n} : i32)"
    yield f"^done_{n}:"
    yield f"  %size_{n} = llvm.mlir.constant({8 * (1 + len(body.types))} : i64) : i64"
    yield f"  llvm.br ^next(%size_{n} : i64)"
