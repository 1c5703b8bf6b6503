"""Which inputs kernels may write over, and that plans let them do no more."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir

from mgx_mlir.dialects import context, mgx
from mgx_mlir.importer import Graph
from mgx_mlir.rewriting.graph import main_function
from mgx_mlir.rewriting.in_place import overwritable
from mgx_mlir.rewriting.lifetimes import Lifetimes
from mgx_mlir.rewriting.queries import blocks, memory_of
from test.passes.graphs import parse, random_graph, run
from test.test_plan import STEPS

T = "tensor<4x8xf32>"
ADD = "^bb0(%p: f32, %q: f32):\n%s = mgx.add %p, %q : f32, f32 -> f32\nmgx.yield %s : f32"


def kernel(arguments: str, body: str, result: str = T, returned: str = "%r") -> frozenset[int]:
    """The inputs that a kernel may overwrite."""
    text = (
        f'mgx.kernel @k({arguments}) -> ({result}) attributes {{arch = #mgx.arch<"gfxMIGX">}} '
        f"{{\n{body}\nmgx.return {returned} : {result}\n}}"
    )
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        return overwritable(next(iter(module.body.operations)))


def add(x: str, y: str, a: str = T, b: str = T) -> str:
    return f"%r = mgx.pointwise({x}, {y}) : ({a}, {b}) -> {T} {{\n{ADD}\n}}"


def test_what_is_read_element_by_element() -> None:
    assert kernel(f"%x: {T}, %y: {T}", add("%x", "%y")) == {0, 1}


def test_nothing_that_is_read_in_another_order() -> None:
    turn = "%t = mgx.transpose %y permutation = [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>\n"
    assert kernel(f"%x: {T}, %y: tensor<8x4xf32>", turn + add("%x", "%t")) == {0}


def test_nothing_that_several_elements_need() -> None:
    wide = f"%w = mgx.multibroadcast %y : tensor<1x8xf32> -> {T}\n"
    assert kernel(f"%x: {T}, %y: tensor<1x8xf32>", wide + add("%x", "%w")) == {0}


def test_nothing_that_is_read_twice() -> None:
    reverse = f"%v = mgx.reverse %x axes = [0] : {T} -> {T}\n"
    slices = (
        "%v = mgx.slice %x axes = [0] starts = [0] ends = [4] : tensor<8x8xf32> -> tensor<4x8xf32>"
        "\n%w = mgx.slice %x axes = [0] starts = [4] ends = [8] : tensor<8x8xf32> -> "
        "tensor<4x8xf32>\n"
    )
    assert kernel(f"%x: {T}", add("%x", "%x")) == set()
    assert kernel(f"%x: {T}", reverse + add("%x", "%v")) == set()
    assert kernel("%x: tensor<8x8xf32>", slices + add("%v", "%w")) == set()


def test_what_a_scatter_replaces_elements_in() -> None:
    def scatter(kind: str, x: str, u: str) -> frozenset[int]:
        types = f"{T}, tensor<1x8xi64>, tensor<1x8xf32> -> {T}"
        body = f"%r = mgx.scatter_{kind} {x}[%i], {u} axis = 0 : {types}"
        first = "%s = mgx.slice %x axes = [0] starts = [0] ends = [1] : "
        body = f"{first}{T} -> tensor<1x8xf32>\n{body}" if u == "%s" else body
        return kernel(f"%i: tensor<1x8xi64>, %x: {T}, %u: tensor<1x8xf32>", body)

    assert scatter("none", "%x", "%u") == {1}
    assert scatter("add", "%x", "%u") == set()
    assert scatter("none", "%x", "%s") == set()


def test_nothing_of_another_width() -> None:
    body = (
        f"%r = mgx.pointwise(%x) : (tensor<4x8xf16>) -> {T} {{\n"
        "^bb0(%p: f16):\n%s = mgx.convert %p : f16 -> f32\nmgx.yield %s : f32\n}"
    )
    assert kernel("%x: tensor<4x8xf16>", body) == set()


def test_nothing_where_there_is_other_work() -> None:
    both = f"%r:2 = mgx.pointwise(%x) : ({T}) -> ({T}, {T}) {{\n^bb0(%p: f32):\n"
    both += "mgx.yield %p, %p : f32, f32\n}"
    total = f"{add('%x', '%y')}\n%z = mgx.reduce_sum %r axes = [1] : {T} -> tensor<4x1xf32>"
    assert kernel(f"%x: {T}", both, f"{T}, {T}", "%r#0, %r#1") == set()
    assert kernel(f"%x: {T}, %y: {T}", total, "tensor<4x1xf32>", "%z") == set()


@pytest.mark.parametrize("seed", range(20))
def test_plans_share_memory_only_there(seed: int) -> None:
    """A launch's results lie apart from all that it reads, or exactly over what it may."""
    check(random_graph(seed, 40, control_flow=seed % 2 == 1))


# %b is written over %1, and %4 over %3. %x is the caller's; the branches' result, of which %e is
# a part, has its place while %2 is read.
CHAIN = """
func.func @main(%x: tensor<64xf32> {mgx.name = "x"}, %c: tensor<i1> {mgx.name = "c"})
    -> (tensor<64xf32> {mgx.name = "y"}) {
  %0 = mgx.exp %x : tensor<64xf32>
  %s = mgx.prefix_scan_sum %0 axis = 0 : tensor<64xf32>
  %1 = mgx.prefix_scan_sum %s axis = 0 : tensor<64xf32>
  %b = mgx.tanh %1 : tensor<64xf32>
  %2 = mgx.prefix_scan_sum %b axis = 0 : tensor<64xf32>
  %r = mgx.if %c : tensor<i1> -> tensor<64xf32> {
    %3 = mgx.prefix_scan_sum %0 axis = 0 : tensor<64xf32>
    %d = mgx.tanh %2 : tensor<64xf32>
    %4 = mgx.add %3, %d : tensor<64xf32>, tensor<64xf32> -> tensor<64xf32>
    mgx.yield %4 : tensor<64xf32>
  } else {
    %e = mgx.tanh %2 : tensor<64xf32>
    mgx.yield %e : tensor<64xf32>
  }
  return %r : tensor<64xf32>
}"""


def test_what_is_read_for_the_last_time_is_written_over() -> None:
    assert check(parse(CHAIN)) == 2


def test_nobody_waits_to_write_over_what_another_branch_reads() -> None:
    """%a is read by a chain of its own, which the tanh would have to wait for."""
    text = """
    func.func @main(%x: tensor<64xf32> {mgx.name = "x"})
        -> (tensor<64xf32> {mgx.name = "y"}, tensor<64xf32> {mgx.name = "z"}) {
      %a = mgx.prefix_scan_sum %x axis = 0 : tensor<64xf32>
      %b = mgx.prefix_scan_sum %a axis = 0 : tensor<64xf32>
      %c = mgx.tanh %a : tensor<64xf32>
      return %b, %c : tensor<64xf32>, tensor<64xf32>
    }"""
    assert check(parse(text)) == 0


def test_scatters_write_over_nothing_in_the_arena() -> None:
    """Readers of artifacts 1.0 take the memories of their kernels for two."""
    text = """
    func.func @main(%x: tensor<64xf32> {mgx.name = "x"}, %i: tensor<2xi64> {mgx.name = "i"},
                    %u: tensor<2xf32> {mgx.name = "u"}) -> (tensor<64xf32> {mgx.name = "y"}) {
      %a = mgx.prefix_scan_sum %x axis = 0 : tensor<64xf32>
      %b = mgx.scatter_none %a[%i], %u axis = 0
        : tensor<64xf32>, tensor<2xi64>, tensor<2xf32> -> tensor<64xf32>
      %c = mgx.prefix_scan_sum %b axis = 0 : tensor<64xf32>
      return %c : tensor<64xf32>
    }"""
    assert check(parse(text)) == 0


def check(graph: Graph) -> int:
    """Compiles; how many launches write over something. Fails where one must not."""
    with np.errstate(all="ignore"):
        run(graph, STEPS)
    with graph.module.context:
        return _overwriting(graph)


def _overwriting(graph: Graph) -> int:
    kernels = ir.SymbolTable(graph.module.operation)
    main = main_function(graph.module)
    lifetimes, found = Lifetimes.of(main), 0

    def place(value: ir.Value) -> tuple[int, int, int]:
        """Memory (-1: the arena, otherwise an output), first byte and end."""
        source = memory_of(value)
        whole, inside = lifetimes.parts.get(source, (source, 0))
        tensor = lifetimes.tensors.get(whole)
        if tensor is None:  # an input or a weight: nothing is ever written there
            return -2, 0, 0
        start = inside if tensor.output >= 0 else offsets[id(tensor)] + inside
        return tensor.output, start, start + mgx.byte_size(source.type)

    # By tensor: several values, of which one is a result with an offset.
    offsets: dict[int, int] = {}
    launches = []
    for block in blocks(main):
        for op in block.operations:
            if "mgx.offsets" in op.operation.attributes:
                given = ir.DenseI64ArrayAttr(op.operation.attributes["mgx.offsets"])
                for result, offset in zip(op.operation.results, given, strict=True):
                    whole, inside = lifetimes.parts.get(result, (result, 0))
                    offsets[id(lifetimes.tensors[whole])] = offset - inside
            if op.operation.name == "mgx.launch":
                launches.append(op.operation)
    for launch in launches:
        name = ir.FlatSymbolRefAttr(launch.attributes["kernel"]).value
        may = overwritable(kernels[name])
        for result in launch.results:
            memory, start, end = place(result)
            for number, operand in enumerate(launch.operands):
                other, first, last = place(operand)
                if memory != other or last <= start or end <= first:
                    continue
                assert number in may and (first, last) == (start, end), str(launch)
                found += 1
    return found
