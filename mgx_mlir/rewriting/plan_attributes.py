"""The attributes in which passes leave their part of the plan: offsets and shared memory."""

from __future__ import annotations

# On a module: the bytes of its arena.
ARENA_BYTES = "mgx.arena_bytes"
# On a concat: its operands are written directly into its memory.
IN_PLACE = "mgx.in_place"
# On launches and control flow: the offsets of their results in the arena, in bytes.
OFFSETS = "mgx.offsets"
# On a loop: the offsets of the copies of carried values that are permuted.
STAGED = "mgx.staged"
