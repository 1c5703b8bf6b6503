"""The form of a node, the table of operators, and the model of one case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from test.fuzz.operators.draw import Array, Draw, Fixed

# onnxruntime refuses newer opsets than COMMON, which are for forms that no older one has.
OLDEST, COMMON, NEWEST = 7, 25, onnx.defs.onnx_opset_version()

Input = Array | Fixed | None


@dataclass
class Form:
    """A node: its inputs (None is one left out), attributes and number of outputs."""

    inputs: list[Input]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1


OPERATORS: dict[str, Callable[[Draw], Form]] = {}

# Inputs that were attributes before an opset: the opset, and the attribute of each input.
_AXES = {1: "axes"}
_MOVED: dict[str, tuple[int, dict[int, str]]] = {
    "Clip": (11, {1: "min", 2: "max"}),
    "Pad": (11, {1: "pads", 2: "value"}),
    "ReduceSum": (13, _AXES),
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}),
    "Split": (13, {1: "split"}),
    "Squeeze": (13, _AXES),
    "TopK": (10, {1: "k"}),
    "Unsqueeze": (13, _AXES),
} | {
    f"Reduce{kind}": (18, _AXES)
    for kind in "L1 L2 LogSum LogSumExp Max Mean Min Prod SumSquare".split()
}
# Operators that have another meaning before an opset, and are drawn from it on.
_SINCE = {
    "BatchNormalization": 9,
    "Flatten": 11,
    "Unsqueeze": 11,
    "GroupNormalization": 21,
    "Resize": 11,
    "Scan": 9,
}


def operator(*names: str) -> Callable[[Callable[..., Form]], Callable[..., Form]]:
    """Enters a function that draws forms; one of several operators gets the name too."""

    def enter(draw: Callable[..., Form]) -> Callable[..., Form]:
        for name in names:
            OPERATORS[name] = (lambda d, n=name: draw(d, n)) if len(names) > 1 else draw
        return draw

    return enter


def contributed(*names: str) -> Callable[[Callable[..., Form]], Callable[..., Form]]:
    """As `operator`, of com.microsoft."""
    return operator(*(f"com.microsoft.{name}" for name in names))


@dataclass(frozen=True)
class Case:
    """The model of one node, and what it is fed."""

    operator: str
    seed: int
    opset: int
    model: onnx.ModelProto
    feeds: dict[str, Array]
    outputs: list[str]
    resized: bool = False  # of other sizes than those drawn

    def attribute(self, name: str, default: Any = None) -> Any:
        for found in self.model.graph.node[0].attribute:
            if found.name == name:
                value = helper.get_attribute_value(found)
                return value.decode() if isinstance(value, bytes) else value
        return default

    def array(self, index: int) -> Array | None:
        """The values of an input, fed or built in."""
        names = self.model.graph.node[0].input
        if index >= len(names) or not names[index]:
            return None
        for weight in self.model.graph.initializer:
            if weight.name == names[index]:
                return numpy_helper.to_array(weight)
        return self.feeds[names[index]]

    def text(self) -> str:
        node = self.model.graph.node[0]
        given = ", ".join(
            "-" if (a := self.array(k)) is None else f"{a.dtype}{list(a.shape)}"
            for k in range(len(node.input))
        )
        stated = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        return f"{self.operator}({given}) {stated} opset {self.opset}"


def draw_case(name: str, seed: int) -> Case:
    """The case of a seed: of `com.microsoft` where the name says so."""
    draw = Draw(f"{name} {seed}")
    form = OPERATORS[name](draw)
    domain, _, kind = name.rpartition(".")
    opset = COMMON
    if not domain:
        found = [k for k in range(OLDEST, NEWEST + 1) if _fits(kind, form, k)]
        if not found:
            raise ValueError(f"no opset has this form of {name}, seed {seed}: {form}")
        opset = draw.among([k for k in found if k <= COMMON] or found)
        form = _as_of(kind, form, opset)
    return _built(name, seed, opset, form)


def _as_of(kind: str, form: Form, opset: int) -> Form:
    """The form with the attributes that an older opset has in place of inputs."""
    since, moved = _MOVED.get(kind, (0, {}))
    if opset >= since:
        return form
    attributes = dict(form.attributes)
    inputs: list[Input] = []
    for index, value in enumerate(form.inputs):
        name = moved.get(index)
        if name and isinstance(value, Fixed):
            whole = value.array.tolist()
            if np.issubdtype(value.array.dtype, np.floating) or value.array.dtype.kind not in "iu":
                whole = float(value.array)
            attributes[name] = whole[0] if name == "k" else whole
        elif name is None or value is not None:
            inputs.append(value)
    return Form(inputs, attributes, form.outputs)


def _fits(kind: str, form: Form, opset: int) -> bool:
    """Whether the operator of this opset takes the form's types and attributes."""
    if opset < _SINCE.get(kind, 0):
        return False
    try:
        schema = onnx.defs.get_schema(kind, opset)
    except onnx.defs.SchemaError:
        return False
    since, moved = _MOVED.get(kind, (0, {}))
    if opset < since:
        inputs = [v for k, v in enumerate(form.inputs) if k in moved and v is not None]
        if not all(isinstance(v, Fixed) and v.array.size for v in inputs):
            return False
        form = _as_of(kind, form, opset)
        if form.attributes.get("k") == 0:
            return False
    if schema.deprecated or not set(form.attributes) <= set(schema.attributes):
        return False
    if not schema.min_input <= len(form.inputs) <= schema.max_input:
        return False
    if form.outputs > schema.max_output:
        return False
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    met: dict[str, str] = {}  # the type of each letter of the schema
    for index, value in enumerate(form.inputs):
        parameter = schema.inputs[min(index, len(schema.inputs) - 1)]
        if value is None:
            if parameter.option == onnx.defs.OpSchema.FormalParameterOption.Single:
                return False
            continue
        array, declared = value.array if isinstance(value, Fixed) else value, parameter.type_str
        word = _word(helper.np_dtype_to_tensor_dtype(array.dtype))
        if word not in allowed.get(declared, {declared}) or met.setdefault(declared, word) != word:
            return False
    value = form.attributes.get("value")
    stated = form.attributes.get("to", form.attributes.get("dtype"))
    stated = value.data_type if isinstance(value, onnx.TensorProto) else stated
    return stated is None or _word(stated) in allowed[schema.outputs[0].type_str]


def _word(element: int) -> str:
    return f"tensor({onnx.TensorProto.DataType.Name(element).lower()})"


def _built(name: str, seed: int, opset: int, form: Form) -> Case:
    domain, _, kind = name.rpartition(".")
    inputs, weights, names, feeds = [], [], [], {}
    for index, value in enumerate(form.inputs):
        if value is None:
            names.append("")
            continue
        names.append(f"i{index}")
        if isinstance(value, Fixed):
            weights.append(numpy_helper.from_array(value.array, names[-1]))
            continue
        array = np.asarray(value)
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        inputs.append(helper.make_tensor_value_info(names[-1], element, array.shape))
        feeds[names[-1]] = array
    outputs = [f"o{k}" for k in range(form.outputs)]
    node = helper.make_node(kind, names, outputs, "node", domain=domain, **form.attributes)
    graph = helper.make_graph(
        [node], name, inputs, [helper.make_empty_tensor_value_info(o) for o in outputs], weights
    )
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, 1)] if domain else []
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    model = onnx.shape_inference.infer_shapes(model)
    return Case(name, seed, opset, model, feeds, outputs)
