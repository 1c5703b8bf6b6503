"""The reference against onnxruntime (or onnx's evaluator), for ops that ONNX has too."""

import numpy as np

from test.reference.twins import Twin, check_twins, integers

F32 = np.float32
RNG = np.random.default_rng(7)


def unit(*shape: int) -> np.ndarray:
    return RNG.uniform(-0.95, 0.95, shape).astype(F32)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.05, 4, shape).astype(F32)


SAME = {
    "abs": "Abs",
    "atan": "Atan",
    "ceil": "Ceil",
    "cos": "Cos",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "nearbyint": "Round",
    "neg": "Neg",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "tanh": "Tanh",
    "recip": "Reciprocal",
    "tan": "Tan",
}
DOMAIN = {
    "acos": ("Acos", unit),
    "asin": ("Asin", unit),
    "atanh": ("Atanh", unit),
    "log": ("Log", positive),
    "sqrt": ("Sqrt", positive),
    "sinh": ("Sinh", unit),
    "cosh": ("Cosh", unit),
    "asinh": ("Asinh", unit),
}
BINARY = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "max": "Max",
    "min": "Min",
    "prelu": "PRelu",
}


def test_pointwise_ops_are_those_of_onnx() -> None:
    t = "tensor<3x5xf32>"
    check_twins(
        [
            *(Twin(m, f"{m} %0 : {t}", o, [(3, 5)]) for m, o in SAME.items()),
            *(Twin(m, f"{m} %0 : {t}", o, [make(3, 5)]) for m, (o, make) in DOMAIN.items()),
            *(Twin(m, f"{m} %0, %1", o, [(3, 5), (3, 5)]) for m, o in BINARY.items()),
            Twin("acosh", f"acosh %0 : {t}", "Acosh", [positive(3, 5) + 1]),
            Twin("pow", "pow %0, %1", "Pow", [positive(3, 5), (3, 5)]),
            Twin("elu", f"elu %0 {{alpha = 0.5 : f32}} : {t}", "Elu", [(3, 5)], {"alpha": 0.5}),
            Twin(
                "leaky",
                f"leaky_relu %0 {{alpha = 0.2 : f32}} : {t}",
                "LeakyRelu",
                [(3, 5)],
                {"alpha": 0.2},
            ),
            Twin("isnan", "isnan %0", "IsNaN", [np.array([1, np.nan, np.inf], F32)]),
            Twin(
                "isinf",
                "isinf %0 {detect_negative = false}",
                "IsInf",
                [np.array([1, np.nan, np.inf, -np.inf], F32)],
                {"detect_negative": 0},
            ),
            Twin("where", "where %0, %1, %2", "Where", [unit(4, 3) > 0, (4, 3), (4, 3)]),
            *(
                Twin(m, f"{m} %0, %1", o, [integers(0, 3, 9), integers(0, 3, 9)])
                for m, o in (("equal", "Equal"), ("greater", "Greater"), ("less", "Less"))
            ),
            Twin("div_int", "div %0, %1", "Div", [integers(-9, 9, 20), integers(1, 5, 20)]),
            Twin("mod_int", "mod %0, %1", "Mod", [integers(-9, 9, 20), integers(1, 5, 20) * -1]),
            Twin("fmod", "fmod %0, %1", "Mod", [(20,), (20,)], {"fmod": 1}),
            Twin(
                "shift",
                "shift_left %0, %1",
                "BitShift",
                [integers(0, 200, 9, dtype=np.uint8), integers(0, 8, 9, dtype=np.uint8)],
                {"direction": "LEFT"},
            ),
            Twin(
                "bits", "bitwise_xor %0, %1", "BitwiseXor", [integers(-9, 9, 9), integers(-9, 9, 9)]
            ),
            Twin(
                "quantize",
                "quantizelinear %0 scale %1 zero_point %2",
                "QuantizeLinear",
                [unit(20) * 300, np.full(20, 0.7, F32), np.full(20, 3, np.uint8)],
                {"axis": 0},
            ),
            Twin(
                "dequantize",
                "dequantizelinear %0 scale %1 zero_point %2",
                "DequantizeLinear",
                [integers(-100, 100, 20, dtype=np.int8), positive(20), np.full(20, 3, np.int8)],
                {"axis": 0},
            ),
            *(
                Twin(f"cast{to}", "convert %0", "Cast", [unit(20) * 90], {"to": to})
                for to in (1, 3, 6, 7, 9, 10, 11)
            ),
        ]
    )


def test_fp8_casts_are_those_of_onnx() -> None:
    x = np.array([0, -0.0, 0.3, -1.7, 448, 460, 470, 1e9, -1e9, 240, 1e-3, 57344, 6e4], F32)
    check_twins(
        [
            Twin(
                f"fp8_{to}_{saturate}",
                f"convert %0 {{saturate = {str(bool(saturate)).lower()}}}",
                "Cast",
                [x],
                {"to": to, "saturate": saturate},
                reference=True,
            )
            for to in (17, 18, 19, 20)
            for saturate in (0, 1)
        ]
    )


def test_reductions_are_those_of_onnx() -> None:
    names = {
        "sum": "ReduceSum",
        "mean": "ReduceMean",
        "max": "ReduceMax",
        "min": "ReduceMin",
        "prod": "ReduceProd",
    }
    check_twins(
        [
            *(
                Twin(
                    m,
                    f"reduce_{m} %0 axes = [0, 2]",
                    o,
                    [(3, 4, 5)],
                    constants=[np.array([0, 2])],
                    opset=18,
                )
                for m, o in names.items()
            ),
            *(
                Twin(
                    f"{m}{last}",
                    f"{m} %0 axis = 1 {{select_last_index = {str(bool(last)).lower()}}}",
                    o,
                    [integers(0, 3, 4, 9).astype(F32)],
                    {"axis": 1, "select_last_index": last},
                )
                for m, o in (("argmax", "ArgMax"), ("argmin", "ArgMin"))
                for last in (0, 1)
            ),
            *(
                Twin(m, f"{m} %0 axis = 1 : tensor<3x4x5xf32>", o, [(3, 4, 5)], {"axis": 1})
                for m, o in (("softmax", "Softmax"), ("logsoftmax", "LogSoftmax"))
            ),
            *(
                Twin(
                    f"cumsum{e}{r}",
                    f"prefix_scan_sum %0 axis = 1 {{exclusive = {str(bool(e)).lower()}, "
                    f"reverse = {str(bool(r)).lower()}}} : tensor<3x5xf32>",
                    "CumSum",
                    [(3, 5)],
                    {"exclusive": e, "reverse": r},
                    [np.array(1)],
                )
                for e in (0, 1)
                for r in (0, 1)
            ),
            *(
                Twin(
                    f"topk{largest}",
                    f"topk %0 k = 3 axis = 1 {{largest = {str(bool(largest)).lower()}}}",
                    "TopK",
                    [integers(0, 5, 4, 9).astype(F32)],
                    {"axis": 1, "largest": largest},
                    [np.array([3])],
                )
                for largest in (0, 1)
            ),
        ]
    )


def test_data_movement_is_that_of_onnx() -> None:
    x, rows = (5, 4), integers(-5, 5, 3, 4)
    kinds = {"none": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}
    check_twins(
        [
            Twin(
                "transpose",
                "transpose %0 permutation = [2, 0, 1]",
                "Transpose",
                [(2, 3, 4)],
                {"perm": [2, 0, 1]},
            ),
            Twin("concat", "concat %0, %1 axis = 1", "Concat", [(2, 3), (2, 4)], {"axis": 1}),
            Twin("flatten", "flatten %0 axis = 2", "Flatten", [(2, 3, 4)], {"axis": 2}),
            Twin(
                "expand", "multibroadcast %0", "Expand", [(3, 1)], constants=[np.array([2, 3, 4])]
            ),
            Twin(
                "gather",
                "gather %0[%1] axis = 1",
                "Gather",
                [(3, 5), integers(-5, 5, 2, 2)],
                {"axis": 1},
            ),
            Twin(
                "gather_elements",
                "gather_elements %0[%1] axis = 0",
                "GatherElements",
                [x, rows],
                {"axis": 0},
            ),
            Twin("gathernd", "gathernd %0[%1]", "GatherND", [(4, 4, 3), integers(-4, 4, 5, 2)]),
            Twin(
                "gathernd_batch",
                "gathernd %0[%1] {batch_dims = 1 : i64}",
                "GatherND",
                [(2, 4, 3), integers(-4, 4, 2, 5, 1)],
                {"batch_dims": 1},
            ),
            *(
                Twin(
                    f"scatter_{m}",
                    f"scatter_{m} %0[%1], %2 axis = 0",
                    "ScatterElements",
                    [x, rows, (3, 4)],
                    {"axis": 0, "reduction": o},
                    opset=18,
                )
                for m, o in kinds.items()
                if m != "none"
            ),
            Twin(
                "scatter_none",
                "scatter_none %0[%1], %2 axis = 1",
                "ScatterElements",
                [x, np.array([[0, 2], [1, -1], [3, 0], [2, 1], [0, 3]]), (5, 2)],
                {"axis": 1},
                opset=18,
            ),
            *(
                Twin(
                    f"scatternd_{m}",
                    f"scatternd_{m} %0[%1], %2",
                    "ScatterND",
                    [x, np.array([[1], [3], [-1]]), (3, 4)],
                    {"reduction": o},
                    opset=18,
                )
                for m, o in kinds.items()
            ),
            *(
                Twin(
                    f"pad_{mode}",
                    f"pad %0 low = [1, 2] high = [2, 1] {{mode = #mgx<pad_mode {mode}>, "
                    "value = 3.0 : f64}",
                    "Pad",
                    [(3, 4)],
                    {"mode": mode},
                    [np.array([1, 2, 2, 1]), F32(3.0)],
                )
                for mode in ("constant", "reflect", "edge", "wrap")
            ),
            Twin(
                "pad_negative",
                "pad %0 low = [-1, 2] high = [0, -2]",
                "Pad",
                [(3, 4)],
                {},
                [np.array([-1, 2, 0, -2])],
            ),
            Twin("nonzero", "nonzero %0", "NonZero", [integers(0, 2, 3, 4)]),
        ]
    )
