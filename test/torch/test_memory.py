"""torch.compile(backend="mgx"): memory that tensors share, writes, strides, and wrong indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import mgx_mlir.torch  # noqa: E402

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


@pytest.fixture
def compiled(tmp_path: Path) -> Callable[[Any], Any]:
    return lambda model: torch.compile(model, backend="mgx", options={"cache": str(tmp_path)})


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, equal_nan=True, check_stride=True)


def check(compiled: Any, function: Any, *args: Any) -> None:
    """The results, and the arguments behind the call, are torch's."""
    ours = [arg.clone(memory_format=torch.preserve_format) for arg in args]
    with torch.no_grad():
        same(compiled(function)(*ours), function(*args))
    same(ours, list(args))


def turned(x: Any) -> Any:
    y = x * 2
    v = y.t()
    torch._dynamo.graph_break()
    v.add_(1)
    return y, v


def parts(x: Any) -> Any:
    y = x * 2
    a, b = y.chunk(2, 1)
    torch._dynamo.graph_break()
    a.add_(1)
    y.mul_(2)
    return a, b, y


def written_before(x: Any) -> Any:
    y = x * 2
    v = y[0]
    y.add_(1)
    torch._dynamo.graph_break()
    v.mul_(2)
    return y, v


def neighbours(x: Any) -> Any:
    a, b = x[1:], x[:-1]
    torch._dynamo.graph_break()
    a.add_(1)
    return b * 2, a * 3


@pytest.mark.parametrize("function", [turned, parts, written_before, neighbours])
def test_views_of_one_tensor_share_its_memory(compiled: Any, function: Any) -> None:
    check(compiled, function, torch.randn(3, 4))


def test_results_lie_in_memory_as_torchs_do(compiled: Any) -> None:
    def columns(x: Any) -> Any:
        return x + 1, (x * 2).permute(1, 2, 0), x.masked_fill(x > 0, 5.0)

    check(compiled, columns, torch.randn(2, 3, 4).transpose(0, 2))
    picture = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    check(compiled, torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), picture)


def test_memory_is_read_by_strides_eagerly(compiled: Any) -> None:
    def read(x: Any) -> Any:
        return torch.as_strided(x, (2, 2), (1, 3), 1) * 2

    check(compiled, read, torch.randn(3, 4).t())


@contextmanager
def default(dtype: Any) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def test_types_that_torch_computes_in_are_part_of_a_graph(compiled: Any) -> None:
    def function(x: Any) -> Any:
        return x @ x + torch.zeros(8)

    x, fast = torch.randn(8, 8), compiled(function)
    fewer = (torch.autocast("cpu", dtype=dtype) for dtype in (torch.bfloat16, torch.float16))
    for context in (default(torch.float32), *fewer, default(torch.float64)):
        with context:
            torch._dynamo.reset()
            found, wanted = fast(x), function(x)
        torch.testing.assert_close(found, wanted, rtol=2e-2, atol=2e-2)


def test_numbers_that_are_equal_differ(compiled: Any) -> None:
    def function(x: Any, divisor: float) -> Any:
        return x.abs() / divisor

    x = torch.randn(4)
    fast = torch.compile(function, backend="mgx", dynamic=True, options={"cache": "none"})
    for divisor in (0.0, -0.0, 1.5):
        same(fast(x, divisor), function(x, divisor))


def test_a_call_without_elements_gives_what_torch_gives(compiled: Any) -> None:
    def function(x: Any) -> Any:
        return x.mean(), x.sum(0), torch.softmax(x, 0)

    check(compiled, function, torch.zeros(0, 4))
    with pytest.raises(RuntimeError, match="reduction dim"):
        compiled(torch.max)(torch.zeros(0))


@pytest.mark.parametrize("index", [6, -1, 1 << 40])
def test_an_index_out_of_range_is_torchs_error(compiled: Any, index: int) -> None:
    model = torch.nn.Embedding(6, 4)
    fast = compiled(model)
    with torch.no_grad():
        same(fast(torch.tensor([[1, 5]])), model(torch.tensor([[1, 5]])))
        with pytest.raises(IndexError):
            fast(torch.tensor([[1, index]]))


def test_gradients_that_a_function_enables_are_there(compiled: Any) -> None:
    def slope(x: Any) -> Any:
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            z = (y**2).sum()
        return torch.autograd.grad(z, y)[0]

    check(compiled, slope, torch.randn(4))


def test_explain_says_why_some_calls_are_eager() -> None:
    model = torch.nn.Embedding(6, 4)
    told = mgx_mlir.torch.explain(model, torch.tensor([1]), mgx_options={"cache": "none"})
    assert told.graphs[0].programs == 1 and not told.graphs[0].others
