"""Models as onnxruntime's tools leave them: optimised, fused, quantized, in half precision."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx
import onnxconverter_common
import onnxruntime
from onnxruntime import quantization
from onnxruntime.transformers import float16, optimizer
from onnxruntime.transformers.fusion_options import FusionOptions

from test import onnx_models
from test.exported.registry import Made, named

_NAMES = sorted(onnx_models.MODELS)
_LEVELS = onnxruntime.GraphOptimizationLevel


def _fed(name: str, change) -> Made:
    source = onnx_models.small(name)
    fed = [onnx_models.random_inputs(source, seed) for seed in (0, 1)]
    return change(source, fed[0]), fed


def _files(change):
    """A change of one file into another."""

    def call(source, inputs):
        with tempfile.TemporaryDirectory() as folder:
            old, new = Path(folder) / "old.onnx", Path(folder) / "new.onnx"
            onnx.save(source, old)
            change(old, new, inputs)
            return onnx.load(new)

    return call


def _session(level):
    def change(old: Path, new: Path, _) -> None:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(new)
        onnxruntime.InferenceSession(old, options, providers=["CPUExecutionProvider"])

    return _files(change)


class _Reader(quantization.CalibrationDataReader):
    def __init__(self, inputs) -> None:
        self.rest = [inputs]

    def get_next(self):
        return self.rest.pop() if self.rest else None


def _static(form, activation, weight, **options):
    def change(old: Path, new: Path, inputs) -> None:
        quantization.quantize_static(
            old,
            new,
            _Reader(inputs),
            form,
            activation_type=activation,
            weight_type=weight,
            **options,
        )

    return _files(change)


def _dynamic(old: Path, new: Path, _) -> None:
    quantization.quantize_dynamic(old, new, weight_type=quantization.QuantType.QInt8)


_FORMS, _TYPES = quantization.QuantFormat, quantization.QuantType
_CHANGES = {
    "basic": _session(_LEVELS.ORT_ENABLE_BASIC),
    "extended": _session(_LEVELS.ORT_ENABLE_EXTENDED),
    "half_of_converter": lambda m, _: onnxconverter_common.convert_float_to_float16(
        m, keep_io_types=True, op_block_list=["Cast", "Range"]
    ),
    "half_of_onnxruntime": lambda m, _: float16.convert_float_to_float16(m, keep_io_types=True),
    "dynamic": _files(_dynamic),
    "static_operators": _static(_FORMS.QOperator, _TYPES.QUInt8, _TYPES.QInt8, reduce_range=True),
    "static_qdq": _static(_FORMS.QDQ, _TYPES.QUInt8, _TYPES.QInt8, reduce_range=True),
    "static_qdq_by_channel": _static(
        _FORMS.QDQ, _TYPES.QInt8, _TYPES.QInt8, per_channel=True, reduce_range=True
    ),
}
for _name in _NAMES:
    for _kind, _change in _CHANGES.items():
        named(f"{_name}_{_kind}", lambda n=_name, c=_change: _fed(n, c))


def _fused(kind: str, half: bool):
    def change(source, _):
        options = FusionOptions(kind)
        made = optimizer.optimize_model(
            source, kind, num_heads=0, hidden_size=0, optimization_options=options, opt_level=0
        )
        if half:
            made.convert_float_to_float16(keep_io_types=True)
        return made.model

    return change


for _name in ("bert", "gpt2", "vit"):
    for _half in (False, True):
        _title = f"{_name}_fused{'_in_halves' if _half else ''}"
        named(_title, lambda n=_name, h=_half: _fed(n, _fused(n, h)))
