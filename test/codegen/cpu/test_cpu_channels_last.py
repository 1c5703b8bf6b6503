"""Convolutions of images with channels last on the host, at each level, against the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from cpu_kernels import HostKernel, kernel_text, tensor

from mgx_mlir.artifact.target import Target, executable_levels
from mgx_mlir.codegen.cpu import kernel as compiling
from mgx_mlir.codegen.cpu import winograd_schedule
from mgx_mlir.codegen.cpu.schedule import CpuSchedule, Machine, choose, idle_share
from mgx_mlir.codegen.problem.problem import Contraction

LEVELS = [t.name for t in executable_levels() if t.name in ("x86-64-v2", "x86-64-v3", "x86-64-v4")]


@dataclass(frozen=True)
class Case:
    """Sizes of the image [count, *sizes, channels], and of the filters, which lie in blocks.

    With `shuffled`, channels are read as the transpose of [channels / shuffled, shuffled].
    """

    image: tuple[int, ...]
    filters: int
    window: tuple[int, ...] = (3, 3)
    block: int = 0
    pads: int = 0
    stride: int = 1
    dilation: int = 1
    group: int = 1
    element: str = "f32"
    epilogue: str = ""
    shuffled: int = 0
    relaxed: bool = False

    def text(self) -> str:
        relaxed = ", relaxed" if self.relaxed else ""
        count, *sizes, channels = self.image
        rank, depth = len(sizes), channels // self.group
        outputs = [
            (size + 2 * self.pads - self.dilation * (k - 1) - 1) // self.stride + 1
            for size, k in zip(sizes, self.window, strict=True)
        ]
        block = self.block or self.filters // self.group
        shape = [self.filters // block, *self.window, depth, block]
        order = [0, rank + 2, *range(1, rank + 2)]
        if self.filters == self.group:  # all filters of a tap are neighbours
            shape, order = [*self.window, depth, self.filters], [rank + 1, *range(rank + 1)]
        byte = self.element in ("i8", "ui8")
        of_filters, result = ("i8", "i32") if byte else (self.element, self.element)
        stored = tensor(shape, of_filters)
        turned = tensor([shape[n] for n in order], of_filters)
        w = tensor((self.filters, *self.window, depth), of_filters)
        x = tensor(self.image, self.element)
        y = tensor((count, *outputs, self.filters), result)
        given, body = x, ""
        if self.shuffled:
            given = tensor((count, *sizes, channels // self.shuffled, self.shuffled), self.element)
            turn = tensor((count, *sizes, self.shuffled, channels // self.shuffled), self.element)
            order_x = [*range(rank + 1), rank + 2, rank + 1]
            body = (
                f"%turn = mgx.transpose %given permutation = {order_x} : {given} -> {turn}\n"
                f"%x = mgx.reshape %turn : {turn} -> {x}\n"
            )
        body += (
            f"%t = mgx.transpose %w permutation = {order} : {stored} -> {turned}\n"
            f"%v = mgx.reshape %t : {turned} -> {w}\n"
            f"%y = mgx.{'quant_' * byte}convolution %x, %v pads = {[self.pads] * 2 * rank} "
            f"strides = {[self.stride] * rank} dilations = {[self.dilation] * rank} "
            f"{{channels_last, group = {self.group} : i64{relaxed}}} : {x}, {w} -> {y}\n"
        )
        arguments = f"%{'given' if self.shuffled else 'x'}: {given}, %w: {stored}"
        if not self.epilogue:
            return kernel_text(arguments, y, body, "%y")
        e, bias = self.element, tensor((self.filters,), self.element)
        body += (
            f"%b = mgx.broadcast %bias axis = {rank + 1} : {bias} -> {y}\n"
            f"%z = mgx.pointwise(%y, %b, %more) : ({y}, {y}, {y}) -> {y} {{\n"
            f"^bb0(%p: {e}, %q: {e}, %r: {e}):\n"
            f"%0 = mgx.add %p, %q : {e}, {e} -> {e}\n%1 = mgx.add %0, %r : {e}, {e} -> {e}\n"
            f"%2 = mgx.{self.epilogue} %1 : {e}\nmgx.yield %2 : {e}\n}}\n"
        )
        return kernel_text(f"{arguments}, %bias: {bias}, %more: {y}", y, body, "%z")


def check(case: Case, level: str, *ways: str) -> None:
    """Compares with the reference; the kernel must have taken one of some ways."""
    kernel = HostKernel(case.text(), Target.get(level))
    assert kernel.code.why.partition(":")[0] in ways
    tolerance = {"f16": 2e-2, "bf16": 1e-1, "f64": 1e-9}.get(case.element, 1e-4)
    kernel.check(*kernel.random(), rtol=tolerance, atol=tolerance)


CASES = {
    "3x3": Case((1, 14, 14, 32), 64, block=32, pads=1),
    "1x1": Case((1, 14, 14, 48), 32, (1, 1), block=16),
    "1x1, a prime number of pixels": Case((1, 1, 67, 24), 24, (1, 1)),
    "1x1 with steps": Case((2, 9, 9, 16), 32, (1, 1), block=16, stride=2),
    "many channels": Case((1, 7, 7, 200), 48, pads=1, block=16),
    "deep 1x1": Case((1, 5, 5, 1300), 16, (1, 1)),
    "first layer": Case((1, 31, 29, 3), 20, (7, 7), pads=3, stride=2),
    "images": Case((3, 6, 6, 8), 40, pads=1),
    "one dimension": Case((2, 37, 12), 16, (3,), pads=1),
    "steps of 3": Case((1, 20, 17, 10), 17, (5, 2), pads=1, stride=3),
    "dilation": Case((1, 15, 15, 20), 32, pads=2, dilation=2, block=16),
    "dilation, many channels": Case((1, 9, 9, 150), 16, pads=2, dilation=2),
    "groups": Case((2, 9, 9, 48), 72, pads=1, group=3),
    "few filters a group": Case((1, 8, 8, 12), 12, pads=1, group=4),
    "padding wider than the image": Case((1, 2, 3, 4), 8, (5, 5), pads=4),
    "epilogue": Case((1, 9, 9, 20), 24, pads=1, epilogue="sigmoid"),
    "epilogue, chunks": Case((1, 9, 9, 130), 24, pads=1, epilogue="relu"),
    "shuffled channels": Case((1, 6, 6, 24), 16, (1, 1), shuffled=3),
    "epilogue, groups": Case((2, 5, 5, 32), 32, pads=1, group=2, epilogue="relu"),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, level: str) -> None:
    check(CASES[name], level, "windows", "tiles")


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_types(element: str) -> None:
    check(Case((1, 9, 9, 32), 32, pads=1, element=element, block=16), "cpu", "windows")


DEPTHWISE = {
    "3x3": Case((1, 14, 14, 32), 32, pads=1, group=32),
    "3x3, steps": Case((2, 15, 13, 24), 24, pads=1, stride=2, group=24),
    "5x5": Case((1, 9, 9, 40), 40, (5, 5), pads=2, group=40),
    "dilation": Case((1, 20, 9, 7), 7, pads=2, dilation=2, group=7),
    "shuffled channels": Case((2, 9, 9, 40), 40, pads=1, group=40, shuffled=4),
    "one dimension": Case((1, 41, 33), 33, (5,), pads=2, group=33),
    "many channels": Case((1, 7, 7, 200), 200, pads=1, group=200),
    "epilogue": Case((2, 9, 9, 20), 20, pads=1, group=20, epilogue="sigmoid"),
    "a part of the channels": Case((1, 7, 7, 144), 144, pads=1, group=144),
    "f16": Case((1, 9, 9, 20), 20, pads=1, group=20, element="f16"),
    "bytes": Case((2, 9, 9, 20), 20, pads=1, group=20, element="i8"),
    "bytes without a sign": Case((1, 8, 8, 72), 72, (5, 5), pads=2, group=72, element="ui8"),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise(name: str, level: str) -> None:
    check(DEPTHWISE[name], level, "channels")


TRANSFORMED = {
    "whole tiles": Case((1, 16, 24, 32), 32, block=32, pads=1),
    "parts of tiles": Case((1, 17, 23, 32), 32, pads=1),
    "no padding": Case((1, 19, 14, 48), 64, block=16),
    "much padding": Case((1, 13, 13, 32), 40, pads=2),
    "odd numbers of channels and filters": Case((1, 20, 18, 37), 45, pads=1),
    "images": Case((3, 12, 12, 32), 32, pads=1),
    "epilogue": Case((1, 18, 18, 40), 56, pads=1, epilogue="relu"),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_transformed_convolutions(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd_schedule, "GAIN", 10.0)
    check(replace(TRANSFORMED[name], relaxed=True), level, "winograd")


REFUSED = {
    "exact": Case((1, 56, 56, 64), 64, pads=1),
    "steps": Case((1, 56, 56, 64), 64, pads=1, stride=2, relaxed=True),
    "dilation": Case((1, 56, 56, 64), 64, pads=1, dilation=2, relaxed=True),
    "5x5": Case((1, 56, 56, 64), 64, (5, 5), pads=1, relaxed=True),
    "groups": Case((1, 56, 56, 64), 64, pads=1, group=2, relaxed=True),
    "f16": Case((1, 56, 56, 64), 64, pads=1, element="f16", relaxed=True),
    "few pixels": Case((1, 7, 7, 256), 256, pads=1, relaxed=True),
}


@pytest.mark.parametrize("name", REFUSED)
def test_convolutions_that_stay_direct(name: str) -> None:
    check(REFUSED[name], LEVELS[-1], "windows")


def test_transforming_gains_where_pixels_are_many() -> None:
    check(Case((1, 56, 56, 64), 64, pads=1, relaxed=True), LEVELS[-1], "winograd")


def test_tiles_fill_the_registers_of_a_level(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: dict[str, CpuSchedule] = {}
    for level in ("x86-64-v3", "x86-64-v4"):

        def spy(problem: Contraction, machine: Machine, level: str = level) -> CpuSchedule:
            plans[level] = choose(problem, machine)
            return plans[level]

        monkeypatch.setattr(compiling, "choose", spy)
        HostKernel(CASES["3x3"].text(), Target.get(level))
    for level, plan in plans.items():
        machine = Machine.of(Target.get(level))
        assert plan.lanes == machine.lanes("f32")
        used = (plan.rows + 1) * plan.vectors + 1
        assert machine.registers // 2 < used <= machine.registers


def test_work_is_cut_so_that_threads_end_together():
    assert idle_share(16) == idle_share(32) == 0
    assert idle_share(17) > idle_share(15) > idle_share(48)
    assert idle_share(3, enough=2) == idle_share(3, enough=3)
