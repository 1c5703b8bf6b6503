"""Launches of several kernels as one kernel, whose work-groups all run at a time and stay.

    for phase in phases:                     the launches, in order
        if it waits: a barrier of all work-groups
        for tile in first, first + groups, .. tiles of the phase:
            its body                         the function that the launch names, once in the code

The first work-group is the one after those that the phases since the last barrier took: so these
run beside each other. In the barrier each work-group counts in a word of its own, and looks at
those of all: no two count at one address, in turn.

The arguments are memory for the barrier, the number of phases, the number of work-groups, and for
each phase a number, which body it has and whether it waits, and the body's own arguments. So phases
that differ in their pointers alone share a body: the layers of a network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from mlir import ir
from mlir.dialects import gpu, llvm, rocdl

from mgx_mlir._native import _mgx
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
# Bytes before the phases' arguments, and arguments of a phase that are read before it waits; so
# many follow the last one's.
HEADER, EARLY = 24, 7
_GROUP_IDS = {f"rocdl.workgroup.id.{d}": i for i, d in enumerate("xyz")}
_THREAD_ID, _BARRIER = "rocdl.workitem.id.x", "rocdl.s.barrier"
_HALVES = "rocdl.s.barrier.signal", "rocdl.s.barrier.wait"
_BUFFER, _GEP = "rocdl.make.buffer.rsrc", llvm.GEPOp.OPERATION_NAME
# Types of the arguments that a body has after those of its launch: see `_convert`.
_OWN = (*["i32"] * 4, "!llvm.ptr<3>", "!llvm.ptr<5>")
_POSITIONS = re.compile(r"rocdl\.(workgroup|workitem|grid|cluster|barrier|s\.barrier)[\w.]*")


def _template(name: str) -> Template:
    return Template(Path(__file__).with_name(f"{name}.mlir").read_text(encoding="utf-8"))


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
    joined: bool  # whether waves that have no part of it join its barriers

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
    stats[NAME] |= {f"together_{i}": body.together for i, body in enumerate(merged.bodies)}
    stats[NAME]["past_l2"] = int(merged.past_l2)
    if stats[NAME]["vgpr_spills"] or stats[NAME]["scratch_bytes"]:
        return Refusal("all bodies in one kernel would spill registers")
    return data, stats, threads


class _Merged:
    """The module of the kernel, part by part."""

    def __init__(self, threads: int, target: Target) -> None:
        self._threads, self._wave = threads, target.wave_size
        self._gpu = target.gpu
        self.past_l2 = target.gpu.past_l2 > 0  # whether all stores so far go there
        self.bodies: list[_Body] = []
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
        for op in _mgx.ops_inside(function, _HALVES):  # gfx12 has two halves of a barrier
            if op.name == _HALVES[0]:
                with ir.InsertionPoint(op):
                    rocdl.s_barrier()
            op.erase()
        ops = _mgx.ops_inside(function, ["*"])
        found = {op.name for op in ops if _POSITIONS.match(op.name)}
        for op in (op for op in ops if op.name == _BUFFER):
            flags: Any = op.operands[3].owner
            self._flags = ir.IntegerAttr(flags.attributes["value"]).value
        if odd := found - {*_GROUP_IDS, _THREAD_ID, _BARRIER}:
            return Refusal(f"{', '.join(sorted(odd))} in a function")
        waits = _BARRIER in found and threads > self._wave
        joined = waits and threads < self._threads
        together = 1 if joined else self._threads // threads
        number = len(self.bodies)
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
        self._convert(function, number, lds, not waits, joined)
        self.past_l2 = self.past_l2 and _stored_past(function, self._gpu.past_l2)
        self.bodies.append(_Body(part.launch, types, taken, threads, together, joined))
        self._functions.append(function)
        return None

    def _convert(
        self, function: ir.Operation, number: int, places: dict[str, int | str], apart: bool,
        joined: bool,
    ) -> None:  # fmt: skip
        """Makes a kernel a device function that is also given its work-group's number, the number
        of its thread, its LDS, and the number of barriers that idle waves have joined. apart: its
        work-groups are a wave each, or have no barriers; joined: idle waves join them."""
        block = function.regions[0].blocks[0]
        i32, lds_type = ir.IntegerType.get_signless(32), ir.Type.parse("!llvm.ptr<3>")
        here = ir.Location.unknown()
        groups = [block.add_argument(i32, here) for _ in range(3)]
        thread, lds = block.add_argument(i32, here), block.add_argument(lds_type, here)
        count = block.add_argument(ir.Type.parse("!llvm.ptr<5>"), here)
        for op in _mgx.ops_inside(function, ["*"]):
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
            elif op.name == _BARRIER and joined:
                with ir.InsertionPoint(op):
                    one = llvm.mlir_constant(ir.IntegerAttr.get(i32, 1))
                    flags = llvm.IntegerOverflowFlags.none
                    passed = llvm.add(llvm.load(i32, count), one, flags)
                    llvm.store(passed, count)
                continue
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
        wait = (
            "rocdl.s.wait.dscnt 0"
            if self._gpu.lds_done is None
            else f"rocdl.s.waitcnt {self._gpu.lds_done}"
        )
        release = _template(f"resident_{'past_l2' if self.past_l2 else 'release'}").template
        text = _kernel_text(
            self.bodies, arguments, self._threads, self._layout, self._flags, (wait, release)
        )
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


def _stored_past(function: ir.Operation, bits: int) -> bool:
    """Gives the stores to buffers of a function some bits; whether all have them."""
    i32 = ir.IntegerType.get_signless(32)
    for op in _mgx.ops_inside(function, [llvm.StoreOp.OPERATION_NAME]):
        x, place = op.operands
        base: Any = place.owner
        while isinstance(base, ir.Operation | ir.OpView) and base.name == _GEP:
            base = base.operands[0].owner
        if "ptr<7>" not in str(place.type):
            if str(place.type) == "!llvm.ptr<1>":
                return False
            continue
        bytes_ = _bytes_of(str(x.type).replace("x", " x "))
        if getattr(base, "name", "") != _BUFFER or bytes_ > 16:
            return False
        words = bytes_ // 4
        i = ir.IntegerType.get_signless(min(32, 8 * bytes_))
        with ir.InsertionPoint(op), op.location:
            word = ir.VectorType.get([words], i) if words > 1 else i
            zero, flags = (llvm.mlir_constant(ir.IntegerAttr.get(i32, n)) for n in (0, bits))
            buffer = rocdl.make_buffer_rsrc(ir.Type.parse("!llvm.ptr<8>"), *base.operands)
            at = llvm.ptrtoint(i32, place)
            rocdl.raw_ptr_buffer_store(llvm.bitcast(word, x), buffer, at, zero, flags)
        op.erase()
    return True


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
    bodies: Sequence[_Body], arguments: int, threads: int, layout: str, flags: int,
    waits: tuple[str, str],
) -> str:  # fmt: skip
    """The kernel as MLIR's LLVM dialect, with declarations of its bodies. flags: of buffers.
    waits: what waits for LDS, and until other work-groups see a wave's stores."""
    wait, release = waits
    lds = max([1, *(body.lds_bytes * body.together for body in bodies)])
    declared = [
        f"llvm.func @body_{i}({', '.join([*body.types, *_OWN])})" for i, body in enumerate(bodies)
    ]
    cases = [_case(number, body, threads, wait) for number, body in enumerate(bodies)]
    is_joined = any(body.joined for body in bodies)
    given = {
        "layout": layout, "lds": lds, "declared": "\n".join(declared), "name": NAME,
        "arguments": ", ".join(f"%arg{i}: i64" for i in range(arguments)), "threads": threads,
        "header": HEADER, "flags": flags, "bodies": "\n".join(cases),
        "cases": ", ".join(f"{i}: ^body_{i}" for i in range(len(bodies))),
        "told": _TOLD if is_joined else "", "release": release,
        "clear": _template("resident_told").substitute(wait=wait) if is_joined else "",
        "early": "\n".join(x for i in range(EARLY) for x in _loaded(f"word_{i}", i, "i64")),
    }  # fmt: skip
    return _template("resident").substitute(given)


def _loaded(name: str, i: int, type_: str) -> Iterable[str]:
    """Loads argument number `i` of a phase."""
    type_of_it = "(!llvm.ptr<4>) -> !llvm.ptr<4>, i8"
    yield f"  %at_{name} = llvm.getelementptr %here[{8 * (i + 1)}] : {type_of_it}"
    yield f"  %{name} = llvm.load %at_{name} : !llvm.ptr<4> -> {type_}"


def _case(number: int, body: _Body, threads: int, wait: str) -> str:
    """The blocks of a body: its arguments, and its tiles."""
    n, names, arguments = number, list[str](), list[str]()
    for i, type_ in enumerate(body.types):
        names.append(f"%a_{n}_{i}")
        if i < EARLY and type_.startswith("!llvm.ptr"):
            arguments.append(f"  {names[-1]} = llvm.inttoptr %word_{i} : i64 to {type_}")
        else:
            arguments += _loaded(f"a_{n}_{i}", i, type_)
    x, y, z = body.launch.grid
    given = {
        "n": n, "tiles": body.tiles, "together": body.together, "all": x * y * z,
        "last": x * y * z - 1, "threads": body.threads, "lds_bytes": body.lds_bytes, "x": x, "y": y,
        "size": 8 * (1 + len(body.types)), "wait": wait, "types": ", ".join([*body.types, *_OWN]),
        "idle": "join" if body.joined else "called", "arguments": "\n".join(arguments),
        "names": "".join(f"{name}, " for name in names),
    }  # fmt: skip
    is_whole = body.threads == threads
    own = f"%own_{n}", f"%thread_{n}", f"%lds_{n}"
    if is_whole:
        own = f"%t_{n}", "%own_thread", "%lds"
    share = f"  llvm.br ^call_{n}" if is_whole else _template("resident_share").substitute(given)
    called = f"  llvm.br ^called_{n}\n^called_{n}:\n"
    if body.joined:
        called = f"{_template('resident_joined').substitute(given)}\n^called_{n}:"
    elif body.lds_bytes:  # the next tile writes where this one still reads
        called += _template("resident_fence").substitute(given)
    given |= {"share": share, "called": called}
    given |= dict(zip(("own", "thread", "lds"), own, strict=True))
    return _template("resident_body").substitute(given)


# The words of LDS that say which barrier is a body's last.
_TOLD = "llvm.mlir.global internal @told() {addr_space = 3 : i32} : !llvm.array<2 x i32>"
