"""The functions that build ops, and the classes that parsed ops come back as."""

import numpy as np
import pytest
from mlir import ir

from mgx_mlir._native import _mgx
from mgx_mlir.dialects import context, mgx


@pytest.fixture
def module():
    with context(), ir.Location.unknown():
        made = ir.Module.create()
        with ir.InsertionPoint(made.body):
            yield made
        assert made.operation.verify()


def _tensor(*shape, dtype="float32"):
    return mgx.tensor_type(shape, mgx.element_type(dtype))


def test_each_op_has_a_function_and_a_class():
    classes = {
        value.OPERATION_NAME
        for value in vars(mgx).values()
        if isinstance(value, type) and issubclass(value, ir.OpView)
    }
    assert classes == mgx.OPS
    for name in mgx.OPS:
        name = name.removeprefix("mgx.")
        assert callable(getattr(mgx, name, None) or getattr(mgx, name + "_"))


def test_traits_partition_ops():
    assert {*mgx.POINTWISE_OPS}.isdisjoint((*mgx.VIEW_OPS, *mgx.REDUCTION_OPS))
    assert {mgx.AddOp, mgx.WhereOp, mgx.ConvertOp} <= {*mgx.POINTWISE_OPS}
    assert {mgx.TransposeOp, mgx.IdentityOp} <= {*mgx.VIEW_OPS}
    assert len(mgx.REDUCTION_OPS) == 7
    with pytest.raises(ValueError, match="mgx ops have no trait 'x'"):
        _mgx.op_names_with_trait("x")


def test_unknown_names_are_an_error():
    with pytest.raises(AttributeError, match="no op or name 'convolutoin'"):
        mgx.convolutoin  # noqa: B018


def test_parsed_ops_are_the_generated_classes(module):
    parsed = ir.Module.parse("%0 = mgx.constant dense<1.0> : tensor<2xf32>")
    assert isinstance(parsed.body.operations[0], mgx.ConstantOp)


def test_contexts_refuse_unknown_dialects_and_run_on_one_thread():
    with context() as made:
        assert made.allow_unregistered_dialects is False
        with pytest.raises(ir.MLIRError, match=r"unregistered dialect|not found"):
            ir.Module.parse('"other.op"() : () -> ()')


def test_every_context_knows_the_dialect():
    with ir.Context():
        assert "mgx.literal" in str(ir.Module.parse('%0 = mgx.literal "w" : tensor<2xf32>'))


def test_windows_take_numbers_for_all_dimensions(module):
    x, w = mgx.literal("x", _tensor(1, 3, 8, 8)), mgx.literal("w", _tensor(4, 3, 3, 3))
    assert mgx.convolution(x, w, pads=1).type == _tensor(1, 4, 8, 8)
    assert mgx.convolution(x, w, [1, 1, 0, 0], [2, 1]).type == _tensor(1, 4, 4, 7)
    assert mgx.pooling(x, "average", 2, strides=2).type == _tensor(1, 3, 4, 4)
    assert mgx.pooling(x, mgx.PoolingMode.max, [8, 8]).type == _tensor(1, 3, 1, 1)


def test_defaults_are_filled_in(module):
    x = mgx.literal("x", _tensor(2, 3))
    leaky = mgx.leaky_relu(x).owner.opview
    assert leaky.alpha.value == pytest.approx(0.01)
    assert mgx.pad(x, [0, 0], [1, 1]).owner.opview.attributes is not None
    assert "alpha = 5.000000e-01" in str(mgx.leaky_relu(x, alpha=0.5))


def test_errors_carry_the_verifiers_message(module):
    x = mgx.literal("x", _tensor(2, 3))
    with pytest.raises(ir.MLIRError, match="columns of a must be as many as the rows of b"):
        mgx.dot(x, x)
    with pytest.raises(ir.MLIRError, match=r"axis must be in \[0, 2\), got 2"):
        mgx.argmax(x, 2)


def test_pointwise_builds_its_body_from_a_function(module):
    x = mgx.literal("x", _tensor(2, 3))
    one = mgx.pointwise([x, x], lambda a, b: mgx.relu(mgx.add(a, b)))
    assert one.type == x.type
    first, second = mgx.pointwise([x], lambda a: [mgx.exp(a), mgx.isnan(a)])
    assert first.type == x.type and second.type == _tensor(2, 3, dtype="bool")
    assert [op.operation.name for op in one.owner.opview.body.blocks[0]] == [
        "mgx.add",
        "mgx.relu",
        "mgx.yield",
    ]


def test_fused_reduce_builds_its_body_from_a_function(module):
    x = mgx.literal("x", _tensor(2, 3))
    y = mgx.fused_reduce([x], [-1], lambda a: mgx.reduce_sum(mgx.mul(a, a), [-1]))
    assert y.type == _tensor(2, 1)


def test_if_has_two_bodies(module):
    x, y = mgx.literal("x", _tensor(2)), mgx.literal("y", _tensor(2))
    assert mgx.if_(mgx.constant(True), lambda: x, lambda: y).type == x.type


def test_loop_returns_carried_values_and_stacked_ones(module):
    x = mgx.literal("x", _tensor(2))
    last, all_of_them = mgx.loop(
        mgx.constant(np.int64(3)),
        mgx.constant(True),
        [x],
        lambda i, go, v: [go, mgx.add(v, v), v],
    )
    assert last.type == x.type and all_of_them.type == _tensor(None, 2)


def test_kernels_are_built_and_launched(module):
    x = mgx.literal("x", _tensor(4))
    kernel = mgx.kernel("add", [x.type, x.type], mgx.add, features=["f16"])
    assert kernel.sym_name.value == "add" and mgx.ArchAttr(kernel.arch).name == "gfxMIGX"
    assert mgx.launch(kernel, [x, x]).type == x.type


def test_an_exception_in_a_body_leaves_nothing_behind(module):
    x = mgx.literal("x", _tensor(2, 3))
    with pytest.raises(ZeroDivisionError):
        mgx.pointwise([x], lambda a: 1 // 0)
    assert [op.operation.name for op in module.body] == ["mgx.literal"]


def test_reshape_refuses_sizes_that_do_not_divide(module):
    with pytest.raises(ValueError, match="has no reshape to"):
        mgx.reshape(mgx.literal("x", _tensor(2, 3)), [4, -1])


_BODIES = {
    "pointwise": lambda x, body: mgx.pointwise([x], body),
    "fused_reduce": lambda x, body: mgx.fused_reduce([x], [0], body),
    "attention": lambda x, body: mgx.attention(x, x, x, [], body),
    "then": lambda x, body: mgx.if_(_flag(), body, lambda: x),
    "else": lambda x, body: mgx.if_(_flag(), lambda: mgx.relu(x), body),
    "loop": lambda x, body: mgx.loop(mgx.constant(3, np.int64), _flag(), [x], body),
}


def _flag():
    return mgx.constant(True, np.bool_)


@pytest.mark.parametrize("outer", _BODIES)
@pytest.mark.parametrize("inner", _BODIES)
def test_a_body_that_fails_leaves_nothing(module, inner, outer):
    """Also where the failing body's arguments outlive it."""
    x = mgx.constant(np.ones((2, 2), np.float32))
    y = mgx.constant(np.zeros((2, 2), np.float32))
    kept = []

    def fails(*arguments):
        kept.append(arguments)
        mgx.add(mgx.mul(x, y), x)
        raise KeyError("refused")

    def body(*arguments):
        kept.append(arguments)
        _BODIES[inner](mgx.add(x, y), fails)

    with pytest.raises(KeyError, match="refused"):
        _BODIES[outer](x, body)
    assert not list(x.uses)
    assert not list(y.uses)
    assert {op.operation.name for op in module.body.operations} == {"mgx.constant"}


def test_a_kernel_that_fails_leaves_nothing(module):
    def fails(a):
        mgx.relu(a)
        raise KeyError("refused")

    with pytest.raises(KeyError, match="refused"):
        mgx.kernel("k", [_tensor(2)], fails)
    assert not list(module.body.operations)


def test_tells_ops_by_their_group():
    with context(), ir.Location.unknown():
        module = ir.Module.parse(
            """
            func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
              %0 = mgx.transpose %x permutation = [1, 0] : tensor<2x3xf32> -> tensor<3x2xf32>
              %1 = mgx.reduce_sum %0 axes = [1] : tensor<3x2xf32> -> tensor<3x1xf32>
              %2 = mgx.relu %x : tensor<2x3xf32>
              return %2 : tensor<2x3xf32>
            }
            """
        )
        ops = list(module.body.operations[0].regions[0].blocks[0].operations)
        for question, kind in (
            (mgx.is_view, mgx.TransposeOp),
            (mgx.is_reduction, mgx.ReduceSumOp),
            (mgx.is_pointwise, mgx.ReluOp),
        ):
            assert [type(op) for op in ops if question(op)] == [kind]
            assert not question(None)


def test_groups_agree_with_the_traits_of_the_dialect():
    assert {*mgx.RESHAPES, *mgx.BROADCASTS} - {mgx.ContiguousOp} <= {*mgx.VIEW_OPS}
    assert mgx.ConvolutionBackwardsOp in mgx.CONTRACTIONS


def test_traits_with_a_number_are_known_by_class():
    assert mgx.NEUTRAL_RIGHT[mgx.SubOp] == 0
    assert mgx.NEUTRAL_RIGHT[mgx.LogicalAndOp] == -1
    assert mgx.MaxOp not in mgx.NEUTRAL_RIGHT
    assert mgx.AddOp in mgx.COMMUTATIVE
    assert mgx.SubOp not in mgx.COMMUTATIVE
    assert mgx.PASSES[mgx.SoftmaxOp] == 5
