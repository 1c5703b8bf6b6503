"""Calibration: data from several places, their ranges, and data that do not fit."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from onnx import TensorProto

from mgx_mlir import Calibration, Precision, quantize
from mgx_mlir.errors import UsageError
from mgx_mlir.quantization import ranges as range_files
from mgx_mlir.quantization.histogram import METHODS, Observer
from mgx_mlir.tools.mgx import main
from mgx_mlir.tools.quantizing import METHODS as METHOD_NAMES

from ..onnx_models import Builder


def linear():
    b = Builder(0)
    y = b.op("MatMul", "x", b.weight("w", 8, 4))
    return b.model({"x": (TensorProto.FLOAT, ["n", 8])}, {"y": (y, ["n", 4])}, "net")


def ranges_of(samples, **options):
    return quantize(linear(), Precision("int8"), Calibration(samples, **options)).ranges


ROWS = np.linspace(-2, 3, 5 * 8, dtype=np.float32).reshape(5, 8)


def written(tmp_path, form):
    """The same five samples in a form of files."""
    if form == "npz":
        np.savez(tmp_path / "all.npz", x=ROWS, labels=np.arange(5))
        return tmp_path / "all.npz"
    if form == "function":
        (tmp_path / "rows.py").write_text("import numpy as np\nROWS = np.linspace(-2, 3, 40)\n")
        (tmp_path / "data.py").write_text(
            "from rows import ROWS\n\ndef samples():\n"
            "    for row in ROWS.reshape(5, 1, 8):\n        yield {'x': row.astype('float32')}\n"
        )
        return f"{tmp_path}/data.py:samples"
    for number, row in enumerate(ROWS):
        file = tmp_path / f"{number}.{form.removeprefix('folder of ')}"
        np.save(file, row[None]) if file.suffix == ".npy" else np.savez(file, x=row[None])
    return tmp_path


@pytest.mark.parametrize("form", ["npz", "function", "folder of npy", "folder of npz"])
def test_samples_of_every_form_give_the_same_ranges(tmp_path, form):
    found = ranges_of(written(tmp_path, form), method="minmax")
    assert found.ranges == {"x": (-2, 3)}
    assert found.samples == 5
    np.testing.assert_allclose(found.means["x"], ROWS.mean(0), atol=1e-6)
    assert ranges_of(written(tmp_path, form), method="minmax", count=2).ranges["x"][0] == -2


def test_the_command_line_names_all_methods():
    assert sorted(METHODS) == list(METHOD_NAMES)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda p: p, "holds no .npz or .npy"),
        (lambda p: p / "none.npz", "there is no calibration data"),
        (lambda p: [], "holds no sample"),
        (lambda p: [{"z": ROWS}], "has no input 'x'; it holds z"),
        (lambda p: [{}], "has no input 'x'; it is empty, and the model's inputs are x"),
        (lambda p: [ROWS], "has to be a dict"),
        (lambda p: [{"x": ROWS[:, :3]}], r"shape \[5, 3\]; the model takes \['\?', 8\]"),
        (lambda p: [{"x": ROWS[None]}], "only an .npz file that is named itself holds many"),
        (lambda p: [{"x": ROWS * np.nan}], "NaN or Inf"),
        (lambda p: [{"x": np.array([["a"] * 8])}], "the model takes float32"),
        (lambda p: f"{p}/no.py:samples", "there is no file"),
        (lambda p: _file(p, "a.py", "1 / 0") + ":f", "ZeroDivisionError"),
        (lambda p: _file(p, "a.py", "x = 1") + ":f", "no function 'f'"),
        (lambda p: _file(p, "a.py", "def f():\n  raise KeyError(3)") + ":f", "failed: KeyError"),
        (lambda p: _file(p, "a.py", "") + "", "name the function"),
        (lambda p: _file(p, "a.npz", "text"), "is no .npy file, nor an .npz file"),
        (lambda p: _file(p, "a.npz", "PK\3\4"), "is no .npy file, nor an .npz file"),
        (lambda p: _objects(p / "a.npz"), "holds Python objects, which can hold code"),
        (lambda p: _objects(p / "b.npz").parent, "holds Python objects, which can hold code"),
    ],
)
def test_data_that_do_not_fit_are_refused(tmp_path, make, message):
    with pytest.raises(UsageError, match=message) as caught:
        ranges_of(make(tmp_path))
    assert "allow_pickle" not in str(caught.value)


def _objects(file):
    np.savez(file, x=np.array([{"a": 1}], dtype=object))
    return file


def _file(folder, name, text):
    (folder / name).write_text(text)
    return str(folder / name)


def test_arrays_of_different_numbers_of_samples_are_refused(tmp_path):
    b = Builder(0)
    ends = {name: (TensorProto.FLOAT, [1, 8]) for name in "ab"}
    y = b.op("MatMul", b.op("Add", "a", "b"), b.weight("w", 8, 4))
    model = b.model(ends, {"y": (y, [1, 4])}, "net")
    np.savez(tmp_path / "all.npz", a=ROWS, b=ROWS[:3])
    with pytest.raises(UsageError, match="different numbers of samples"):
        quantize(model, Precision("int8"), Calibration(tmp_path / "all.npz"))


def test_integers_become_the_floats_that_the_model_takes():
    found = ranges_of([{"x": np.arange(16, dtype=np.uint8).reshape(2, 8)}], method="minmax")
    assert found.ranges["x"] == (0, 15)


@pytest.mark.parametrize(
    "samples, said",
    [
        ([{"x": ROWS}], "calibrated with one sample"),
        ([{"x": np.full((1, 8), 2, np.float32)}] * 2, "constant in all samples: x"),
        (None, "no calibration data"),
    ],
)
def test_poor_data_are_told_and_used(samples, said, caplog):
    made = quantize(linear(), Precision("int8"), Calibration(samples))
    assert said in caplog.text
    assert made.choices[0].precision == "int8"


def test_a_tensor_with_infinities_stays_in_f32(caplog):
    b = Builder(0)
    y = b.op("MatMul", b.op("Log", "x"), b.weight("w", 8, 4))
    model = b.model({"x": (TensorProto.FLOAT, [5, 8])}, {"y": (y, [5, 4])}, "net")
    made = quantize(model, Precision("int8"), Calibration([{"x": np.maximum(ROWS, 0)}]))
    assert "NaN or Inf" in caplog.text
    assert [(c.precision, c.reason) for c in made.choices] == [("f32", "no range")]


def observed(arrays):
    observer = Observer()
    for array in arrays:
        observer.add(np.asarray(array, np.float32))
    return observer


def test_methods_choose_their_ranges():
    rng = np.random.default_rng(0)
    normal = rng.normal(0, 1, 200_000)
    arrays = [np.append(part, (-20, 20)) for part in np.split(normal, 4)]
    found = {name: method(observed(arrays)) for name, method in METHODS.items()}
    assert found["minmax"] == (-20, 20)
    assert found["moving-average"] == pytest.approx((-20, 20))
    assert 3 < found["percentile"][1] < 5
    assert 12 < found["mse"][1] < 18
    assert 3 < found["entropy"][1] < 12
    relu = {name: method(observed([np.maximum(normal, 0)])) for name, method in METHODS.items()}
    assert {low for low, _ in relu.values()} == {0}


def test_few_elements_between_two_groups_are_no_range_of_entropy():
    groups = np.concatenate(
        [np.linspace(-1.7, -1.2, 120), [-0.05, 0.1, 0.2], np.linspace(3, 5, 280)]
    )
    low, high = METHODS["entropy"](observed([groups]))
    assert low < -1.2 and high > 4


def test_the_least_square_error_is_at_most_that_of_any_method():
    rng = np.random.default_rng(0)
    data = rng.standard_t(3, 50_000).astype(np.float32)
    errors = {}
    for name, method in METHODS.items():
        low, high = method(observed(np.split(data, 5)))
        scale = (high - low) / 255
        near = np.round(np.clip(data, low, high) / scale) * scale
        errors[name] = np.square(near - data).mean()
    assert errors["mse"] <= 1.01 * min(errors.values())


def test_a_histogram_keeps_its_size_while_the_range_grows():
    observer = observed([[1e-3, -2e-3], [5, 0], np.full(10, 1e6)])
    centres, counts = observer.bins()
    assert counts.sum() == 14
    assert (observer.low, observer.high) == (np.float32(-2e-3), 1e6)
    assert centres.max() == pytest.approx(1e6, rel=1e-2)


def test_ranges_are_saved_and_read_back(tmp_path):
    file = tmp_path / "r.json"
    found = ranges_of([{"x": ROWS}] * 2)
    found.save(file)
    again = range_files.load(file)
    assert again.ranges == found.ranges and again.method == "mse" and again.samples == 2
    first, second = (
        quantize(linear(), Precision("int8"), Calibration(**one)).proto().SerializeToString()
        for one in ({"samples": [{"x": ROWS}] * 2}, {"ranges": file})
    )
    assert first == second


def test_tables_of_tensorrt_and_onnxruntime_are_read(tmp_path):
    bits = struct.pack(">f", 3 / 127).hex()
    texts = {
        "trt.cache": f"TRT-8601-EntropyCalibration2\nx: {bits}\n",
        "calibration.cache": "x 3.0\n",
        "calibration.json": json.dumps(
            {"x": {"CLS": "TensorData", "lowest": {"CLS": "numpy.array", "data": [-3.0]},
                   "highest": {"CLS": "numpy.array", "data": [3.0]}}}
        ),
    }  # fmt: skip
    for name, text in texts.items():
        file = tmp_path / name
        file.write_text(text)
        made = quantize(linear(), Precision("int8"), Calibration(ranges=file))
        assert made.ranges.ranges["x"] == pytest.approx((-3, 3), rel=1e-6)
        assert made.choices[0].precision == "int8"


@pytest.mark.parametrize(
    "text, message",
    [
        ("{}", "holds no ranges"),
        ("{", "holds no ranges"),
        ('{"format": "other"}', "format is 'other'"),
        ('{"x": {"lowest": 1, "highest": -1}}', "which is none"),
        ('{"x": {"lowest": 0, "highest": NaN}}', "which is none"),
        ("words without numbers", "neither JSON"),
        ('{"y": {"lowest": 0, "highest": 1}}', "none of the model's tensors, such as 'x'"),
    ],
)
def test_files_that_hold_no_ranges_are_refused(tmp_path, text, message):
    (tmp_path / "r").write_text(text)
    with pytest.raises(UsageError, match=message):
        quantize(linear(), Precision("int8"), Calibration(ranges=tmp_path / "r"))


def test_ctrl_c_keeps_the_ranges_so_far(tmp_path):
    def samples():
        yield {"x": ROWS}
        yield {"x": 2 * ROWS}
        raise KeyboardInterrupt

    class Interrupted:
        def __iter__(self):
            return samples()

    with pytest.raises(KeyboardInterrupt):
        ranges_of(Interrupted(), method="minmax", partial=tmp_path / "r.json")
    found = range_files.load(tmp_path / "r.json")
    assert found.ranges["x"] == (-4, 6)
    assert found.samples == 2


def test_the_verb_writes_onnx_and_artifacts(tmp_path, capsys):
    import onnx

    onnx.save(linear(), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=ROWS)
    model, out = str(tmp_path / "m.onnx"), str(tmp_path / "q.onnx")
    data = ["--calibrate", str(tmp_path / "d.npz"), "--save-ranges", str(tmp_path / "r.json")]
    assert main(["quantize", model, "-o", out, "--int8", *data]) == 0
    assert "products: 1 int8" in capsys.readouterr().out
    assert main(["verify", out, "--batch", "2"]) == 0
    ranges = ["--int8", "--ranges", str(tmp_path / "r.json")]
    artifact = str(tmp_path / "q.mgx")
    assert main(["quantize", model, "-o", artifact, *ranges, "--fp16", "--batch", "2"]) == 0
    assert main(["run", artifact]) == 0
    assert main(["run", model, "--batch", "2", *ranges]) == 0
    assert main(["verify", model, "--batch", "2", "--per-instruction", *ranges]) == 0


@pytest.mark.parametrize(
    "words, message",
    [
        (["-o", "{p}/q.onnx"], "give --int8"),
        (["-o", "{p}/q.txt", "--int8"], "ends with .onnx or .mgx"),
        (["-o", "{p}/m.onnx", "--int8"], "m.onnx, which is read"),
        (["-o", "{p}/q.onnx", "--samples", "3"], "--samples is for --int8"),
        (["-o", "{p}/q.onnx", "--int8", "--fp16"], "chosen when a model is compiled"),
        (["-o", "{p}/q.onnx", "--int8", "--samples", "0"], "at least one"),
    ],
)
def test_the_verb_refuses_wrong_usage(tmp_path, capsys, words, message):
    import onnx

    onnx.save(linear(), tmp_path / "m.onnx")
    words = [word.format(p=tmp_path) for word in words]
    assert main(["quantize", str(tmp_path / "m.onnx"), *words]) == 2
    assert message in capsys.readouterr().err
    assert {file.name for file in tmp_path.iterdir()} == {"m.onnx"}
