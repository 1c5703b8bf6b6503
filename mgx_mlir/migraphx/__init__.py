"""MIGraphX's Python interface on this compiler.

    from mgx_mlir import migraphx

    p = migraphx.parse_onnx("model.onnx")
    p.compile(migraphx.get_target("gpu"))
    (y,) = p.run({"x": array})

`python -m mgx_mlir.migraphx script.py` runs a script that says `import migraphx` unchanged.
Programs are views of one MLIR module of mgx ops. docs/migraphx.md lists the differences.
"""

from mgx_mlir.migraphx.argument import (
    allocate_gpu,
    argument,
    argument_from_pointer,
    create_argument,
    fill_argument,
    from_gpu,
    generate_argument,
    gpu_sync,
    to_gpu,
)
from mgx_mlir.migraphx.files import load, load_buffer, save, save_buffer
from mgx_mlir.migraphx.instruction import instruction_ref
from mgx_mlir.migraphx.macros import macro
from mgx_mlir.migraphx.modes import compile_modes
from mgx_mlir.migraphx.module import module
from mgx_mlir.migraphx.operators import op
from mgx_mlir.migraphx.parsing import get_onnx_operators, parse_onnx, parse_onnx_buffer, parse_tf
from mgx_mlir.migraphx.program import (
    autocast_fp8,
    get_target,
    program,
    quantize_bf16,
    quantize_fp8,
    quantize_fp16,
    quantize_int8,
    target,
)
from mgx_mlir.migraphx.shape import dynamic_dimension, shape
from mgx_mlir.version import __version__

__all__ = [
    "__version__",
    "allocate_gpu",
    "argument",
    "argument_from_pointer",
    "autocast_fp8",
    "compile_modes",
    "create_argument",
    "dynamic_dimension",
    "fill_argument",
    "from_gpu",
    "generate_argument",
    "get_onnx_operators",
    "get_target",
    "gpu_sync",
    "instruction_ref",
    "load",
    "load_buffer",
    "macro",
    "module",
    "op",
    "parse_onnx",
    "parse_onnx_buffer",
    "parse_tf",
    "program",
    "quantize_bf16",
    "quantize_fp8",
    "quantize_fp16",
    "quantize_int8",
    "save",
    "save_buffer",
    "shape",
    "target",
    "to_gpu",
]
