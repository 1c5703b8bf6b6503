"""How much memory a process of this machine can have."""

from __future__ import annotations

import os
import resource
from functools import cache


def host_bytes() -> int:
    """The memory that a process of this machine can have, in bytes."""
    physical = _physical_bytes()
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return physical if limit == resource.RLIM_INFINITY else min(physical, limit)


@cache
def _physical_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
