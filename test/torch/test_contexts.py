"""torch.compile(backend="mgx"): contexts, branches, loops and checkpoints inside of a graph."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import mgx_mlir.torch  # noqa: E402

pytestmark = pytest.mark.slow


def expect_compiled(function: Any, *calls: Any) -> None:
    """One graph is compiled, and gives what torch gives."""
    torch._dynamo.reset()
    options = {"cache": "none"}
    with torch.no_grad():
        (story,) = mgx_mlir.torch.explain(function, calls[0], mgx_options=options).graphs
        assert not story.reason
        fast = torch.compile(function, backend="mgx", options=options)
        for x in calls:
            for found, wanted in zip(fast(x), function(x), strict=True):
                most = 2e-2 if wanted.dtype == torch.bfloat16 else 1e-5
                torch.testing.assert_close(found, wanted, rtol=most, atol=most)


def test_autocast_within_a_graph() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 64)

    def mixed(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            y = model(x)
            with torch.autocast("cpu", enabled=False):
                z = model(x)
        return y, z, x @ x.T

    expect_compiled(mixed, torch.randn(4, 64))


def test_branches() -> None:
    def branch(x: Any) -> Any:
        return (torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,)),)

    expect_compiled(branch, torch.ones(3), -torch.ones(3))


def test_loops() -> None:
    from torch._higher_order_ops import while_loop

    def loop(x: Any) -> Any:
        return while_loop(
            lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (torch.tensor(0), x)
        )  # fmt: skip

    expect_compiled(loop, torch.ones(3))


def test_activation_checkpoints() -> None:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    first, second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def layer(x: Any) -> Any:
        y = checkpoint(first, x, use_reentrant=False)
        return checkpoint(lambda y: (second(y) + x, y.relu(), x), y, use_reentrant=False)

    expect_compiled(lambda x: checkpoint(layer, x, use_reentrant=False), torch.randn(2, 8))


def test_sums_and_products_of_truth_values() -> None:
    def both(x: Any) -> Any:
        a, b = x[0] > 0, x[1] > 0
        return a + b, torch.add(a, b), a * b, a.sum(), a + x[0]

    expect_compiled(both, torch.tensor([[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]]))


def test_the_sign_of_nan_is_0() -> None:
    def signs(x: Any) -> Any:
        return torch.sign(x), x.sgn(), torch.sign(x.nan_to_num(3).int())

    expect_compiled(signs, torch.tensor([2.0, -3.0, float("nan"), 0.0, float("-inf")]))
