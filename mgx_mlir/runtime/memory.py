"""Whether a program's memory can exist, checked before any of it is allocated."""

from __future__ import annotations

import os
import resource
from functools import cache

from mgx_mlir.artifact.plan import Plan, named_buffers, walk
from mgx_mlir.errors import ResourceError, memory_text


def host_bytes() -> int:
    """The memory that a process of this machine can have, in bytes."""
    physical = _physical_bytes()
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return physical if limit == resource.RLIM_INFINITY else min(physical, limit)


@cache
def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(plan: Plan, needed: int, available: int, where: str) -> None:
    """Raises ResourceError where a program needs more bytes than there are, with its largest step.

    `where` says whose memory it is.
    """
    if needed <= available:
        return
    arena = [(b.bytes, number) for number, b in enumerate(plan.buffers) if b.kind == "arena"]
    largest = ""
    if arena:
        size, number = max(arena)
        nodes = (step.node for step in walk(plan.steps) if number in named_buffers(step))
        largest = f" The largest tensor has {memory_text(size)}, of '{next(nodes, '')}'."
    raise ResourceError(
        f"the program needs {memory_text(needed)}, and {where} has "
        f"{memory_text(available)}.{largest} "
        "Use smaller sizes, such as a smaller batch, a machine with more memory, or several GPUs "
        "(mgx compile --devices)"
    )
