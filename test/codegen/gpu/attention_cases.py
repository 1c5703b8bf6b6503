"""Attention on the emulated devices: few sizes that meet many cases."""

from __future__ import annotations

from dataclasses import replace

from mgx_mlir.artifact.target import Target
from mgx_mlir.codegen.gpu.families.attention.space import AttentionSchedule
from test.codegen.attention_kernels import AttentionCase

Planned = tuple[AttentionCase, AttentionSchedule | None]


def emulated(target: Target) -> list[Planned]:
    """Cases for every run, some with a schedule of their own."""
    found: list[Planned] = [
        (AttentionCase(1, 16, 64, 32), AttentionSchedule(1, 1, 64)),
        (AttentionCase(2, 33, 70, 64), None),
        (AttentionCase(2, 40, 40, 64, causal=0), AttentionSchedule(1, 2, 64)),
        (AttentionCase(2, 20, 130, 32, causal=110), AttentionSchedule(2, 1, 128)),
        (AttentionCase(2, 17, 70, 64, mask="padding"), None),
        (AttentionCase(4, 33, 45, 32, mask="bias", group=2), None),
        (AttentionCase(2, 18, 50, 32, mask="where"), None),
        (AttentionCase(3, 40, 40, 32, packed=True, mask="padding"), None),
        (AttentionCase(1, 20, 30, 24, 40), None),
        (AttentionCase(1, 5, 33, 128), None),
        (AttentionCase(1, 18, 40, 64, element="bf16"), None),
        (AttentionCase(4, 1, 100, 64, group=4), None),
        (AttentionCase(8, 1, 70, 32, group=4, mask="bias", causal=66), None),
        (AttentionCase(6, 3, 40, 32, group=3, mask="padding"), None),
        (AttentionCase(2, 3, 300, 32, 24), AttentionSchedule(2, 1, 64, parts=3)),
        (
            AttentionCase(4, 1, 200, 64, group=4, mask="bias"),
            AttentionSchedule(2, 1, 128, splits=2, parts=2),
        ),
        (AttentionCase(1, 20, 300, 32, causal=280), AttentionSchedule(4, 1, 128, splits=2)),
        (AttentionCase(1, 1, 300, 64, mask="padding"), AttentionSchedule(4, 1, 256, splits=4)),
        (AttentionCase(2, 18, 200, 32, rising=True), AttentionSchedule(2, 1, 64)),
        (AttentionCase(2, 33, 45, 32, element="f32", mask="padding"), None),
        (AttentionCase(1, 20, 36, 24, 20, element="f32", causal=0), None),
        # Widths that a step of the product does not divide.
        (AttentionCase(2, 20, 70, 8), None),
        (AttentionCase(1, 3, 70, 104, 40), None),
        (AttentionCase(1, 20, 40, 56, element="bf16", causal=0), None),
        # Keys that blocks divide, values whose rows they do not.
        (AttentionCase(4, 48, 48, 80, element="f32"), None),
        (AttentionCase(2, 48, 64, 36, element="f32"), None),
        (AttentionCase(1, 20, 70, 32, mask="safe"), None),
        (AttentionCase(1, 5, 130, 32, mask="safe"), AttentionSchedule(2, 1, 64, parts=2)),
        (AttentionCase(1, 20, 70, 32, mask="empty"), None),
        (AttentionCase(1, 5, 130, 32, mask="empty"), AttentionSchedule(2, 1, 64, parts=2)),
        (AttentionCase(1, 100, 200, 32, causal=40, earliest=-20), AttentionSchedule(1, 1, 64)),
        (AttentionCase(2, 70, 180, 64, causal=110, earliest=66, mask="bias"), None),
        (AttentionCase(1, 50, 200, 32, earliest=90), AttentionSchedule(2, 1, 128, splits=2)),
        (AttentionCase(4, 3, 40, 32, group=4, causal=30, earliest=9), None),
        (AttentionCase(2, 33, 70, 40, 36, tail="added"), None),
        (AttentionCase(2, 18, 40, 32, 17, "bf16", tail="quantized"), None),
        (AttentionCase(4, 3, 40, 32, group=4, tail="added"), None),
        (AttentionCase(2, 3, 300, 32, 24, tail="added"), AttentionSchedule(2, 1, 64, parts=3)),
        (
            AttentionCase(1, 20, 200, 32, mask="safe", tail="gated"),
            AttentionSchedule(4, 1, 128, splits=2),
        ),
        (AttentionCase(2, 20, 36, 24, 20, element="f32", tail="added"), None),
    ]
    if target.matrix == "mfma":
        found += [
            (AttentionCase(1, 20, 200, 64), AttentionSchedule(2, 2, 64, overlap=True)),
            (
                AttentionCase(1, 20, 300, 64, rising=True),
                AttentionSchedule(2, 1, 64, True, 2, rows=32),
            ),
            (AttentionCase(1, 40, 200, 64), AttentionSchedule(2, 1, 64, overlap=True, rows=32)),
            (AttentionCase(2, 40, 128, 64, mask="bias"), AttentionSchedule(2, 1, 64, rows=32)),
            (
                AttentionCase(1, 70, 130, 40, causal=60),
                AttentionSchedule(4, 1, 128, True, 2, rows=32),
            ),
            (
                AttentionCase(1, 5, 300, 64, element="bf16", mask="padding"),
                AttentionSchedule(4, 1, 128, True, 2, 2, 32),
            ),
            (
                AttentionCase(2, 33, 45, 32, element="f32", mask="padding"),
                AttentionSchedule(4, 1, 32, rows=32),
            ),
            (AttentionCase(2, 40, 40, 32, causal=0), AttentionSchedule(2, 1, 64, overlap=True)),
            (AttentionCase(1, 20, 260, 64, mask="padding"), AttentionSchedule(4, 1, 128, True, 2)),
            (
                AttentionCase(1, 5, 300, 64, mask="padding"),
                AttentionSchedule(4, 1, 128, True, 2, 2),
            ),
            (
                AttentionCase(1, 40, 200, 64, tail="added"),
                AttentionSchedule(2, 1, 64, True, rows=32),
            ),
            (
                AttentionCase(1, 100, 300, 64, causal=170, earliest=70),
                AttentionSchedule(2, 1, 64, True, rows=32),
            ),
        ]
    else:
        found += [
            (AttentionCase(1, 18, 40, 256), None),
            (AttentionCase(1, 70, 70, 160, 40, element="bf16", causal=0), None),
            (AttentionCase(1, 20, 70, 40, mask="bias"), AttentionSchedule(4, 1, 32, lean=True)),
            (
                AttentionCase(1, 20, 70, 40, tail="quantized"),
                AttentionSchedule(4, 1, 32, lean=True),
            ),
            (
                AttentionCase(1, 40, 200, 40, causal=150, earliest=70),
                AttentionSchedule(4, 1, 32, lean=True),
            ),
        ]
    if not target.matrix:
        found = [(case, plan and replace(plan, rows=8)) for case, plan in found]
    return found


def in_parts(target: Target) -> list[Planned]:
    """Cases of which the products and the softmax are kernels of their own."""
    cases = (
        AttentionCase(2, 17, 40, 32),
        AttentionCase(2, 20, 36, 24, element="f32", mask="padding"),
        AttentionCase(1, 18, 20, 16, element="f32", mask="safe"),
        AttentionCase(2, 18, 18, 16, element="f32", causal=0),
        AttentionCase(2, 20, 30, 16, element="f32", causal=8, earliest=2),
        AttentionCase(1, 18, 20, 16, element="f32", mask="empty"),
        AttentionCase(3, 40, 40, 32, element="f32", mask="padding", packed=True),
        AttentionCase(2, 17, 40, 32, mask="bias", tail="added"),
    )
    return [(case, None) for case in cases]


def more(target: Target) -> list[Planned]:
    """Cases that take long."""
    found: list[Planned] = [
        (AttentionCase(2, 130, 130, 80, causal=0), None),
        (AttentionCase(2, 129, 257, 96, mask="bias"), AttentionSchedule(4, 2, 64)),
        (
            AttentionCase(1, 256, 256, 64, 128, element="bf16", causal=0),
            AttentionSchedule(4, 1, 64),
        ),
        (AttentionCase(3, 197, 197, 64, packed=True), None),
        (AttentionCase(1, 64, 1000, 64, mask="padding"), AttentionSchedule(4, 1, 128)),
        (AttentionCase(1, 33, 33, 17, 19), None),
        (AttentionCase(8, 3, 190, 64, group=8, causal=187), None),
    ]
    if target.matrix == "mfma":
        found += [
            (AttentionCase(1, 100, 200, 256), None),
            (AttentionCase(1, 70, 70, 160, 40), None),
            (AttentionCase(2, 100, 130, 64, element="f32", mask="bias"), None),
            (AttentionCase(1, 66, 66, 128, element="f32", causal=0), None),
        ]
    return found
