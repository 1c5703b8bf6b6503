"""torch.compile(backend="mgx"): contexts, branches and loops inside of a graph."""

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
