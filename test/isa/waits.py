"""Accesses that may still be under way when their wave tells others that they are done.

A wave is counted at a barrier. Requests to LDS of two waves may change places (AMDGPUUsage,
"Memory Model", of all generations), so a wave waits for its own first: lgkmcnt(0), on gfx12
dscnt(0), for loads from memory to LDS vmcnt(0). No barrier implies these waits. Before a barrier
for all memory, after which RDNA drops what the caches of a unit hold, and before an atomic that
counts, a wave waits for its stores too. LLVM 22 drops waits of release fences in some loops
(SIInsertWaitcnts; llvm/llvm-project, pull request 220357).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

STORE, LOAD, TO_LDS, TO_MEMORY = "an LDS store", "an LDS load", "a load to LDS", "a store to memory"
_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s+(\S+)\s*(.*?)\s*// ([0-9A-F]+):(?:.*<.*?(?:\+0x([0-9a-f]+))?>)?")
_FIELD = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")
# These use the hardware of LDS and its counter, but none of its memory.
_LANES = re.compile(r"ds_(b?permute|swizzle|nop)")
_MEMORY = re.compile(r"(global|buffer|scratch|tbuffer)_(load|store|atomic)")
_BARRIERS = ("s_barrier", "s_barrier_signal")
_CALLS = ("s_setpc_b64", "s_swappc_b64", "s_call_b64")
# RDNA drops what the caches of a unit hold.
_DROPS = ("buffer_gl0_inv", "global_inv")
_ALL = 1 << 30

# For each kind of access that may be under way: how many later ones share its counter, at least.
Pending = Mapping[str, int]


@dataclass(frozen=True)
class Instruction:
    name: str
    operands: str
    address: int
    target: int | None  # of a branch


@dataclass
class Function:
    name: str
    start: int
    instructions: list[Instruction] = field(default_factory=list)


def functions(assembly: str) -> Iterator[Function]:
    """The functions of llvm-objdump's text of an AMDGPU code object."""
    current: Function | None = None
    for line in assembly.splitlines():
        if head := _FUNCTION.match(line):
            if current is not None:
                yield current
            current = Function(head[2], int(head[1], 16))
        elif current is not None and (found := _LINE.match(line)):
            name, operands, address, offset = found.groups()
            target = None
            if name.startswith(("s_branch", "s_cbranch")):
                target = current.start + int(offset or "0", 16)
            current.instructions.append(Instruction(name, operands, int(address, 16), target))
    if current is not None:
        yield current


def missing_waits(assembly: str) -> list[str]:
    """A line for each barrier, or count, that a wave may reach with such an access under way."""
    return [line for function in functions(assembly) for line in _of_function(function)]


def _of_function(function: Function) -> Iterator[str]:
    code = function.instructions
    # gfx10 and newer count stores apart.
    apart = any(x.name.startswith(("s_waitcnt_vscnt", "s_wait_", "s_code_end")) for x in code)
    number = {x.address: i for i, x in enumerate(code)}
    before: dict[int, Pending] = {0: {}}
    todo = [0]
    while todo:
        at = todo.pop()
        after = _after(code[at], before[at], apart)
        for following in _following(code, number, at):
            known = before.get(following)
            joined = after if known is None else _joined(known, after)
            if joined != known:
                before[following] = joined
                todo.append(following)
    for i, x in enumerate(code):
        wanted = set(_told(code, i)) & set(before.get(i, {}))
        for kind in sorted(wanted):
            yield f"{function.name}+{x.address - function.start:#x}: {kind} before {x.name}"


def _told(code: list[Instruction], at: int) -> tuple[str, ...]:
    """The kinds of accesses that others take for done once they know of an instruction."""
    if "_atomic_inc" in code[at].name:
        return (TO_MEMORY,)
    if code[at].name not in _BARRIERS:
        return ()
    for x in code[at + 1 :]:
        if x.name in _DROPS:
            return STORE, LOAD, TO_LDS, TO_MEMORY
        if x.target is not None or x.name.startswith("ds_") or _MEMORY.match(x.name):
            break
    return STORE, LOAD, TO_LDS


def _following(code: list[Instruction], number: Mapping[int, int], at: int) -> Iterator[int]:
    x = code[at]
    if x.name in _CALLS or x.name.startswith("flat_"):
        raise ValueError(f"no support for {x.name}: its accesses are not known here")
    if x.target is not None:
        yield number[x.target]
    if x.name not in ("s_branch", "s_endpgm"):
        yield at + 1


def _joined(a: Pending, b: Pending) -> Pending:
    return {kind: min(a.get(kind, _ALL), b.get(kind, _ALL)) for kind in {*a, *b}}


def _after(x: Instruction, pending: Pending, apart: bool) -> Pending:
    """The accesses under way after an instruction; those that one counter counts end in order."""
    if x.name.startswith(("s_waitcnt", "s_wait_")):
        lds, loads, stores = _left(x)
        left = {STORE: lds, LOAD: lds, TO_LDS: loads, TO_MEMORY: stores if apart else loads}
        return {kind: later for kind, later in pending.items() if later < left[kind]}
    if x.name.startswith("ds_"):
        counted = {k: n + (k in (STORE, LOAD)) for k, n in pending.items()}
        if _LANES.match(x.name):
            return counted
        return counted | {LOAD if x.name.startswith(("ds_read", "ds_load")) else STORE: 0}
    if _MEMORY.match(x.name):
        store = "_store" in x.name
        kind = TO_MEMORY if store and apart else TO_LDS
        shared = {kind} if apart else {TO_MEMORY, TO_LDS}
        counted = {k: n + (k in shared) for k, n in pending.items()}
        if "_lds" in x.name or re.search(r"\blds\b", x.operands):
            return counted | {TO_LDS: 0}
        return counted | ({TO_MEMORY: 0} if store else {})
    return pending


def _left(x: Instruction) -> tuple[int, int, int]:
    """How many accesses to LDS, loads and stores a wait leaves under way at most."""
    if x.name == "s_wait_idle" or (x.name == "s_waitcnt" and x.operands == "0"):
        return 0, 0, 0
    if x.name == "s_waitcnt":
        fields = {name: int(count) for name, count in _FIELD.findall(x.operands)}
        return fields.get("lgkmcnt", _ALL), fields.get("vmcnt", _ALL), _ALL
    places = {
        "s_wait_dscnt": (0,), "s_waitcnt_lgkmcnt": (0,), "s_wait_loadcnt": (1,),
        "s_waitcnt_vmcnt": (1,), "s_wait_storecnt": (2,), "s_waitcnt_vscnt": (2,),
        "s_wait_loadcnt_dscnt": (0, 1), "s_wait_storecnt_dscnt": (0, 2),
    }.get(x.name, ())  # fmt: skip
    left = [_ALL, _ALL, _ALL]
    for part, place in enumerate(places):
        count = int(x.operands.split()[-1], 0)
        left[place] = count >> 8 * part & 63 if len(places) > 1 else count
    return left[0], left[1], left[2]
