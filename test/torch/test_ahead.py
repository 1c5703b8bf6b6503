"""Programs of torch.export and torch.onnx as models, in Python and on the command line."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")

import mgx_mlir  # noqa: E402
from mgx_mlir.errors import ModelError, UnsupportedError, UsageError  # noqa: E402
from mgx_mlir.importer import loading  # noqa: E402
from mgx_mlir.tools.mgx import main  # noqa: E402

pytestmark = pytest.mark.slow


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(64, 128)
        self.second = torch.nn.Linear(128, 8)

    def forward(self, x: Any, more: Any = None) -> Any:
        y = self.second(torch.nn.functional.gelu(self.first(x)))
        return y if more is None else y + more


@pytest.fixture
def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


def same(outputs: dict[str, Any], wanted: Any) -> None:
    (found,) = outputs.values()
    np.testing.assert_allclose(found, wanted.detach().numpy(), 1e-5, 1e-5)


def test_an_exported_program_compiles_and_its_weights_stay(net: Any) -> None:
    x = torch.randn(3, 64)
    exported = torch.export.export(net, (x,))
    program = mgx_mlir.compile(exported)
    same(program.run({program.inputs[0].name: x}), net(x))
    weights = loading.load(exported).weights
    address = net.first.weight.data_ptr()
    assert address in {weight.data.ctypes.data for weight in weights.values()}


def test_an_onnx_program_compiles_and_stays_as_it_was(net: Any) -> None:
    x = torch.randn(3, 64)
    exported = torch.onnx.export(net, (x,), dynamo=True, verbose=False)
    inputs, held = list(exported.model.graph.inputs), set(exported.model.graph.initializers)
    same(mgx_mlir.compile(exported).run({"x": x}), net(x))
    assert list(exported.model.graph.inputs) == inputs
    assert set(exported.model.graph.initializers) == held


def test_a_module_compiles_for_examples_of_its_inputs(net: Any) -> None:
    x, more = torch.randn(3, 64), torch.randn(8)
    same(mgx_mlir.compile(net, example_inputs=(x,)).run({"x": x}), net(x))
    same(mgx_mlir.compile(net, example_inputs=x).run({"x": x}), net(x))
    program = mgx_mlir.compile(net, example_inputs={"x": x, "more": more})
    same(program.run({"x": x, "more": more}), net(x, more))


def test_dimensions_that_torch_leaves_open_are_symbols(net: Any) -> None:
    shapes = {"x": {0: torch.export.Dim("batch")}}
    given = (torch.randn(3, 64),)
    artifact = mgx_mlir.compile_to_bytecode(
        net, mode="full-dynamic", example_inputs=given, dynamic_shapes=shapes
    )
    assert [dim.name for dim in artifact.plan.dims] == ["batch"]
    program = mgx_mlir.compile(artifact)
    for batch in (2, 5):
        x = torch.randn(batch, 64)
        same(program.run({"x": x}), net(x))


@pytest.mark.parametrize("saved", [False, True])
def test_sizes_are_within_those_that_torch_exported_for(saved: bool, tmp_path: Path) -> None:
    class Product(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x @ y

    batch, length = torch.export.Dim("batch", min=3, max=64), torch.export.Dim("length", max=128)
    exported = torch.export.export(
        Product(), (torch.randn(5, 8), torch.randn(8, 6)),
        dynamic_shapes=({0: batch}, {1: 2 * length}),
    )  # fmt: skip
    if saved:
        torch.export.save(exported, tmp_path / "product.pt2")
    model = str(tmp_path / "product.pt2") if saved else exported
    program = mgx_mlir.compile(mgx_mlir.compile_to_bytecode(model, mode="full-dynamic"))
    for rows, columns in ((3, 2), (64, 256)):
        x, y = torch.randn(rows, 8), torch.randn(8, columns)
        same(program.run({"x": x, "y": y}), x @ y)
    for rows, columns, said in (
        (2, 6, r"dimension 0 of input 'x' is 2; .* from 3 to 64"),
        (65, 6, r"dimension 0 of input 'x' is 65; .* from 3 to 64"),
        (5, 258, r"dimension 1 of input 'y' is 258; .* to 256"),
    ):
        with pytest.raises(UsageError, match=said):
            program.run({"x": torch.randn(rows, 8), "y": torch.randn(8, columns)})
    with pytest.raises(
        UsageError, match=r"is given 2 \(by input 'x'\), and the model is for {3, 64"
    ):
        mgx_mlir.compile(model, input_dims={"x": (2, 8), "y": (8, 6)})


def test_names_of_dimensions_are_given_with_a_program_that_has_none(net: Any) -> None:
    batch = torch.export.Dim("batch", min=3, max=64)
    exported = torch.export.export(net, (torch.randn(5, 64),), dynamic_shapes=({0: batch},))
    artifact = mgx_mlir.compile_to_bytecode(
        exported, mode="full-dynamic", dynamic_shapes=({0: batch},)
    )
    assert [(dim.name, dim.low, dim.high) for dim in artifact.plan.dims] == [("batch", 3, 64)]


def test_sizes_of_a_file_are_named_by_input_and_axis(tmp_path: Path) -> None:
    class Joined(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return torch.cat([x, y], 1) * 2

    sizes = ({0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("a", min=3)},
             {0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("b")})  # fmt: skip
    exported = torch.export.export(
        Joined(), (torch.randn(5, 4), torch.randn(5, 6)), dynamic_shapes=sizes
    )
    torch.export.save(exported, tmp_path / "joined.pt2")
    artifact = mgx_mlir.compile_to_bytecode(str(tmp_path / "joined.pt2"), mode="full-dynamic")
    named = {(dim.name, dim.low, dim.high) for dim in artifact.plan.dims}
    assert {("x_0", 1, 64)} <= named and {"x_0", "x_1", "y_1"} == {name for name, *_ in named}
    x, y = torch.randn(3, 7), torch.randn(3, 2)
    same(mgx_mlir.compile(artifact).run({"x": x, "y": y}), torch.cat([x, y], 1) * 2)


def test_a_number_of_the_call_is_an_input() -> None:
    class Times(torch.nn.Module):
        def forward(self, x: Any, n: int) -> Any:
            return x * n

    sizes = ({0: torch.export.Dim("batch", max=9)}, torch.export.Dim.DYNAMIC)
    exported = torch.export.export(Times(), (torch.ones(3), 2), dynamic_shapes=sizes)
    program = mgx_mlir.compile(exported, mode="full-dynamic")
    same(program.run({"x": torch.ones(5), "n": np.array(4)}), torch.full((5,), 4.0))


def test_the_exporters_own_trouble_with_constants_is_not_said(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    class Positions(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.arange(128)[None])

        def forward(self, x: Any) -> Any:
            return x + torch.gather(self.table, 1, torch.arange(99, -1, -1)[None])

    x = torch.randn(1, 100)
    same(mgx_mlir.compile(Positions(), example_inputs=(x,)).run({"x": x}), Positions()(x))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "Evaluation failed" not in capfd.readouterr().err


def test_a_module_without_examples_is_refused_with_the_way(net: Any) -> None:
    with pytest.raises(UsageError, match=r"give example_inputs=\(x,\)"):
        mgx_mlir.compile(net)
    with pytest.raises(UsageError, match=r"example_inputs are for a torch.nn.Module"):
        mgx_mlir.compile("model.onnx", example_inputs=(torch.ones(1),))


def test_a_node_that_cannot_be_exported_is_named() -> None:
    class Eigen(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvals(x).real

    with pytest.raises(UnsupportedError, match="linalg_eig"):
        mgx_mlir.compile(Eigen(), example_inputs=(torch.ones(3, 3),))


def test_a_norm_of_training_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"'batch_norm'.*call eval\(\)"):
        mgx_mlir.compile(torch.nn.BatchNorm1d(5), example_inputs=(torch.ones(3, 5),))


def test_a_file_of_torch_compiles_and_quantizes(
    net: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x = torch.randn(3, 64)
    torch.export.save(torch.export.export(net, (x,)), "net.pt2")
    np.save("x.npy", x.numpy())
    for options, most in (([], 1e-5), (["--fp16"], 1e-2), (["--int8"], 0.2)):
        assert main(["compile", "net.pt2", "-o", "net.mgx", "--target", "cpu", *options]) == 0
        assert main(["run", "net.mgx", "--input", "x=x.npy", "--output", "out"]) == 0
        (file,) = Path("out").glob("*.npy")
        np.testing.assert_allclose(np.load(file), net(x).detach().numpy(), 0, most)
        file.unlink()
    assert main(["check", "net.pt2"]) == 0


def test_a_file_that_torch_cannot_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.pt2"
    file.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(ModelError, match=r"broken.pt2: torch .* cannot read it"):
        mgx_mlir.compile(str(file))


@pytest.mark.parametrize("kind", ["buffer", "input"])
def test_a_program_that_writes_is_refused_by_what_it_writes_to(kind: str) -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(2))

        def forward(self, x: Any) -> Any:
            (self.calls if kind == "buffer" else x).add_(1)
            return x + self.calls

    name = {"buffer": "calls", "input": "x"}[kind]
    given = (torch.ones(2),)
    for model, examples in ((torch.export.export(Counter(), given), None), (Counter(), given)):
        with pytest.raises(UnsupportedError, match=f"writes to the {kind} '{name}'"):
            mgx_mlir.compile(model, example_inputs=examples)


@pytest.mark.parametrize("save", ["torch.save", "torch.jit.save"])
def test_other_files_of_torch_are_named_with_the_way(save: str, net: Any, tmp_path: Path) -> None:
    if save == "torch.save":
        torch.save(net.state_dict(), tmp_path / "model.pt")
    else:
        torch.jit.save(torch.jit.trace(net, torch.ones(2, 64)), tmp_path / "model.pt")
    with pytest.raises(ModelError, match=r"torch.jit.save; torch.export.save\(.*model.pt2"):
        mgx_mlir.compile(tmp_path / "model.pt")


def test_a_file_of_another_version_of_torch_is_named_by_its_version(
    net: Any, tmp_path: Path
) -> None:
    torch.export.save(torch.export.export(net, (torch.ones(3, 64),)), tmp_path / "net.pt2")
    with ZipFile(tmp_path / "net.pt2") as old, ZipFile(tmp_path / "new.pt2", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("model.json"):
                said = json.loads(data)
                said["schema_version"]["major"] = 99
                data = json.dumps(said).encode()
            new.writestr(name, data)
    with pytest.raises(ModelError, match=r"new.pt2: torch .* cannot read it: .*99"):
        mgx_mlir.compile(tmp_path / "new.pt2")
