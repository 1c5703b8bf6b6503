"""From LLVM IR to shared objects of the host."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from mgx_mlir.artifact.code_object import CodeObject
from mgx_mlir.artifact.target import host_target
from mgx_mlir.codegen.cpu.compile import link, processor
from mgx_mlir.errors import CompilerError
from mgx_mlir.machine import host, llvm
from mgx_mlir.machine import link as elf
from mgx_mlir.machine.elf_architectures import UnsupportedObjectError
from mgx_mlir.runtime.code_library import CodeLibrary

FUNCTIONS = """
declare double @exp(double)
define double @of_libm(double %x) {
  %y = call double @exp(double %x)
  %z = fadd double %y, 1.25
  ret double %z
}
define i64 @twice(i64 %x) {
  %y = call i64 @inner(i64 %x)
  ret i64 %y
}
define hidden i64 @inner(i64 %x) noinline {
  %y = shl i64 %x, 1
  ret i64 %y
}
"""


def compiled(text: str) -> bytes:
    return llvm.compile_object(text, processor(host_target()), "default<O3>")


def function(data: bytes, name: str, result: type, argument: type):
    library = CodeLibrary(CodeObject("x86-64", data, (), 0, {}))
    made = ctypes.CFUNCTYPE(result, argument)(library.address(name))
    made.library = library
    return made


def test_code_constants_and_calls_are_linked():
    data = elf.link(compiled(FUNCTIONS))
    assert function(data, "twice", ctypes.c_int64, ctypes.c_int64)(21) == 42
    of_libm = function(data, "of_libm", ctypes.c_double, ctypes.c_double)
    np.testing.assert_allclose(of_libm(1.0), np.e + 1.25)


# Stores the lowest byte of lane LANE of sums of floats.
ONE_LANE = """
declare void @llvm.masked.store.v16i8.p0(<16 x i8>, ptr, i32, <16 x i1>)
define i64 @stored(ptr %p) {
  %x = load <16 x float>, ptr %p, align 4
  %s = fadd <16 x float> %x, splat (float 12582912.0)
  %y = bitcast <16 x float> %s to <16 x i32>
  %z = trunc <16 x i32> %y to <16 x i8>
  %at = getelementptr i8, ptr %p, i64 64
  %mask = icmp eq <16 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7, i32 8, i32 9,
    i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>, splat (i32 LANE)
  call void @llvm.masked.store.v16i8.p0(<16 x i8> %z, ptr %at, i32 1, <16 x i1> %mask)
  ret i64 0
}
"""


@pytest.mark.parametrize("lane", [0, 5, 15])
def test_a_store_of_one_lane_writes_no_more(lane: int) -> None:
    """LLVM 22 writes four bytes with AVX-512 (see `llvm_stores`)."""
    data = elf.link(compiled(ONE_LANE.replace("LANE", str(lane))))
    memory = np.full(80, 7, np.uint8)
    memory[:64].view(np.float32)[:] = range(16)
    function(data, "stored", ctypes.c_int64, ctypes.c_void_p)(memory.ctypes.data)
    assert memory[64:].tolist() == [*[7] * lane, lane, *[7] * (15 - lane)]


def test_hidden_functions_are_not_exported():
    data = elf.link(compiled(FUNCTIONS))
    with pytest.raises(Exception, match="no function 'inner'"):
        function(data, "inner", ctypes.c_int64, ctypes.c_int64)


def test_objects_beyond_plain_code_go_to_lld():
    text = """
@counter = global i64 7
define i64 @next(i64 %x) {
  %old = load i64, ptr @counter
  %new = add i64 %old, %x
  store i64 %new, ptr @counter
  ret i64 %new
}
"""
    data = compiled(text)
    with pytest.raises(UnsupportedObjectError):
        elf.link(data)
    assert function(link(data), "next", ctypes.c_int64, ctypes.c_int64)(3) == 10


def test_many_libraries_live_side_by_side():
    functions = [
        function(
            link(compiled(f"define i64 @f(i64 %x) {{\n  ret i64 {n}\n}}")),
            "f",
            ctypes.c_int64,
            ctypes.c_int64,
        )
        for n in range(20)
    ]
    assert [f(0) for f in functions] == list(range(20))


def test_text_that_does_not_parse_is_a_fault_of_the_compiler():
    with pytest.raises(CompilerError, match="does not parse"):
        compiled("define void @f() { nonsense }")


def test_the_host_names_its_features():
    target = host_target()
    assert target.kind == "cpu"
    assert target.vector_bytes in (16, 32, 64)
    assert target.identity.startswith(f"{target.name}:")
    assert "+" in target.identity


@pytest.mark.parametrize("name, table", [("x86_64", host._X86), ("aarch64", host._AARCH64)])
def test_llvm_knows_each_feature_of_a_processor(name, table, capfd):
    features = ",".join(f"+{feature}" for feature in table.values())
    level = {"x86_64": "x86-64", "aarch64": "generic"}[name]
    own = llvm.Processor(f"{name}-unknown-linux-gnu", level, features)
    llvm.compile_object("", own, "default<O3>")
    assert not capfd.readouterr().err


def test_llvm_finds_the_same_features_of_this_machine():
    library = llvm._library()
    library.LLVMGetHostCPUFeatures.restype = ctypes.c_char_p
    texts = library.LLVMGetHostCPUFeatures().decode().split(",")
    found = {text[1:] for text in texts if text.startswith("+")}
    assert host.llvm_features(host.machine_flags()) == found & set(host._X86.values())
