"""Models after onnxsim, onnxslim, and what onnx itself infers and converts."""

from __future__ import annotations

import onnx
import onnxsim
import onnxslim

from test import onnx_models
from test.exported.registry import Made, named

_NAMES = sorted(onnx_models.MODELS)


def _made(name: str, change) -> Made:
    source = onnx_models.small(name)
    return change(source), onnx_models.random_inputs(source)


def _simplified(source: onnx.ModelProto) -> onnx.ModelProto:
    made, valid = onnxsim.simplify(source)
    assert valid
    return made


_CHANGES = {
    "onnxsim": _simplified,
    "onnxslim": onnxslim.slim,
    "inferred": lambda m: onnx.shape_inference.infer_shapes(m, data_prop=True),
    "opset_22": lambda m: onnx.version_converter.convert_version(m, 22),
}
for _name in _NAMES:
    for _kind, _change in _CHANGES.items():
        named(f"{_name}_{_kind}", lambda n=_name, c=_change: _made(n, c))
