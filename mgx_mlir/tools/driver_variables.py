"""MIGraphX's environment variables: their counterparts, or that nothing here reads them."""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "MIGRAPHX_"

# By the name without the prefix. An empty text: there is no counterpart.
COUNTERPARTS: dict[str, str] = {
    "8BITS_QUANTIZATION_PARAMS": "`--save-ranges`",
    "BENCHMARKING_BUNDLE": "",
    "BENCHMARKING_NRUNS": "`mgx tune --rounds`",
    "CK_DEBUG": "",
    "COPY_LITERALS": "",
    "DEBUG_MEMORY_COLORING": "`mgx perf --report`, which shows the arena",
    "DEBUG_SAVE_TEMP_DIR": "",
    "DISABLE_DNNL_POST_OPS_WORKAROUND": "",
    "DISABLE_FP16_INSTANCENORM_CONVERT": "`--keep-f32`, for the opposite",
    "DISABLE_FP32_SOFTMAX": "`--keep-f32`, for the opposite",
    "DISABLE_LAYERNORM_FUSION": "`--disable-pass mgx-fuse-reduce`",
    "DISABLE_MIOPEN_FUSION": "",
    "DISABLE_MIOPEN_POOLING": "",
    "DISABLE_MLIR": "",
    "DISABLE_MULTI_OUTPUT_FUSION": "`--disable-pass mgx-merge-pointwise`",
    "DISABLE_PASSES": "`--disable-pass`",
    "DISABLE_POINTWISE_FUSION": "`--disable-pass mgx-fuse-pointwise`",
    "DISABLE_REDUCE_FUSION": "`--disable-pass mgx-fuse-reduce`",
    "DISABLE_SCHEDULE_PASS": "`--no-graph`, which launches kernels one by one",
    "DUMP_TEST": "`mgx-driver verify -o`",
    "ENABLE_CK": "",
    "ENABLE_FULL_DYNAMIC": "`--mode full-dynamic`",
    "ENABLE_GEMM_TUNING": "`mgx tune`",
    "ENABLE_HIPBLASLT_GEMM": "",
    "ENABLE_HIPRTC_WORKAROUNDS": "",
    "ENABLE_HIP_GEMM_TUNING": "`mgx tune`",
    "ENABLE_LAYERNORM_FUSION": "nothing to set: layernorms are fused",
    "ENABLE_MLIR_GEG_FUSION": "`--disable-pass mgx-pair-products`, for the opposite",
    "ENABLE_MLIR_INPUT_FUSION": "nothing to set: inputs are fused",
    "ENABLE_MLIR_REDUCE_FUSION": "nothing to set: reductions are fused",
    "ENABLE_NHWC": "nothing to set: convolutions have channels last where that is faster",
    "ENABLE_NULL_STREAM": "",
    "ENABLE_REWRITE_DOT": "",
    "FLASH_DECODING_ENABLED": "",
    "FLASH_DECODING_MAX_SPLITS": "",
    "FLASH_DECODING_MIN_CHUNK_SIZE": "",
    "FLASH_DECODING_NUM_SPLITS": "",
    "FLASH_DECODING_THRESHOLD": "",
    "GPU_COMPILE_PARALLEL": "`MGX_JOBS`",
    "GPU_DEBUG": "`MGX_EMULATOR_STRICT`, on the emulated device",
    "GPU_DEBUG_SYM": "`--debug-symbols`",
    "GPU_DUMP_ASM": "`mgx inspect --isa`",
    "GPU_DUMP_BENCHMARK_MXR": "`mgx tune --list-problems`",
    "GPU_DUMP_SRC": "`mgx inspect --kernel`",
    "GPU_HIP_FLAGS": "",
    "GPU_OPTIMIZE": "",
    "LOG_CK_GEMM": "",
    "LOG_LEVEL": "`--log-level`, `-v`",
    "MLIR_DUMP": "`mgx inspect --kernel`",
    "MLIR_DUMP_TO_MXR": "`mgx inspect --kernel`",
    "MLIR_ENABLE_SPLITK": "nothing to set: split-K is among the schedules",
    "MLIR_TUNE_EXHAUSTIVE": "`--exhaustive-tune`",
    "MLIR_TUNE_LIMIT": "`mgx tune --tried`",
    "MLIR_TUNING_CFG": "`mgx tune --list-problems`",
    "MLIR_TUNING_DB": "`mgx tune --import`",
    "MLIR_USE_SPECIFIC_OPS": "",
    "NSTREAMS": "",
    "PROBLEM_CACHE": "`MGX_CACHE_DIR`, whose `tuning.sqlite` keeps schedules",
    "REWRITE_LRN": "",
    "SET_GEMM_PROVIDER": "",
    "SKIP_BENCHMARKING": "nothing to set: no kernel is timed but by `mgx tune`",
    "SPLIT_REDUCE_SIZE": "`mgx tune`",
    "TIME_MATCHERS": "`--timing`",
    "TIME_PASSES": "`--timing`",
    "TRACE_BENCHMARKING": "`mgx tune -vv`",
    "TRACE_CMD_EXECUTE": "",
    "TRACE_COMPILE": "`-vv`, `mgx read --after`",
    "TRACE_ELIMINATE_CONTIGUOUS": "",
    "TRACE_EVAL": "`mgx verify --per-instruction`",
    "TRACE_FINALIZE": "`-vv`",
    "TRACE_GATHER_CONCAT_FUSION": "`--explain`",
    "TRACE_GATHER_OPTIMIZATION": "`--explain`",
    "TRACE_HIPRTC": "",
    "TRACE_MATCHES": "`--explain`",
    "TRACE_MATCHES_FOR": "`--explain`",
    "TRACE_MLIR": "`mgx inspect --kernel`",
    "TRACE_NARY": "",
    "TRACE_ONNX_PARSER": "`-vv`",
    "TRACE_PASSES": "`mgx-opt --mlir-print-ir-after-all`, `mgx read --after`",
    "TRACE_PROPAGATE_CONSTANT": "`--explain`",
    "TRACE_QUANTIZATION": "`-vv`",
    "TRACE_SCHEDULE": "`mgx inspect`",
    "TRACE_TEST": "`mgx-driver verify --text`",
    "TRACE_TEST_COMPILE": "`-vv`",
    "TUNE_CK": "",
    "USE_FAST_SOFTMAX": "",
    "VALIDATE_MATCHES": "nothing to set: the IR is verified after each pass",
    "VERIFY_DUMP_DIFF": "`mgx verify --bisect`",
    "VERIFY_ENABLE_ALLCLOSE": "`--rtol`, `--atol`",
}


def hints(names: Iterable[str]) -> list[str]:
    """A sentence for each variable of MIGraphX that is set."""
    return [f"{name} is not read{_there_is(name)}" for name in names]


def _there_is(name: str) -> str:
    text = COUNTERPARTS.get(name.removeprefix(PREFIX), "")
    if text.startswith("nothing to set"):
        return f"; there is {text}"
    return f"; there is {text}" if text else ", and has no counterpart here"
