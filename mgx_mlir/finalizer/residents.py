"""Resident kernels: runs of a plan's launches as one resident kernel (`CompileOptions.persistent`).

One is made for a chip, of the programs of its kernels. It waits where a launch touches memory
that launches since the last wait write, or writes what they touch; libmgx checks that again before
it launches one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mgx_mlir.artifact.code_object import Argument, CodeObject, Launch, Resident
from mgx_mlir.artifact.contents import Contents, PortableKernel
from mgx_mlir.artifact.interface import Interface
from mgx_mlir.artifact.plan import AnyStep, Buffer, Plan, Step
from mgx_mlir.artifact.schedule import Tuned
from mgx_mlir.artifact.target import Target
from mgx_mlir.errors import CompilerError
from mgx_mlir.finalizer import TIME_LIMIT, server_for
from mgx_mlir.finalizer.build import build_id
from mgx_mlir.finalizer.cache import Cache, cache_key
from mgx_mlir.finalizer.worker import WorkerError, WorkerPool

_log = logging.getLogger(__name__)

# Bytes of a launch's arguments that every driver takes.
MOST_ARGUMENT_BYTES = 4096
# Arguments that no phase has: three before the first one, seven after the last one.
FIXED = 3 + 7
# Work-groups of more threads stay launches: in all other phases a part of these would be idle.
MOST_THREADS = 256
# Fewer launches than this are not worth a barrier.
FEWEST = 2


@dataclass(frozen=True)
class Phase:
    """A launch of a step, by numbers, and the memory that it reads and writes."""

    step: int
    kernel: int
    launch: int
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]

    def must_wait(self, other: Phase, in_place: frozenset[tuple[int, int]]) -> bool:
        """Whether this launch must not overtake the other one."""
        touched = (*other.reads, *other.writes)
        return any(_meet(own, one, in_place) for own in self.writes for one in touched) or any(
            _meet(own, one, in_place) for own in self.reads for one in other.writes
        )


def _meet(a: Buffer, b: Buffer, in_place: frozenset[tuple[int, int]]) -> bool:
    if {a.kind, b.kind} == {"input", "output"}:
        output, given = (a, b) if a.kind == "output" else (b, a)
        return (output.index, given.index) in in_place
    if a.kind == "scratch" and b.kind == "scratch":
        return a.offset < b.offset + b.bytes and b.offset < a.offset + a.bytes
    return a.overlaps(b)


def phases_of(plan: Plan, code: Sequence[CodeObject], first: int, end: int) -> list[Phase]:
    """The launches of the plan's own steps from number `first` to `end`."""
    found = []
    for number in range(first, end):
        step = plan.steps[number]
        assert isinstance(step, Step)
        for index, launch in enumerate(code[step.kernel].launches):
            buffers = buffers_of(plan, code, step, index)
            pairs = [
                (argument.kind == "input", buffer)
                for argument, buffer in zip(launch.arguments, buffers, strict=True)
                if buffer is not None
            ]
            reads, writes = (
                tuple(b for is_read, b in pairs if is_read is x) for x in (True, False)
            )
            found.append(Phase(number, step.kernel, index, reads, writes))
    return found


def buffers_of(
    plan: Plan, code: Sequence[CodeObject], step: Step, launch: int
) -> list[Buffer | None]:
    """The memory of each argument of a step's launch; None for a size."""
    own = code[step.kernel]
    outputs = 1 + max(
        (a.index for x in own.launches for a in x.arguments if a.kind == "output"), default=-1
    )
    inputs = len(step.arguments) - outputs
    return [
        None if argument.kind == "size" else _buffer(plan, step, argument, inputs, own)
        for argument in own.launches[launch].arguments
    ]


def _buffer(plan: Plan, step: Step, argument: Argument, inputs: int, code: CodeObject) -> Buffer:
    if argument.kind == "input":
        return plan.buffers[step.arguments[argument.index]]
    if argument.kind == "output":
        return plan.buffers[step.arguments[inputs + argument.index]]
    if argument.kind == "scratch":
        return Buffer("scratch", code.scratch_bytes - argument.index, offset=argument.index)
    return Buffer("counters", 4 * argument.index)


def waits_of(phases: Sequence[Phase], in_place: frozenset[tuple[int, int]]) -> list[bool]:
    """Whether each launch waits for all before it, as seldom as can be."""
    waits: list[bool] = []
    since = 0
    for number, phase in enumerate(phases):
        must = any(phase.must_wait(other, in_place) for other in phases[since:number])
        waits.append(must)
        since = number if must else since
    return waits


def runs_of(plan: Plan, code: Sequence[CodeObject]) -> Iterator[tuple[int, int]]:
    """The steps that may be one launch: neighbours, as many as one launch has arguments for."""
    first, taken = 0, 0
    for number, step in enumerate(plan.steps):
        size = _argument_bytes(step, code)
        if not size or taken + size > MOST_ARGUMENT_BYTES - 8 * FIXED:
            if number - first >= FEWEST:
                yield first, number
            first, taken = number + (not size), 0
        taken += size
    if len(plan.steps) - first >= FEWEST:
        yield first, len(plan.steps)


def _argument_bytes(step: AnyStep, code: Sequence[CodeObject]) -> int:
    """The bytes of a step's arguments; 0 for one that cannot be a part of a resident kernel."""
    if not isinstance(step, Step) or step.kernel < 0:
        return 0
    launches = code[step.kernel].launches
    if any(launch.block[0] > MOST_THREADS for launch in launches):
        return 0
    return sum(8 * (1 + len(launch.arguments)) for launch in launches)


def residents_for(
    program: Contents, target: Target, code: Sequence[CodeObject], tuned: Mapping[str, Tuned],
    cache: Cache | None,
) -> list[CodeObject]:  # fmt: skip
    """The resident kernels of a program for a chip, beside the code of its kernels."""
    plan = program.plan
    why = ""
    if plan.dims or program.parts is not None:
        why = "sizes are not given"
    elif target.kind != "gpu" or target.like or not target.compute_units:
        why = f"{target.word} is no one chip"
    if why:
        _log.warning("%s: nothing is persistent: %s", program.name, why)
        return []
    found: list[CodeObject] = []
    for first, end in runs_of(plan, code):
        found += _resident(program, target, code, tuned, cache, first, end)
    return found


def _resident(
    program: Contents, target: Target, code: Sequence[CodeObject], tuned: Mapping[str, Tuned],
    cache: Cache | None, first: int, end: int,
) -> list[CodeObject]:  # fmt: skip
    plan = program.plan
    phases = phases_of(plan, code, first, end)
    digests = [kernel.sha256 for kernel in program.kernels]
    keys = list(dict.fromkeys((digests[p.kernel], p.launch) for p in phases))
    bodies = tuple(
        (launch, *(n for n, digest in enumerate(digests) if digest == wanted))
        for wanted, launch in keys
    )
    waits = waits_of(phases, frozenset(plan.in_place))
    numbers = tuple(
        (keys.index((digests[p.kernel], p.launch)), int(wait))
        for p, wait in zip(phases, waits, strict=True)
    )
    kernels = {digests[p.kernel]: program.kernels[p.kernel] for p in phases}
    known = {digest: code[digests.index(digest)] for digest in kernels}
    arguments = FIXED + sum(_argument_bytes(step, code) for step in plan.steps[first:end]) // 8
    schedules = (repr(tuned.get(digest)) for digest in kernels)
    key = cache_key("resident", repr((keys, arguments)), target.identity, build_id(), *schedules)
    kept = None if cache is None else cache.get(key)
    made = kept or _in_process(keys, kernels, known, arguments, target, dict(tuned))
    if isinstance(made, str):
        _log.warning("%s: steps %d to %d stay launches: %s", program.name, first, end - 1, made)
        return []
    if cache is not None and kept is None:
        cache.put(key, made)
    return [replace(made, resident=Resident(first, end - first, bodies, numbers))]


def _in_process(*given: Any) -> CodeObject | str:
    """`resident_of` in a process of its own: it sets an option of LLVM, and bytes of a file may
    crash MLIR's reader."""
    with WorkerPool(1, TIME_LIMIT, server_for([given[4]])) as pool:
        try:
            made: CodeObject | str = pool.submit(resident_of, *given).result()
        except WorkerError as error:
            made = str(error)
    return made


def resident_of(
    bodies: Sequence[tuple[str, int]], kernels: Mapping[str, PortableKernel],
    known: Mapping[str, CodeObject], arguments: int, target: Target, tuned: Mapping[str, Tuned],
) -> CodeObject | str:  # fmt: skip
    """The resident kernel of launches, by kernel and number; or why there is none.

    known: the code of each kernel alone, whose schedule is taken. All that this process compiles
    later has LLVM's options of a resident kernel.
    """
    from contextlib import nullcontext

    from mgx_mlir.codegen.choice import steered
    from mgx_mlir.codegen.gpu.builders.binary import code_object
    from mgx_mlir.codegen.gpu.builders.program import GpuProgram
    from mgx_mlir.codegen.gpu.kernel import chooser
    from mgx_mlir.codegen.gpu.resident import NAME, Part, resident_code
    from mgx_mlir.codegen.refusal import Refusal
    from mgx_mlir.dialects import context
    from mgx_mlir.machine.llvm import set_option
    from mgx_mlir.rewriting.portable import read_kernel

    own = context()
    modules, programs = [], {}

    for digest, kernel in kernels.items():
        module, op = read_kernel(kernel.bytecode, own)
        modules.append(module)

        def compiled(
            program: GpuProgram, target: Target, known: CodeObject = known[digest]
        ) -> CodeObject:
            """The known code, which spills no registers, of the known launches."""
            is_known = program.launches == known.launches
            return known if is_known else code_object(program, target)

        with steered(tuned[digest].schedule) if digest in tuned else nullcontext():
            programs[digest], _ = chooser(op, compiled)(target)
        if programs[digest].launches != known[digest].launches:
            raise CompilerError(f"kernel {kernel.name} has another schedule in a resident kernel")
    parts = [Part(programs[digest], known[digest].launches[number]) for digest, number in bodies]
    # The phases are a loop, before which it would compute all bodies' constants, and keep them.
    set_option("-disable-machine-licm")
    made = resident_code(parts, arguments, target)
    del modules  # kept until here: kernels live in them
    if isinstance(made, Refusal):
        return made.reason
    data, stats, threads = made
    tiles = max(x * y * z for part in parts for x, y, z in [part.launch.grid])
    most = target.compute_units * _MOST_HELD
    launch = Launch(NAME, (min(tiles, most), 1, 1), (threads, 1, 1), ())
    return CodeObject(
        target.identity, data, (launch,), 0, stats,
        why=f"{len(parts)} functions in one resident kernel", interface=Interface((), ()),
    )  # fmt: skip


# More work-groups than a compute unit holds; a launch takes no more than the device does.
_MOST_HELD = 16
