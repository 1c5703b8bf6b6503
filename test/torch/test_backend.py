"""torch.compile(backend="mgx"): results, sizes, weights, caches, and what runs eagerly."""

from __future__ import annotations

import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import mgx_mlir.torch  # noqa: E402
from mgx_mlir.errors import UsageError  # noqa: E402
from mgx_mlir.torch.arrays import host_array, host_tensor  # noqa: E402

pytestmark = pytest.mark.slow


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 10)

    def forward(self, x: Any, scale: float = 2.0) -> Any:
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3))) * scale


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


@pytest.fixture
def compiled(tmp_path: Path) -> Any:
    def compile(model: Any, **options: Any) -> Any:
        given = {"cache": str(tmp_path), **options}
        return torch.compile(model, backend="mgx", options=given)

    return compile


def programs(tmp_path: Path) -> int:
    return len(list(tmp_path.glob("*.mgx")))


def same(found: Any, wanted: Any, most: float = 1e-5) -> None:
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    torch.testing.assert_close(found, wanted, rtol=most, atol=most)


def test_a_module_gives_what_torch_gives(compiled: Any) -> None:
    model, x = Net().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        same(compiled(model)(x), model(x))
    with torch.inference_mode():
        same(compiled(model)(x), model(x))


def test_one_program_takes_any_sizes(compiled: Any, tmp_path: Path) -> None:
    model = Net().eval()
    fast = compiled(model)
    with torch.no_grad():
        for batch in (1, 2, 3, 7):
            x = torch.randn(batch, 3, 8, 8)
            same(fast(x), model(x))
    # That of the first sizes, and that for all others: Dynamo asks for it with the second.
    assert programs(tmp_path) == 2


def test_numbers_of_python_are_fixed_in_programs_of_their_own(compiled: Any) -> None:
    model, x = Net().eval(), torch.randn(2, 3, 8, 8)
    fast = compiled(model)
    with torch.no_grad():
        for scale in (2.0, 0.5, 0.25, 2.0):
            same(fast(x, scale), model(x, scale))


def test_weights_that_change_are_seen(compiled: Any) -> None:
    model, x = Net().eval(), torch.randn(2, 3, 8, 8)
    fast = compiled(model)
    with torch.no_grad():
        before = fast(x)
        model.head.weight.mul_(2)
        assert not torch.allclose(fast(x), before)
        same(fast(x), model(x))


def test_layers_of_one_class_have_their_own_weights(compiled: Any) -> None:
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    for layer in layers:
        layer.forward = compiled(layer.forward)
    x = torch.randn(2, 4)
    with torch.no_grad():
        for layer in layers:
            same(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))


def test_arguments_and_views_of_them_are_the_callers_own(compiled: Any) -> None:
    def views(x: Any) -> Any:
        return x, x.transpose(0, 1), x.shape[0] * 2, x + 1, None

    x = torch.randn(3, 4)
    itself, turned, size, more, nothing = compiled(views, target="cpu")(x)
    x[0, 0] = 5
    assert itself is x and turned[0, 0] == 5 and size == 6 and nothing is None
    assert more[0, 0] != 6


def test_an_output_that_comes_twice_is_there_twice(compiled: Any) -> None:
    def twice(x: Any) -> Any:
        y, z = x * 2, x * 2
        return y, z, torch.zeros(2), x + 1

    found = compiled(twice)(torch.ones(3))
    for one, wanted in zip(found, twice(torch.ones(3)), strict=True):
        same(one, wanted)


def test_tensors_that_a_graph_writes_to_change(compiled: Any) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            x[:, 0] = 7
            return x * self.calls

    ours, torchs = Counter(), Counter()
    fast = compiled(ours)
    for _ in range(2):
        x, y = torch.ones(2, 3), torch.ones(2, 3)
        same(fast(x), torchs(y))
        same(x, y)
        same(ours.calls, torchs.calls)


def test_arguments_that_share_memory_are_written_to_as_torch_does(compiled: Any) -> None:
    def writes(x: Any, y: Any) -> Any:
        x.add_(1)
        return y * 2

    fast = compiled(writes)
    for apart in (True, False):
        ours, theirs = torch.ones(6), torch.ones(6)
        pairs = [(t[:3], t[3:]) if apart else (t[:4], t[2:]) for t in (ours, theirs)]
        same(fast(*pairs[0]), writes(*pairs[1]))
        same(ours, theirs)


def test_results_that_share_memory_do_so(compiled: Any) -> None:
    def shared(x: Any) -> Any:
        y = x @ x.T
        first, second = (x + 1).chunk(2, 1)
        return {"y": y, "row": y[0], "turned": y.T}, first, second

    x = torch.randn(3, 4)
    (story,) = mgx_mlir.torch.explain(shared, x, mgx_options={"cache": "none"}).graphs
    assert not story.reason
    found, first, second = compiled(shared)(x)
    wanted, *parts = shared(x)
    for one, other in zip(
        (*found.values(), first, second), (*wanted.values(), *parts), strict=True
    ):
        same(one, other)
    found["y"].zero_()
    assert not found["row"].any() and not found["turned"].any()


def test_results_lie_in_memory_as_torchs_do(compiled: Any) -> None:
    model = torch.nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    with torch.no_grad():
        found, wanted = compiled(model)(x), model(x)
    same(found, wanted)
    assert found.stride() == wanted.stride()


@pytest.mark.parametrize("inference", [False, True])
def test_weights_written_to_past_autograd_are_seen(compiled: Any, inference: bool) -> None:
    with torch.inference_mode(inference), torch.no_grad():
        model, x = torch.nn.Linear(4, 3), torch.randn(2, 4)
        fast = compiled(model)
        for change in (
            lambda weight: None,
            lambda weight: weight.data.mul_(2),
            lambda weight: weight.detach().numpy().fill(3),
            lambda weight: setattr(weight, "data", weight.data + 1),
        ):
            change(model.weight)
            same(fast(x), model(x))


def test_autocast_makes_a_graph_of_its_own(compiled: Any) -> None:
    model, x = torch.nn.Linear(64, 64), torch.randn(4, 64)
    fast = compiled(model)
    with torch.no_grad():
        for on in (True, False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=on):
                same(fast(x), model(x), 2e-2)


def test_norms_of_training_run_eagerly_and_keep_their_statistics(compiled: Any) -> None:
    ours, torchs = torch.nn.BatchNorm1d(5), torch.nn.BatchNorm1d(5)
    fast = compiled(ours)
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(6, 5) * 3 + 1
            same(fast(x), torchs(x))
            same(ours.running_mean, torchs.running_mean)
    (story,) = mgx_mlir.torch.explain(ours, x).graphs
    assert "call eval()" in story.reason


def test_complex_numbers_run_eagerly(compiled: Any) -> None:
    def spectrum(x: Any) -> Any:
        return torch.fft.fft(x), x + 1

    x = torch.randn(8)
    for found, wanted in zip(compiled(spectrum)(x), spectrum(x), strict=True):
        same(found, wanted)
    fast = compiled(lambda x: x.real * 2)
    same(fast(torch.ones(3, dtype=torch.complex64)), torch.full((3,), 2.0))


def test_attention_of_one_operator_is_compiled(compiled: Any) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True).eval()
    heads = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    hidden = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]).bool()
    ahead = torch.ones(5, 5, dtype=torch.bool).triu(1)

    def attends(x: Any) -> Any:
        masked = heads(x, x, x, key_padding_mask=hidden, average_attn_weights=False)
        return layer(x, src_mask=ahead), *masked, heads(x, x, x, attn_mask=ahead)[0]

    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        told = mgx_mlir.torch.explain(attends, x, mgx_options={"cache": "none"})
        for found, wanted in zip(compiled(attends)(x), attends(x), strict=True):
            same(found, wanted)
    assert not any(story.reason for story in told.graphs)


def test_a_norm_of_bfloat16_behind_a_convolution_is_compiled() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8))
    x = torch.randn(1, 3, 8, 8, dtype=torch.bfloat16)
    (story,) = mgx_mlir.torch.explain(model.eval().bfloat16(), x).graphs
    assert not story.reason


def test_threads_that_meet_new_sizes_do_not_disturb_each_other(compiled: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 50), torch.nn.GELU()).eval()
    fast = compiled(model)

    def call(number: int) -> None:
        with torch.no_grad():
            x = torch.randn(1 + number % 5, 4)
            same(fast(x), model(x))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(call, range(40)))


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    script = f"""if True:
        import torch, mgx_mlir.torch
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.GELU()).eval()
        options = {{"cache": {str(tmp_path)!r}}}
        story = mgx_mlir.torch.explain(model, torch.ones(2, 64), mgx_options=options).graphs[0]
        print(story.programs, story.cached, "torch.onnx._internal.exporter._core" in
              __import__("sys").modules)
    """
    said = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert said == [["1", "0", "True"], ["1", "1", "False"]]


def test_a_cached_graph_takes_the_weights_that_the_model_has_now(
    compiled: Any, tmp_path: Path
) -> None:
    x = torch.randn(2, 64)
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        torch._dynamo.reset()
        model = torch.nn.Linear(64, 64)
        with torch.no_grad():
            same(compiled(model)(x), model(x))
    assert programs(tmp_path) == 2


def test_weights_are_not_kept_a_second_time(compiled: Any, tmp_path: Path) -> None:
    model = torch.nn.Embedding(1000, 256)
    with torch.no_grad():
        compiled(model)(torch.tensor([1, 2]))
    (kept,) = tmp_path.glob("*.mgx")
    assert kept.stat().st_size < model.weight.nbytes / 4


def test_training_runs_eagerly_and_is_said_once(
    compiled: Any, caplog: pytest.LogCaptureFixture
) -> None:
    model = Net()
    fast = compiled(model)
    for _ in range(2):
        fast(torch.randn(2, 3, 8, 8)).sum().backward()
    assert model.head.weight.grad is not None
    said = [r.message for r in caplog.records if "gradients" in r.message]
    assert len(said) == 1 and "torch.no_grad()" in said[0]


def test_random_numbers_are_torchs(compiled: Any) -> None:
    def drops(x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5, training=True) + 1

    fast, x = compiled(drops), torch.ones(100)
    torch.manual_seed(3)
    found = fast(x)
    torch.manual_seed(3)
    same(found, drops(x))


def test_an_operator_that_is_not_exported_runs_eagerly_by_name(
    compiled: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def eigen(x: Any) -> Any:
        return torch.linalg.eigvals(x @ x.T).real.sum()

    x = torch.randn(3, 3)
    with caplog.at_level(logging.WARNING):
        same(compiled(eigen)(x), eigen(x))
    assert "linalg_eig" in caplog.text


def test_forms_that_the_exporter_refuses_are_written_otherwise(compiled: Any) -> None:
    def mask(x: Any) -> Any:
        return (1.0 - x) * -3.0

    def one_head(q: Any, k: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(q, k, k)

    x, q, k = torch.tensor([[1, 0, 1]]), torch.randn(2, 4, 5, 8), torch.randn(2, 1, 5, 8)
    for function, given in ((mask, (x,)), (one_head, (q, k))):
        fast = compiled(function)
        same(fast(*given), function(*given))
        (story,) = mgx_mlir.torch.explain(function, *given).graphs
        assert not story.reason


def test_explain_names_graphs_and_breaks(tmp_path: Path) -> None:
    def parted(x: Any) -> Any:
        if x.sum() > 0:
            return torch.relu(x) * 2
        return x - 1

    told = mgx_mlir.torch.explain(parted, torch.ones(3), mgx_options={"cache": "none"})
    assert [story.programs for story in told.graphs] == [1, 1]
    assert any("data-dependent" in why.lower() for why in told.breaks)
    assert "graph 0: " in str(told)


def test_a_wrong_option_is_named(compiled: Any) -> None:
    for given, said in (
        ({"presicion": "f16"}, "did you mean precision"),
        ({"precision": "f8"}, "there is no precision 'f8'"),
        ({"mode": "maxx"}, "there is no mode 'maxx'"),
        ({"threads": "two"}, "threads"),
    ):
        with pytest.raises(UsageError, match=said):
            mgx_mlir.torch.Options.of(given, None)


def test_modes_of_torch_have_a_meaning() -> None:
    made = mgx_mlir.torch.Options.of({}, "max-autotune")
    assert made.compile_options(False).mode == "max"
    assert made.compile_options(True).mode == "full-dynamic"


def test_precision_computes_in_fewer_bits(compiled: Any) -> None:
    model, x = torch.nn.Linear(64, 64), torch.randn(4, 64)
    with torch.no_grad():
        wanted = model(x)
        found = compiled(model, precision="f16")(x)
    same(found, wanted, 1e-2)
    assert not torch.equal(found, wanted)


def test_types_that_numpy_lacks_go_through(compiled: Any) -> None:
    model = torch.nn.Linear(64, 64).to(torch.bfloat16)
    x = torch.randn(4, 64, dtype=torch.bfloat16)
    with torch.no_grad():
        same(compiled(model)(x), model(x), 2e-2)


def test_tensors_of_the_host_are_not_copied() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool):
        tensor = torch.zeros(4, 4).to(dtype)
        array = host_array(tensor)
        assert array.ctypes.data == tensor.data_ptr()
        back = host_tensor(array)
        assert back.dtype == dtype and back.data_ptr() == tensor.data_ptr()


def test_an_emulated_gpu_runs_graphs(compiled: Any) -> None:
    model, x = Net().eval(), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        same(compiled(model, target="gfx942")(x), model(x), 1e-4)
