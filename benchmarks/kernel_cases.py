"""The problems of `benchmarks.kernels`: each as an ONNX model, and as Triton's kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
F16 = TensorProto.FLOAT16


@dataclass(frozen=True)
class TritonCall:
    """How Triton's kernel `function` is compiled and launched.

    `arguments`: '*' for a pointer to f16, or a number, by name in order. options: those of its
    AMD backend beside the number of waves.
    """

    function: str
    grid: tuple[int, ...]
    arguments: dict[str, str | int | float]
    constants: dict[str, int]
    warps: int
    options: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A problem: `flop` where matrix cores bound it, else `bytes` that have to move.

    makers: those that are compared. element: what the matrix cores multiply. values: what is
    executed depends on the inputs, which are random f16 then.
    """

    name: str
    chip: str
    model: Callable[[], onnx.ModelProto]
    flop: int = 0
    bytes: int = 0
    triton: tuple[TritonCall, ...] = field(default=())
    makers: tuple[str, ...] = ("mgx", "triton", "iree")
    element: str = "f16"
    values: bool = False


def model_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Sequence[int]],
    result: Sequence[int],
    constants: dict[str, float] | None = None,
) -> onnx.ModelProto:
    """A model of f16 inputs whose result is 'y'; `constants` are f16 scalars."""
    graph = helper.make_graph(
        list(nodes),
        "benchmark",
        [helper.make_tensor_value_info(n, F16, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", F16, result)],
        [numpy_helper.from_array(np.float16(v), n) for n, v in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


def gemm(size: int, layout: str, chip: str) -> Case:
    """A product of two square matrices; in 'nt' the second is stored transposed."""

    def model() -> onnx.ModelProto:
        second = "b"
        nodes = []
        if layout == "nt":
            second = "t"
            nodes.append(helper.make_node("Transpose", ["b"], ["t"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["a", second], ["y"]))
        shape = (size, size)
        return model_of(nodes, {"a": shape, "b": shape}, shape)

    strides = {"STRIDE_BK": size, "STRIDE_BN": 1}
    if layout == "nt":
        strides = {"STRIDE_BK": 1, "STRIDE_BN": size}
    calls = tuple(
        TritonCall(
            "matmul",
            (size // m, size // n),
            {"a": "*", "b": "*", "c": "*", "n": size, "k": size},
            {**strides, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k},
            warps,
            options,
        )
        for m, n, k, warps, options in _triton_tiles(size, chip)
    )
    return Case(f"gemm {size} {layout}", chip, model, flop=2 * size**3, triton=calls)


def _triton_tiles(size: int, chip: str) -> list[tuple[int, int, int, int, dict[str, int]]]:
    """Tiles, waves and options of Triton's products: those of its tutorial, and more waves."""
    if not chip.startswith("gfx9"):
        tiles = [
            (256, 128, 32, 8), (128, 256, 32, 8), (128, 128, 64, 8), (128, 128, 32, 8),
            (128, 128, 32, 4), (128, 64, 32, 4),
        ]  # fmt: skip
        return [(*tile, {"num_stages": stages}) for tile in tiles for stages in (1, 2)]
    tiles = [
        (256, 256, 64, 8), (256, 256, 32, 8), (256, 128, 64, 8), (128, 256, 64, 8),
        (128, 128, 64, 8), (128, 128, 64, 4), (128, 128, 32, 4),
    ]  # fmt: skip
    if size < 2048:
        tiles = [
            (128, 128, 64, 8), (128, 64, 64, 8), (128, 64, 64, 4), (64, 128, 64, 4),
            (64, 64, 128, 4), (64, 64, 64, 4), (64, 64, 64, 8), (32, 64, 64, 4), (64, 32, 64, 4),
            (32, 32, 64, 4), (32, 32, 128, 4),
        ]  # fmt: skip
    return [(*tile, {"matrix_instr_nonkdim": rows}) for tile in tiles for rows in (16, 32)]


def few_rows(rows: int, layout: str, chip: str, size: int = 4096) -> Case:
    """A product with few rows and a matrix of weights of f16, [n, k] in 'nt', else [k, n]."""

    def model() -> onnx.ModelProto:
        nodes, second = [], "b"
        if layout == "nt":
            second = "t"
            nodes.append(helper.make_node("Transpose", ["b"], ["t"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["a", second], ["y"]))
        return model_of(nodes, {"a": (rows, size), "b": (size, size)}, (rows, size))

    return Case(f"{rows} rows {layout}", chip, model, bytes=2 * size**2, makers=("mgx", "iree"))


def few_bits(rows: int, chip: str, size: int = 4096) -> Case:
    """The same with weights of 4 bits in blocks of 32 along k (MatMulNBits)."""

    def model() -> onnx.ModelProto:
        rng = np.random.default_rng(0)
        blocks = size // BLOCK
        arrays = {
            "w": rng.integers(0, 256, (size, blocks, BLOCK // 2), np.uint8),
            "s": rng.uniform(0.01, 0.1, (size, blocks)).astype(np.float16),
        }
        node = helper.make_node(
            "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=size, N=size,
            bits=4, block_size=BLOCK,
        )  # fmt: skip
        made = model_of([node], {"x": (rows, size)}, (rows, size))
        made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in arrays.items())
        made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        return made

    size_bytes = size**2 // 2 + 2 * size * size // BLOCK
    return Case(f"{rows} rows of 4 bits", chip, model, bytes=size_bytes, makers=("mgx",))


# Elements of products: their ONNX type, and the operator where it is not MatMul.
_TYPES = {
    "bf16": TensorProto.BFLOAT16,
    "f16": TensorProto.FLOAT16,
    "f32": TensorProto.FLOAT,
    "f64": TensorProto.DOUBLE,
    "i8": TensorProto.INT8,
    "fp4": TensorProto.FLOAT4E2M1,
    "fp8": TensorProto.FLOAT8E4M3FN,
    "fp8-fnuz": TensorProto.FLOAT8E4M3FNUZ,
}
BLOCK = 32  # elements that share a scale, in products of blocks


def typed_gemm(size: int, element: str, chip: str, scaled: bool = False) -> Case:
    """A product in 'nt' of other elements than f16; `scaled`: blocks have scales (OCP MX)."""

    def model() -> onnx.ModelProto:
        kind, shape = _TYPES[element], (size, size)
        inputs = [helper.make_tensor_value_info(n, kind, shape) for n in "ab"]
        nodes, names, result = [], list("ab"), kind
        constants = [numpy_helper.from_array(np.float32(0.5), "scale")]
        if element in ("fp4", "fp8", "fp8-fnuz"):
            result = TensorProto.FLOAT
            for n in "ab":
                scale, more = "scale", {}
                if scaled:
                    scale, more = f"{n}s", {"axis": 1, "block_size": BLOCK}
                    more["output_dtype"] = TensorProto.FLOAT
                    blocks = (size, size // BLOCK)
                    powers = helper.make_tensor_value_info(scale, TensorProto.FLOAT8E8M0, blocks)
                    inputs.append(powers)
                node = helper.make_node("DequantizeLinear", [n, scale], [f"{n}d"], **more)
                nodes.append(node)
            names = ["ad", "bd"]
        nodes.append(helper.make_node("Transpose", [names[1]], ["t"], perm=[1, 0]))
        operator = "MatMul"
        if element == "i8":
            operator, result = "MatMulInteger", TensorProto.INT32
        nodes.append(helper.make_node(operator, [names[0], "t"], ["y"]))
        results = [helper.make_tensor_value_info("y", result, shape)]
        graph = helper.make_graph(nodes, "benchmark", inputs, results, constants)
        opsets = [helper.make_opsetid("", 25)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=12)

    blocks = " mx" if scaled else ""
    name = f"gemm {size} {element.removesuffix('-fnuz')}{blocks}"
    return Case(name, chip, model, flop=2 * size**3, makers=("mgx",), element=element)


def softmax(rows: int, columns: int, chip: str) -> Case:
    def model() -> onnx.ModelProto:
        node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
        return model_of([node], {"x": (rows, columns)}, (rows, columns))

    arguments = {"x": "*", "y": "*", "columns": columns}
    calls = tuple(
        TritonCall("softmax", (rows,), arguments, {"BLOCK": columns}, warps) for warps in (1, 2, 4)
    )
    return Case(f"softmax {columns}", chip, model, bytes=4 * rows * columns, triton=calls)


def layernorm(rows: int, columns: int, chip: str) -> Case:
    def model() -> onnx.ModelProto:
        node = helper.make_node("LayerNormalization", ["x", "w", "b"], ["y"], axis=-1)
        inputs = {"x": (rows, columns), "w": (columns,), "b": (columns,)}
        return model_of([node], inputs, (rows, columns))

    arguments = {"x": "*", "weight": "*", "bias": "*", "y": "*", "columns": columns}
    calls = tuple(
        TritonCall("layernorm", (rows,), arguments, {"BLOCK": columns}, warps)
        for warps in (1, 2, 4)
    )
    return Case(f"layernorm {columns}", chip, model, bytes=4 * rows * columns, triton=calls)


def add_gelu(size: int, chip: str) -> Case:
    def model() -> onnx.ModelProto:
        make = helper.make_node
        nodes = [
            make("Add", ["a", "b"], ["s"]),
            make("Div", ["s", "root"], ["d"]),
            make("Erf", ["d"], ["e"]),
            make("Add", ["e", "one"], ["f"]),
            make("Mul", ["s", "f"], ["g"]),
            make("Mul", ["g", "half"], ["y"]),
        ]
        constants = {"root": math.sqrt(2), "one": 1.0, "half": 0.5}
        return model_of(nodes, {"a": (size,), "b": (size,)}, (size,), constants)

    calls = tuple(
        TritonCall(
            "add_gelu", (size // block,), {"a": "*", "b": "*", "y": "*"}, {"BLOCK": block}, 4
        )
        for block in (1024, 2048, 4096)
    )
    return Case("add + gelu", chip, model, bytes=6 * size, triton=calls)


def transpose(size: int, chip: str) -> Case:
    def model() -> onnx.ModelProto:
        node = helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])
        return model_of([node], {"x": (size, size)}, (size, size))

    return Case(f"transpose {size}", chip, model, bytes=4 * size**2)


def convolution(batch: int, chip: str) -> Case:
    """A convolution as it stands inside of a model: with channels last before and after it,
    which all compilers are given, and constant filters, which they may lay out as they like."""

    def model() -> onnx.ModelProto:
        nodes = [
            helper.make_node("Transpose", ["x"], ["images"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", ["images", "w"], ["z"], kernel_shape=[3, 3], pads=[1] * 4),
            helper.make_node("Transpose", ["z"], ["y"], perm=[0, 2, 3, 1]),
        ]
        shape = (batch, 56, 56, 64)
        return _with_filters(model_of(nodes, {"x": shape}, shape), (64, 64, 3, 3))

    flop = 2 * batch * 56 * 56 * 64 * 64 * 9
    return Case(f"conv 3x3 64 of {batch}", chip, model, flop=flop)


def first_convolution(batch: int, chip: str, side: int = 7, filters: int = 64) -> Case:
    """A model's first layer: colours come one after another, channels leave as neighbours."""

    def model() -> onnx.ModelProto:
        window = {"kernel_shape": [side] * 2, "strides": [2, 2], "pads": [side // 2] * 4}
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["z"], **window),
            helper.make_node("Transpose", ["z"], ["y"], perm=[0, 2, 3, 1]),
        ]
        made = model_of(nodes, {"x": (batch, 3, 224, 224)}, (batch, 112, 112, filters))
        return _with_filters(made, (filters, 3, side, side))

    flop = 2 * batch * 112 * 112 * filters * 3 * side**2
    return Case(f"conv {side}x{side} 3 of {batch}", chip, model, flop=flop)


def patches(batch: int, chip: str) -> Case:
    """The embedding of a vision transformer's patches of 16 by 16 pixels."""

    def model() -> onnx.ModelProto:
        side = [16, 16]
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["z"], kernel_shape=side, strides=side),
            helper.make_node("Transpose", ["z"], ["y"], perm=[0, 2, 3, 1]),
        ]
        made = model_of(nodes, {"x": (batch, 3, 224, 224)}, (batch, 14, 14, 768))
        return _with_filters(made, (768, 3, 16, 16))

    return Case(f"patches of {batch}", chip, model, flop=2 * batch * 196 * 768 * 768)


def _with_filters(model: onnx.ModelProto, shape: Sequence[int]) -> onnx.ModelProto:
    """The model with the constant 'w'."""
    filters = np.random.default_rng(0).standard_normal(shape).astype(np.float16)
    model.graph.initializer.append(numpy_helper.from_array(filters, "w"))
    return model


def attention(heads: int, length: int, width: int, chip: str) -> Case:
    def model() -> onnx.ModelProto:
        make = helper.make_node
        nodes = [
            make("Transpose", ["k"], ["t"], perm=[0, 1, 3, 2]),
            make("MatMul", ["q", "t"], ["s"]),
            make("Mul", ["s", "scale"], ["m"]),
            make("Softmax", ["m"], ["p"], axis=-1),
            make("MatMul", ["p", "v"], ["y"]),
        ]
        shape = (1, heads, length, width)
        return model_of(nodes, dict.fromkeys("qkv", shape), shape, {"scale": width**-0.5})

    arguments = {**dict.fromkeys(("q", "k", "v", "y"), "*"), "length": length, "scale": 0.125}
    calls = tuple(
        TritonCall(
            "attention",
            (length // m, heads),
            arguments,
            {"WIDTH": width, "BLOCK_M": m, "BLOCK_N": n},
            warps,
        )
        for m, n, warps in ((128, 64, 4), (128, 32, 4), (64, 64, 4))
    )
    flop = 4 * heads * length * length * width
    return Case(f"attention {length}x{width}", chip, model, flop=flop, triton=calls, values=True)


def cases() -> list[Case]:
    """All problems, in the table's order."""
    return [
        gemm(4096, "nn", "gfx942"),
        gemm(4096, "nt", "gfx942"),
        gemm(1024, "nn", "gfx942"),
        gemm(1024, "nt", "gfx942"),
        gemm(4096, "nn", "gfx1100"),
        gemm(4096, "nt", "gfx1100"),
        gemm(4096, "nn", "gfx1201"),
        gemm(4096, "nt", "gfx1201"),
        gemm(4096, "nn", "gfx950"),
        gemm(4096, "nt", "gfx950"),
        typed_gemm(4096, "fp8-fnuz", "gfx942"),
        typed_gemm(4096, "fp8", "gfx950"),
        typed_gemm(4096, "fp8", "gfx950", scaled=True),
        typed_gemm(4096, "fp4", "gfx950", scaled=True),
        typed_gemm(4096, "fp8", "gfx1201"),
        *(few_rows(rows, layout, "gfx942") for rows in (1, 4, 8, 16) for layout in ("nn", "nt")),
        *(few_bits(rows, "gfx942") for rows in (1, 4, 8, 16)),
        convolution(32, "gfx942"),
        convolution(1, "gfx942"),
        first_convolution(32, "gfx942"),
        first_convolution(1, "gfx942"),
        first_convolution(32, "gfx942", 3, 32),
        patches(32, "gfx942"),
        attention(16, 1024, 64, "gfx942"),
        attention(16, 1024, 128, "gfx942"),
        softmax(16384, 1024, "gfx942"),
        layernorm(16384, 1024, "gfx942"),
        add_gelu(1 << 24, "gfx942"),
        transpose(4096, "gfx942"),
        softmax(16384, 1024, "gfx1100"),
        layernorm(16384, 1024, "gfx1100"),
        add_gelu(1 << 24, "gfx1100"),
    ] + [
        typed_gemm(1024, element, chip)
        for chip in ("gfx90a", "gfx942", "gfx1100", "gfx1201")
        for element in ("bf16", "i8", "f32", "f64")
        if element in ("bf16", "i8") or chip.startswith("gfx9")
    ]
