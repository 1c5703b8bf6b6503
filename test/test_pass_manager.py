"""Passes as text, the runner, and what a failing pass leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.dialects import context
from mgx_mlir.errors import CompilerError, UsageError
from mgx_mlir.passes.fuse_pointwise import FusePointwise
from mgx_mlir.pipelines.modes import MODES, mode_pipelines
from mgx_mlir.pipelines.phases import PIPELINES
from mgx_mlir.pipelines.registry import parse_pipeline, pass_class, pass_names, print_pipeline
from mgx_mlir.pipelines.runner import PassTimes, run_pipeline
from mgx_mlir.rewriting.pass_base import CLEANUP, Pass, PassContext

PROGRAM = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = mgx.relu %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


@dataclass(frozen=True)
class Breaks(Pass):
    """Fails on every module."""

    name: ClassVar[str] = "mgx-breaks"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        raise ValueError("on purpose")


@dataclass(frozen=True)
class Options(Pass):
    """Has an option of each kind."""

    flag: bool = False
    count: int = 1
    ratio: float = 0.5
    label: str = "a"
    axes: tuple[int, ...] = ()
    alignment: int = field(default=64, metadata={"least": 16, "multiple_of": 16})

    name: ClassVar[str] = "mgx-options"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        pass


@dataclass(frozen=True)
class RecordsTarget(Pass):
    """Writes down whether it was told the chip."""

    name: ClassVar[str] = "mgx-records-target"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        context.note(str(context.target), "")


def test_options_convert_both_ways() -> None:
    made = Options(flag=True, count=3, ratio=0.25, label="b", axes=(1, 2))
    text = "flag=true count=3 ratio=0.25 label=b axes=1,2"
    assert str(made) == f"mgx-options{{{text}}}"
    assert Options.from_options(text) == made
    assert str(Options()) == "mgx-options"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("colour=red", "no option 'colour'; it has: flag, count, ratio, label, axes, alignment"),
        ("count=many", "option 'count' takes int, not 'many'"),
        ("flag=maybe", "option 'flag' takes bool"),
        ("axes=1,x", "option 'axes' takes"),
        ("count=-1", "option 'count' takes 0 or more, not -1"),
        ("alignment=24", "option 'alignment' takes 16 or more, in multiples of 16, not 24"),
        ("alignment=0", "option 'alignment' takes 16 or more, in multiples of 16, not 0"),
        ("count=1 count=2", "option 'count' is given twice"),
    ],
)
def test_wrong_options_are_named(options: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Options.from_options(options)


@pytest.mark.parametrize("name", pass_names())
def test_pipeline_text_round_trips(name: str) -> None:
    step = pass_class(name)()
    text = print_pipeline([step, "canonicalize"])
    assert parse_pipeline(text) == (step, "canonicalize")


def test_upstream_pipelines_stay_as_they_are() -> None:
    text = "mgx-fuse-pointwise{max-ops=4},func.func(canonicalize{top-down=false},cse),cse"
    steps = parse_pipeline(text)
    assert steps[0] == FusePointwise(max_ops=4)
    assert steps[1:] == ("func.func(canonicalize{top-down=false},cse)", "cse")


@pytest.mark.parametrize("text", ["cse)", "func.func(cse", "mgx-fuse-pointwise{max-ops=1"])
def test_unbalanced_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"bracket|unbalanced"):
        parse_pipeline(text)


def test_unknown_pass_names_its_neighbour() -> None:
    with pytest.raises(UsageError, match="did you mean mgx-fuse-pointwise"):
        pass_class("mgx-fuse-pointwse")


def test_failing_pass_leaves_a_reproducer(tmp_path: Path) -> None:
    file = tmp_path / "crash.mlir"
    with context():
        module = ir.Module.parse(PROGRAM)
        with pytest.raises(CompilerError, match=r"on purpose[\s\S]*mgx-opt .*crash\.mlir"):
            run_pipeline(module, [FusePointwise(), Breaks()], PassContext(), reproducer=file)
    text = file.read_text()
    assert text.startswith("// configuration: builtin.module(mgx-fuse-pointwise,mgx-breaks)\n")
    # The program as it was before the first pass.
    assert "mgx.relu" in text and "mgx.pointwise" not in text


def test_unknown_upstream_pass_is_a_usage_error() -> None:
    with context():
        module = ir.Module.parse(PROGRAM)
        with pytest.raises(UsageError, match="'no-such-pass' is not a pass"):
            run_pipeline(module, ["no-such-pass"], PassContext())


def test_invalid_ir_after_a_pass_names_the_pass() -> None:
    @dataclass(frozen=True)
    class Spoils(Pass):
        """Gives an op an attribute that its verifier refuses."""

        name: ClassVar[str] = "mgx-spoils"

        def apply(self, module: ir.Module, context: PassContext) -> None:
            op = module.body.operations[0].regions[0].blocks[0].operations[0]
            op.operation.attributes["axis"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 7)

    with context():
        module = ir.Module.parse(PROGRAM.replace("mgx.relu %x", "mgx.softmax %x axis = 0"))
        with pytest.raises(CompilerError, match="mgx-spoils failed"):
            run_pipeline(module, [Spoils()], PassContext())


def test_times_name_each_step() -> None:
    times = PassTimes()
    with context():
        module = ir.Module.parse(PROGRAM)
        run_pipeline(module, [FusePointwise(), "cse"], PassContext(), times=times)
    assert [name for name, _ in times.entries] == ["mgx-fuse-pointwise", "cse"]
    assert times.total >= 0


def test_chip_is_hidden_from_passes_that_may_not_know_it() -> None:
    with context():
        module = ir.Module.parse(PROGRAM)
        passed = PassContext(target=Target.get("gfx942"))
        run_pipeline(module, [RecordsTarget()], passed)
    assert passed.fired == [("mgx-records-target", "None", "")]


def test_every_mode_is_made_of_named_pipelines() -> None:
    assert mode_pipelines("default") == tuple(PIPELINES)
    for mode in MODES:
        assert set(mode_pipelines(mode)) <= set(PIPELINES)
    with pytest.raises(UsageError, match="there is no mode 'quick'"):
        mode_pipelines("quick")


@dataclass(frozen=True)
class _Asking(Pass):
    """Leaves clean-up to the driver."""

    cleanup: ClassVar[bool] = True
    name: ClassVar[str] = "mgx-asking"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        pass


def test_a_pass_that_asks_for_cleanup_gets_it_once() -> None:
    times = PassTimes()
    with context():
        module = ir.Module.parse("module {}")
        run_pipeline(module, (_Asking(), _Silent(), _Asking()), PassContext(), times=times)
    ran = [name for name, _ in times.entries]
    once = ["mgx-asking", *CLEANUP]
    assert ran == [*once, "mgx-silent", *once]


def test_cleanup_can_be_left_out() -> None:
    times = PassTimes()
    with context():
        module = ir.Module.parse("module {}")
        run_pipeline(module, (_Asking(),), PassContext(cleanup=("cse",)), times=times)
    assert [name for name, _ in times.entries] == ["mgx-asking", "cse"]


@dataclass(frozen=True)
class _Silent(Pass):
    """Leaves nothing behind."""

    name: ClassVar[str] = "mgx-silent"

    def apply(self, module: ir.Module, context: PassContext) -> None:
        pass
