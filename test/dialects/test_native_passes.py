"""Running passes without the GIL, and the passes that `_mgx` registers."""

import ctypes
import math
import threading

import numpy as np
import pytest
from mlir import ir
from mlir.passmanager import PassManager

from mgx_mlir._native import _mgx
from mgx_mlir.dialects import context
from test.compiled import CompiledModule

TEXT = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = mgx.neg %x : tensor<2xf32>
  %1 = mgx.neg %0 : tensor<2xf32>
  return %1 : tensor<2xf32>
}
"""


def test_runs_passes():
    with context():
        module = ir.Module.parse(TEXT)
        _mgx.run_pass_manager(PassManager.parse("builtin.module(canonicalize)"), module.operation)
        assert "mgx.neg" not in str(module)


def test_ops_are_found_by_name_and_by_dialect():
    with context():
        module = ir.Module.parse(TEXT)
        root = module.operation

        def found(*names):
            return [op.name for op in _mgx.ops_inside(root, names)]

        assert found("mgx.neg") == ["mgx.neg"] * 2
        assert found("mgx.*", "func.func") == ["mgx.neg"] * 2 + ["func.func"]
        assert found("mgx.ne", "mg.*", "neg") == []
        assert found("*") == ["mgx.neg", "mgx.neg", "func.return", "func.func", "builtin.module"]


def test_a_failing_pass_raises_its_diagnostics():
    with context():
        module = ir.Module.parse("func.func @f() { return }")
        passes = PassManager.parse(
            "builtin.module(func.func(mgx-lower-subgroup-reduce-to-dpp{chipset=gfxMIGX}))"
        )
        with pytest.raises(ir.MLIRError, match=r"chipset must be gfx and digits.*'gfxMIGX'"):
            _mgx.run_pass_manager(passes, module.operation)


def test_diagnostics_reach_python_handlers():
    seen = []
    with context() as made:
        made.emit_error_diagnostics = True
        made.attach_diagnostic_handler(lambda d: seen.append(d.message) or True)
        module = ir.Module.parse("func.func @f() { return }")
        passes = PassManager.parse("builtin.module(mgx-lower-subgroup-reduce-to-dpp{chipset=x})")
        with pytest.raises(ir.MLIRError):
            _mgx.run_pass_manager(passes, module.operation)
    assert len(seen) == 1 and "chipset must be" in seen[0]


def test_threads_with_a_context_each_run_passes():
    results = {}

    def work(number: int) -> None:
        with context():
            module = ir.Module.parse(TEXT)
            passes = PassManager.parse("builtin.module(canonicalize,cse)")
            _mgx.run_pass_manager(passes, module.operation)
            results[number] = str(module)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and len(set(results.values())) == 1


FUNCTIONS = {
    "acos": (math.acos, (-0.9, 0.9)),
    "asin": (math.asin, (-0.9, 0.9)),
    "atan": (math.atan, (-9, 9)),
    "cos": (math.cos, (-9, 9)),
    "cosh": (math.cosh, (-5, 5)),
    "erf": (math.erf, (-4, 4)),
    "exp": (math.exp, (-20, 20)),
    "expm1": (math.expm1, (-5, 5)),
    "log": (math.log, (0.01, 99)),
    "log1p": (math.log1p, (-0.9, 99)),
    "log2": (math.log2, (0.01, 99)),
    "sin": (math.sin, (-9, 9)),
    "sinh": (math.sinh, (-5, 5)),
    "tan": (math.tan, (-1.5, 1.5)),
    "tanh": (math.tanh, (-9, 9)),
}
LOWERING = (
    "convert-vector-to-scf,convert-scf-to-cf,expand-strided-metadata,finalize-memref-to-llvm,"
    "convert-vector-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,"
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1},convert-cf-to-llvm,"
    "reconcile-unrealized-casts"
)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_expanded_math_is_accurate_without_libm(name):
    reference, (low, high) = FUNCTIONS[name]
    text = f"""
    func.func @f(%x: memref<64xf32>, %y: memref<64xf32>) {{
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0.0 : f32
      %v = vector.transfer_read %x[%c0], %zero {{in_bounds = [true]}}
          : memref<64xf32>, vector<64xf32>
      %r = math.{name} %v : vector<64xf32>
      vector.transfer_write %r, %y[%c0] {{in_bounds = [true]}} : vector<64xf32>, memref<64xf32>
      return
    }}"""
    with context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        expand = PassManager.parse("builtin.module(func.func(mgx-expand-math))")
        _mgx.run_pass_manager(expand, module.operation)
        assert f"math.{name} " not in str(module)
        _mgx.run_pass_manager(PassManager.parse(f"builtin.module({LOWERING})"), module.operation)
        x = np.linspace(low, high, 64, dtype=np.float32)
        y = np.zeros_like(x)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y)]
        CompiledModule(module).call("f", pointers)
    expected = np.array([reference(float(value)) for value in x])
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6)
