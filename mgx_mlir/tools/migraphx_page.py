"""docs/migraphx.md: MIGraphX's Python interface, as `mgx_mlir.migraphx` has it.

    python -m mgx_mlir.tools.migraphx_page > docs/migraphx.md

A test compares the page, and with it what is here and what is not.
"""

from __future__ import annotations

import inspect
from typing import Any

from mgx_mlir import migraphx
from mgx_mlir.migraphx.macros import macros
from mgx_mlir.migraphx.operators import REFUSED, names
from mgx_mlir.tools.driver_variables import COUNTERPARTS, PREFIX

_HEAD = """\
# MIGraphX's Python interface

Made by `python -m mgx_mlir.tools.migraphx_page`; a test compares it.

```python
from mgx_mlir import migraphx

p = migraphx.parse_onnx("digits.onnx")
p.compile(migraphx.get_target("cpu"))  # or "gpu", a chip such as "gfx942", or "ref"
params = {name: migraphx.generate_argument(s) for name, s in p.get_parameter_shapes().items()}
(y,) = p.run(params)
print(y.get_shape(), y.tolist())
```

`python -m mgx_mlir.migraphx script.py ...` runs a script whose `import migraphx` is to be this
package, `python -m mgx_mlir.migraphx -m pytest ...` a module; `from onnx_migraphx.backend import
MIGraphXBackend` gives ONNX's interface of backends in them, whose models run on the device of
`set_device`, else on the one asked for, and take inputs of any sizes. In your own code write
`from mgx_mlir import migraphx`. A program is a view of one MLIR module of mgx ops; `print(p)` shows
it.

Differences:

- Strides of parameters are those of the caller's arrays; inside, tensors are row-major, and shapes
  of instructions say so. Constants stand before all other instructions.
- Operators have MIGraphX's attributes, also where mgx has other names or keeps them in types.
  Comparisons and logical operators keep their operands' type.
- `fp4x2` is `uint8` here: two numbers a byte, the first in the low bits. Random numbers are others
  than MIGraphX's; equal seeds give equal ones. Limits of `nonmaxsuppression` are literals.
- Scan outputs of `loop` have `max_iterations` rows (10), zeros after the last trip.
- `save` writes an artifact of this project (`.mgx`) for a compiled program, which says its target
  and whether inputs and outputs are copied; a zip of its IR and weights otherwise, or JSON of both
  (`format="json"`). MIGraphX's own files cannot be read. `mgx run`, `perf`, `verify`, `compile`,
  `params` and `read` take all kinds, and text that `to_py` made (`FILE.py`), as `load` does: it is
  read, not executed.
- Programs are equal that compute the same of inputs of the same names, in whatever order their
  instructions stand.
- MIGraphX's Python tests run unchanged, but that of `run_async`: it loads `libamdhip64.so` by name,
  which has to be on the library path (`python -m mgx_mlir.emulator` prints the emulated one). Tests
  of 2026 that look for `select_module` among instructions, for `from_json` in `to_py`'s text, or
  call `program.verify`, ask for names that are not here: `mgx verify` compares programs.
- `to_py` gives constants of more than 4096 elements as random ones. It refuses results whose sizes
  the data decide.
- A `dynamic_dimension` has a fourth argument, its name: dimensions of one name have one size in a
  run. `out_lens` and `dims` of operators take dimensions with names beside numbers.
- A model some of whose nodes the host computes (NonMaxSuppression, sizes that the data decide,
  random numbers) is compiled, run and saved compiled, for `ref` too; its operators cannot be
  listed or changed. One whose operators the values of inputs decide, such as the axes of a sum, is
  compiled by its runs, and cannot be saved.
  Results whose size the data decide have that size, not the largest one with zeros after it.
- `quantize_fp16(p, ["dot", ...])` changes these operators alone. `quantize_int8` and `quantize_fp8`
  take any uncompiled program, after `quantize_fp16` too. They quantize products with a constant
  operand; products of two activations keep their floats, as attention is one kernel.
- Symbolic dimensions compile to one program for all their sizes. The optimals of a
  `dynamic_dimension`, and `compile(split_sizes=[1, 2048])` for one symbol, get programs of their
  own beside it; other sizes are not refused. `use_symbolic_shapes` says what is done in any case.
- `get_target("ref")` walks the program in numpy; `compile(fast_math=False)` is `--exact`;
  `exhaustive_tune=True`, and a `compile_mode` of 75 and more, is `mgx tune --exhaustive`
  ([tuning.md](tuning.md)); the modes below are one, as no kernel is timed.
- Models are read as its parser reads them, also where onnx's checker refuses: nodes in the forms
  of other opsets, axes and sizes of i32, integers of two widths, outputs declared with another
  type, no opset (13 then). An attribute that no opset has, a float beside an integer (but in Mod),
  zero points of another type than their tensor's, a Gemm of more than two dimensions, an `auto_pad`
  of no opset, a reflection of more than there is, and types that an operator is defined for
  nowhere are errors.
- Errors are those of `mgx_mlir.errors`, which are RuntimeErrors; a mistyped name of an operator or
  an attribute is one.
"""

_DRIVER = """
## The driver

```console
$ mgx-driver verify digits.onnx --cpu --rms-tol 0.01
$ mgx-driver perf digits.onnx --cpu -n 5
$ mgx-driver read digits.onnx --json -o digits.json
```

`mgx-driver` takes the verbs and flags of `migraphx-driver` and calls `mgx`; a flag without a
counterpart is refused with the reason. Where neither a GPU nor the CPU is named, it runs on the
GPU; dimensions without a size have one element.

- `-o` writes the program, in every verb: `read` and `verify` the imported one, `compile`, `run`,
  `perf` and `time` the compiled one, which runs again. `--binary` (the default with `-o`), `--text`
  (the default without), `--json`, `--py`, `-g`, `-g --brief` and `--netron`, an ONNX file, choose
  its form. Forms to read show a compiled program's graph after fusion; `--py` shows it before, and
  JSON of it is not read again.
- `compile` without `-o` prints the program, and leaves no file.
- A compiled file stays as it is: `--fp16`, sizes and passes are named, and change nothing.
  `--batch` is the size of its open dimensions. `read` shows what it holds.
- Where nothing is to be quantized, `--int8` and the like warn.
- `perf` ends with the lines `Batch size:`, `Rate:` and `Total time:`, of the median run, `time` has
  these alone. On an emulated GPU those of `perf` come from the model of the chip, and are of its
  kernels together; `time` has the emulator's own.
- `--trim` and `--trim-size` count nodes of ONNX. `--replace-literals` leaves constants that are one
  number as they are. `--apply-pass` takes MIGraphX's names, where a pass here does that work, and
  those of `mgx-opt`.
- `--log-level` takes words and numbers; `--log-file` several files, in place of standard error.
- `--split-sizes` adds to the range of `--dim-param`: an artifact has a program for each of these
  sizes, for no others without `--mode full-dynamic`.
- `op NAME` prints the attributes of an operator, null for those that have to be given.
- Each variable of MIGraphX that is set is named, with its counterpart:

| variable of MIGraphX | here |
|---|---|"""

# The names in MIGraphX's module, by its documentation and its binding's source.
FUNCTIONS = (
    "allocate_gpu argument_from_pointer autocast_fp8 create_argument fill_argument from_gpu "
    "generate_argument get_onnx_operators get_target gpu_sync load load_buffer parse_onnx "
    "parse_onnx_buffer parse_tf quantize_bf16 quantize_fp16 quantize_fp8 quantize_int8 save "
    "save_buffer to_gpu"
)
CLASSES = {
    "argument": "data_ptr get_shape load save tolist",
    "instruction_ref": "get_debug_symbols get_literal inputs name op outputs shape",
    "macro": "name options",
    "module": (
        "add_debug_symbols add_instruction add_literal add_macro add_parameter add_return "
        "has_debug_symbols insert_instruction insert_macro print remove_debug_symbols "
        "replace_instruction replace_return"
    ),
    "op": "name pooling_mode rnn_direction values",
    "program": (
        "clone compile create_module get_main_module get_output_shapes get_parameter_names "
        "get_parameter_shapes is_compiled print run run_async sort to_py"
    ),
    "shape": (
        "broadcasted bytes dyn_dims dynamic dynamic_dimension elements lens ndim packed scalar "
        "standard strides transposed type type_size type_string type_t"
    ),
    "target": "name",
}
OPERATORS = (
    "abs acos acosh add argmax argmin asin asinh atan atanh bit_cast bitwise_and broadcast "
    "broadcast_for_dot broadcast_with_dims ceil clip concat concat_past_present contiguous "
    "convert convolution convolution_backwards cos cosh dequantizelinear dimensions_of div dot "
    "dynamic_range elu equal erf exp fill fixed_pad flatten floor fmod gather gathernd "
    "get_tuple_elem gqa_rotary_embedding greater gru identity if im2col isinf isnan layout "
    "leaky_relu less log log2 logical_and logical_or logical_xor logsoftmax loop lrn lstm max "
    "min mod mul multibroadcast multinomial nearbyint neg nonmaxsuppression nonzero not onehot "
    "pack_fp4 pack_int4 pad pooling pow prefix_scan_sum prelu quant_convolution quant_dot "
    "quantizelinear random_seed random_uniform recip reduce_all reduce_any reduce_max "
    "reduce_mean reduce_min reduce_prod reduce_sum relu reshape reshape_lazy resize reverse rnn "
    "rnn_last_cell_output rnn_last_hs_output rnn_var_sl_last_output rnn_var_sl_shift_output "
    "rnn_var_sl_shift_sequence roialign rsqrt scalar scan_slice scatter_add scatter_max "
    "scatter_min scatter_mul scatter_none scatternd_add scatternd_max scatternd_min "
    "scatternd_mul scatternd_none sigmoid sign sin sinh slice softmax sqdiff sqrt squeeze step "
    "sub tan tanh topk transpose undefined unique unpack_fp4 unpack_int4 unsqueeze where"
)
MACROS = (
    "add batchnorm bias_uint8 bitwise_and celu clip convolution dequantizelinear div dot einsum "
    "gelu_erf gelu_quick gelu_split gelu_tanh gemm logical_and logical_or logical_xor "
    "mean_variance_normalization mul pow prelu quant_convolution quant_dot quantizelinear "
    "rotary_embedding sqdiff sub tile"
)


def page() -> str:
    """The page's text."""
    parts = [_HEAD, "## Functions\n\n| function | |\n|---|---|"]
    for name in FUNCTIONS.split():
        found = getattr(migraphx, name, None)
        parts.append(f"| {name} | {_summary(found) if found else 'not here'} |")
    parts.append("\n## Classes\n\n| class | members | not here |\n|---|---|---|")
    for name, members in CLASSES.items():
        kind = getattr(migraphx, name)
        there = [m for m in members.split() if hasattr(kind, m) or m in kind.__annotations__]
        missing = [m for m in members.split() if m not in there]
        parts.append(f"| {name} | {', '.join(there)} | {', '.join(missing)} |")
    for title, wanted, known, why in (
        ("Operators", OPERATORS, names(), _refused()),
        ("Macros", MACROS, macros(), ""),
    ):
        there = [name for name in wanted.split() if name in known]
        missing = [name for name in wanted.split() if name not in known]
        own = sorted(known - {*there})
        parts.append(
            f"\n## {title}\n\n{', '.join(there)}."
            + (f"\n\nNot here: {', '.join(missing)}. {why}" if missing else "")
            + (f"\n\nOnly here: {', '.join(own)}." if own else "")
        )
    parts.append(_DRIVER)
    parts += [f"| {PREFIX}{name} | {text} |" for name, text in COUNTERPARTS.items() if text]
    without = ", ".join(name for name, text in COUNTERPARTS.items() if not text)
    parts.append(f"\nWithout a counterpart: {without}.")
    return "\n".join(parts) + "\n"


def _refused() -> str:
    return " ".join(f"{name}: {why}." for name, why in sorted(REFUSED.items()))


def _summary(function: Any) -> str:
    text = inspect.getdoc(function) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].removesuffix(".") + "."


if __name__ == "__main__":
    print(page(), end="")
