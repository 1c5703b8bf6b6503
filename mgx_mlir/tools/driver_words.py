"""The words of migraphx-driver, and those of mgx for them."""

from __future__ import annotations

# roctx: the steps of mgx perf are ranges of roctx where its library is.
VERBS = {"roctx": "perf", "time": "perf"}
# The verbs that run a program, on a GPU unless the flags say otherwise.
RUNNING = ("run", "perf", "verify")
COMPILES = (*RUNNING, "compile")
# The verbs that tune where they are asked to.
TUNING = ("compile", "run", "perf")
SIZED = (*COMPILES, "params", "read")
# The words of mgx for a flag. mgx works as a flag with an empty tuple asks, without any word.
FLAGS: dict[str, tuple[str, ...]] = {
    "--cpu": ("--target", "cpu"),
    "--debug-symbols": ("--locations",),
    "--detailed": (),
    "--disable-fast-math": ("--exact",),
    "--dynamic-input-dim": ("--dyn-input-dim",),
    "--enable-offload-copy": (),
    "--enable-symbolic": (),
    "--gpu": ("--target", "gpu"),
    "--iterations": ("--runs",),
    "--mlir": (),
    "--nchw": (),
    "--nhwc": (),
    "--onnx": (),
    "--optimize": ("--after", "optimize"),
    "--strip-context": (),
    "-O": ("--after", "optimize"),
    "-b": ("--bisect",),
    "-c": ("--compiled-model",),
    "-d": (),
    "-i": ("--per-instruction",),
    "-l": ("--list",),
    "-n": ("--runs",),
    "-p": ("--apply-pass",),
    "-r": ("--reduce",),
    "-s": ("--trim-size",),
    "-t": ("--trim",),
}
# The flags of FLAGS that mgx read alone has; other verbs work so.
OF_READ = ("--debug-symbols", "--optimize", "-O")
# The forms of the program, by their flags.
FORMS = {
    "--binary": "binary",
    "--graphviz": "graphviz",
    "--json": "json",
    "--netron": "netron",
    "--py": "py",
    "--python": "py",
    "--text": "text",
    "-g": "graphviz",
}
# Flags that take several values, each of which is a flag of its own for mgx: single words, or
# words from an input's or a symbol's name on.
LISTS = ("--apply-pass", "--fill0", "--fill1", "--log-file", "--output-names", "-p")
BY_NAME = ("--dim-param", "--dyn-input-dim", "--input-dim", "--load-arg")
# Of them, those whose values are never models.
APART = ("--apply-pass", "--log-file", "-p")
MODELS = (".onnx", ".mgx", ".mxr", ".json", ".py")
# Flags that are more than words of mgx.
OF_THEMSELVES = (
    "--compile-mode",
    "--exhaustive-tune",
    "--migraphx-json",
    "--ref",
    "--split-sizes",
    "--test",
)
# The levels of the log that mgx names otherwise.
LEVELS = {
    "0": "none",
    "1": "error",
    "2": "warning",
    "3": "info",
    "4": "debug",
    "5": "debug",
    "trace": "debug",
    "warn": "warning",
}
# The passes that migraphx-driver applies, by their names there; an empty text: none does that.
PASSES = {
    "auto_contiguous": "",
    "dead_code_elimination": "canonicalize",
    "eliminate_allocation": "",
    "eliminate_common_subexpression": "cse",
    "eliminate_concat": "mgx-place-concats",
    "eliminate_contiguous": "",
    "eliminate_data_type": "",
    "eliminate_dead_code": "canonicalize",
    "eliminate_identity": "mgx-eliminate-identities",
    "eliminate_pad": "mgx-eliminate-pads",
    "inline_module": "mgx-normalize-control-flow",
    "insert_pad": "",
    "normalize_ops": "mgx-normalize-ops",
    "optimize_module": "optimize",
    "promote_literals": "",
    "propagate_constant": "mgx-fold-constants",
    "rewrite_gelu": "mgx-simplify-algebra",
    "rewrite_pooling": "mgx-rewrite-pooling",
    "rewrite_quantization": "mgx-simplify-quantized",
    "rewrite_rnn": "",
    "simplify_algebra": "mgx-simplify-algebra",
    "simplify_dyn_ops": "mgx-simplify-dyn-ops",
    "simplify_qdq": "mgx-simplify-quantized",
    "simplify_reshapes": "mgx-simplify-reshapes",
}
# Flags of compiling with the number of their values: migraphx-driver leaves a compiled file as
# it is.
OF_COMPILING = {
    "--apply-pass": 1,
    "--batch": 1,
    "--bf16": 0,
    "--default-dyn-dim": 1,
    "--dyn-input-dim": 2,
    "--exact": 0,
    "--fp16": 0,
    "--fp8": 0,
    "--input-dim": 99,
    "--int4-weights": 0,
    "--int8": 0,
    "--output-names": 1,
    "--persistent": 0,
    "--replace-literals": 0,
    "--skip-unknown-operators": 0,
    "--trim": 1,
    "--trim-size": 1,
    "--tune": 0,
}
REFUSED = {
    "--cpp": "--py prints the program as Python",
    "--migraphx": "files of MIGraphX cannot be read; give the .onnx model",
    "--tf": "TensorFlow's files cannot be read; export the model to ONNX",
}
