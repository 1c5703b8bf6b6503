"""RNN, GRU and LSTM as a loop of products and pointwise ops.

The products of all inputs with the input weights are one dot, before the steps. Two directions
with equal functions run side by side, the second from the end: a step of both is one product.
Layouts, gate orders and formulas are those of ONNX's operator documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from mgx_mlir.dialects import mgx
from mgx_mlir.errors import ModelError
from mgx_mlir.importer import emit, tensors, unroll
from mgx_mlir.importer.converters.activations import (
    TAKES_ALPHA,
    TAKES_BETA,
    Activation,
    activation_of,
)
from mgx_mlir.importer.node import Node
from mgx_mlir.importer.registry import operator
from mgx_mlir.importer.tensors import Dim
from mgx_mlir.rewriting.plan_attributes import MAX_ITERATIONS

# Up to so many steps become ops of their own where their loop is no kernel.
MAX_WRITTEN_OUT = 64


@dataclass
class Cell:
    """One direction of a node, or both: its weights, its functions, its state.

    `w` is (input, gates * hidden), `r` (hidden, gates * hidden); `bias_w` and `bias_r` are
    their halves of B, or None. Where a step only adds both, `bias_w` is their sum. `peepholes`
    are the weights from the cell's state, or None. With both directions, all have a leading
    dimension for them, and biases and peepholes a second one for the batch. `rounded` is applied
    to the operands of products with weights.
    """

    node: Node
    hidden: int
    w: ir.Value
    r: ir.Value
    bias_w: ir.Value | None
    bias_r: ir.Value | None
    peepholes: ir.Value | None
    functions: list[Activation]
    backwards: bool
    rounded: Activation

    def product(self, h: ir.Value, weights: ir.Value, bias: ir.Value | None) -> ir.Value:
        """h times weights, plus a bias."""
        y = emit.dot(self.rounded(h), weights)
        return y if bias is None else emit.add(y, bias)

    def gate(self, x: ir.Value, number: int) -> ir.Value:
        """Columns (of the last dimension) of one gate."""
        axis = tensors.rank(x) - 1
        return emit.take(x, axis, number * self.hidden, (number + 1) * self.hidden)

    def clipped(self, x: ir.Value) -> ir.Value:
        """x within the node's clip, where it has one; 0 is none."""
        bound = self.node.attribute("clip")
        if bound is not None and bound < 0:
            raise ModelError(f"clip = {bound}; a bound from 0 on is defined")
        return emit.clip(x, -bound, bound) if bound else x


Step = Callable[[Cell, ir.Value, list[ir.Value]], list[ir.Value]]


def _unrolled(
    node: Node,
    gates: int,
    states: int,
    default: Sequence[str],
    step: Step,
    weights: tuple[ir.Value, ir.Value],
    rounded: Activation | None = None,
) -> Any:
    """The results Y and the last states of a node; `step` makes new states from a projection.

    `weights` are those of the input and of the state: (directions, its size, gates * hidden).
    `rounded` may look at all numbers of its operand.
    """
    x = node.tensor(0)
    batch_first = node.version >= 14 and bool(node.attribute("layout"))
    x = emit.transpose(x, [1, 0, 2]) if batch_first else x
    length, batch = tensors.dims(x)[:2]
    if length is None:
        tensors.size_of(x, 0, "the length of the sequence")  # says that it has to be known
    ways = ("forward", "reverse", "bidirectional")
    direction = str(node.choice("direction", *ways, default="forward"))
    directions = 2 if direction == "bidirectional" else 1
    hidden = tensors.size_of(weights[1], 1, "the hidden size")
    stored = tensors.size_of(weights[1], 0, "the number of directions")
    if stored != directions:
        raise ModelError(f"direction = {direction}, and weights for {stored} directions")
    stated = node.attribute("hidden_size")
    if stated is not None and stated != hidden:
        raise ModelError(f"hidden_size = {stated} and recurrent weights for {hidden}")
    _check_shapes(node, weights, gates, directions, batch)
    functions = _functions(node, directions, default)
    masks = _masks(node, x, hidden)
    if length == 0:
        return _of_no_steps(node, x, directions, hidden, states, batch_first)
    cells = _Cells(node, gates, hidden, weights, rounded or (lambda x: x))
    state = [_initial(node, 5 + s, directions, x, hidden, batch_first) for s in range(states)]
    if (
        directions == 2
        and rounded is None
        and None not in (length, batch)
        and _are_equal(node, default)
    ):
        y, finals = _run_both(cells.both(functions[0]), x, state, masks, step)
    else:
        every: list[ir.Value] = []
        last: list[list[ir.Value]] = []
        for number in range(directions):
            cell = cells.one(number, functions[number])
            outputs, new = _run(cell, x, [_part(s, number) for s in state], masks, step)
            every.append(outputs)
            last.append(new)
        y = emit.stack(every, 1)
        finals = [emit.stack([new[s] for new in last], 0) for s in range(states)]
    finals = [_of_steps(node, f, masks) if node.given(5 + i) else f for i, f in enumerate(finals)]
    wanted = node.wanted(0)
    if batch_first:
        y = emit.transpose(y, [2, 0, 1, 3]) if wanted else y
        finals = [emit.transpose(f, [1, 0, 2]) for f in finals]
    return [y if wanted else None, *finals]


def _check_shapes(
    node: Node, weights: tuple[ir.Value, ir.Value], gates: int, directions: int, batch: Dim
) -> None:
    """Raises ModelError where a parameter has other sizes than the weights and x ask for."""
    size = tensors.dims(node.tensor(0))[2]
    hidden = tensors.dims(weights[1])[1]
    assert isinstance(hidden, int)
    columns = gates * hidden
    tensors.require(weights[0], (directions, size, columns), "the weights of the input")
    tensors.require(weights[1], (directions, hidden, columns), "the weights of the state")
    for index, wanted, what in (
        (3, (directions, 2 * columns), "the bias"),
        (4, (batch,), "sequence_lens"),
        (7, (directions, 3 * hidden), "the peepholes"),
    ):
        if index < len(node.inputs) and node.given(index):
            tensors.require(node.tensor(index), wanted, what)


def _of_no_steps(
    node: Node, x: ir.Value, directions: int, hidden: int, states: int, batch_first: bool
) -> list[ir.Value | None]:
    """The results of sequences without a step: an empty Y, and zeros."""
    zero = np.zeros((), emit.numpy_type(x))
    batch = tensors.dims(x)[1]
    last = [batch, directions, hidden] if batch_first else [directions, batch, hidden]
    every = [batch, 0, directions, hidden] if batch_first else [0, *last]
    made = [emit.filled(zero, every), *[emit.filled(zero, last) for _ in range(states)]]
    return [value if node.wanted(i) else None for i, value in enumerate(made)]


@dataclass(frozen=True)
class _Masks:
    """Where sequences are not over: `lengths` (batch) of i64, none of them above `steps`."""

    lengths: ir.Value
    steps: Dim
    hidden: int

    def at(self, step: int | ir.Value) -> ir.Value:
        """Booleans (batch, hidden) for a step, by its number: an int, or an i64 scalar."""
        lengths = emit.unsqueeze(emit.convert(self.lengths, "i32"), [1])
        lengths = emit.broadcast(lengths, (*tensors.dims(self.lengths), self.hidden))
        if isinstance(step, int):
            return mgx.greater(lengths, emit.like(lengths, step))
        number = emit.broadcast(emit.convert(step, "i32"), tensors.dims(lengths))
        return mgx.greater(lengths, number)

    def longest(self) -> ir.Value:
        """The steps of the longest sequence, as an i64 scalar."""
        return emit.reshape(mgx.reduce_max(self.lengths, [0]), [])

    def turned(self, x: ir.Value) -> ir.Value:
        """x (steps, batch, any), in which each sequence begins with its end."""
        (batch,) = tensors.dims(self.lengths)
        steps = emit.unsqueeze(emit.counted(self.steps), [1])
        places = emit.sub(emit.sub(emit.unsqueeze(self.lengths, [0]), steps), 1)
        past = emit.binary(mgx.less, places, emit.like(places, 0))
        places = emit.where(past, steps, places)
        # Whole rows of all sequences: one is read where another is written.
        sizes = tensors.known_sizes(x, "the sequences")
        rows = emit.reshape(x, tensors.named([sizes[0] * sizes[1], sizes[2]]))
        if batch != 1:
            of_each = emit.broadcast(emit.reshape(emit.size_of(x, 1), [1, 1]), tensors.dims(places))
            number = emit.unsqueeze(emit.counted(batch), [0])
            places = emit.add(mgx.mul(places, of_each), number)
        return mgx.gather(rows, places, 0)


# New states from the projection of a step's input and the states before it, and the number of
# the step.
Advance = Callable[[ir.Value, list[ir.Value], "int | ir.Value"], list[ir.Value]]


def _steps(
    projected: ir.Value,
    axis: int,
    state: list[ir.Value],
    advance: Advance,
    masks: _Masks | None,
    backwards: bool = False,
) -> tuple[ir.Value, list[ir.Value]]:
    """The outputs of all steps, stacked along a new first axis in order of time; the last states.

    `projected` has a step's entries along `axis`, the first of them last with `backwards`.
    `advance` gives a step's output, and then its states.
    """
    length = tensors.dims(projected)[axis]
    if masks is not None and length != 1:
        # A kernel ends with the longest sequence. A program with a launch for each step would
        # wait for its length.
        every, final = _in_loop(projected, axis, state, advance, backwards, masks.longest())
        if unroll.stays(final):
            return every, final
    if not isinstance(length, int) or length > MAX_WRITTEN_OUT:
        return _in_loop(projected, axis, state, advance, backwards)
    if length > 1:
        every, final = _in_loop(projected, axis, state, advance, backwards)
        if unroll.stays(final):
            return every, final
    outputs = [state[0]] * length
    for number in range(length):
        time = length - 1 - number if backwards else number
        here = emit.squeeze(emit.take(projected, axis, time, time + 1), [axis])
        outputs[time], *state = advance(here, state, number)
    return emit.stack(outputs, 0), state


def _in_loop(
    projected: ir.Value,
    axis: int,
    state: list[ir.Value],
    advance: Advance,
    backwards: bool,
    trips: ir.Value | None = None,
) -> tuple[ir.Value, list[ir.Value]]:
    """As `_steps`, by a loop; outputs are zero from the step `trips` on."""
    length = tensors.dims(projected)[axis]
    if backwards:
        projected = mgx.reverse(projected, [axis])
    count = emit.size_of(projected, axis) if trips is None else trips

    def body(i: ir.Value, go: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        here = mgx.gather(projected, i, axis)
        output, *new = advance(here, list(carried), i)
        for value, before in zip(new, carried, strict=True):
            value.set_type(before.type)
        return [go, *new, output]

    *final, every = mgx.loop(count, mgx.constant(True, np.bool_), state, body)
    if trips is not None and isinstance(length, int):  # a kernel fills the others with zeros
        limit = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), length)
        every.owner.attributes[MAX_ITERATIONS] = limit
    every.set_type(tensors.tensor_type(tensors.element(every), (length, *tensors.dims(every)[1:])))
    return (mgx.reverse(every, [0]) if backwards else every), final


def _masked(mask: ir.Value | None, new: list[ir.Value], old: list[ir.Value]) -> list[ir.Value]:
    """The output and the states of a step: beyond a sequence's end it is zero, and they stay."""
    if mask is None:
        return [new[0], *new]
    kept = [emit.where(mask, n, o) for n, o in zip(new, old, strict=True)]
    return [emit.where(mask, new[0], 0), *kept]


def _run(
    cell: Cell, x: ir.Value, state: list[ir.Value], masks: _Masks | None, step: Step
) -> tuple[ir.Value, list[ir.Value]]:
    """All steps of one direction: the first state after each, in order of time, and the last."""
    projected = cell.product(x, cell.w, cell.bias_w)

    def advance(here: ir.Value, state: list[ir.Value], number: Any) -> list[ir.Value]:
        mask = None if masks is None else masks.at(number)
        return _masked(mask, step(cell, here, state), state)

    if masks is None or not cell.backwards:
        return _steps(projected, 0, state, advance, masks, cell.backwards)
    every, final = _steps(masks.turned(projected), 0, state, advance, masks)
    return masks.turned(every), final


def _run_both(
    cell: Cell, x: ir.Value, state: list[ir.Value], masks: _Masks | None, step: Step
) -> tuple[ir.Value, list[ir.Value]]:
    """All steps of both directions: Y, and the last states."""

    def turned(x: ir.Value) -> ir.Value:
        return mgx.reverse(x, [0]) if masks is None else masks.turned(x)

    # One product for both, whose weights stand side by side.
    w = emit.concat([_part(cell.w, 0), _part(cell.w, 1)], 1)
    _, size = ir.RankedTensorType(w.type).shape
    bias = cell.bias_w and emit.reshape(cell.bias_w, (size,))
    both = cell.product(x, w, bias)
    forwards, backwards = (emit.take(both, 2, i, i + size // 2) for i in (0, size // 2))
    projected = emit.stack([forwards, turned(backwards)], 0)

    def advance(here: ir.Value, state: list[ir.Value], number: Any) -> list[ir.Value]:
        mask = None
        if masks is not None:
            mask = emit.broadcast(emit.unsqueeze(masks.at(number), [0]), tensors.dims(state[0]))
        return _masked(mask, step(cell, here, state), state)

    every, final = _steps(projected, 1, state, advance, masks)
    now, later = (emit.squeeze(emit.take(every, 1, i, i + 1), [1]) for i in (0, 1))
    return emit.stack([now, turned(later)], 1), final


def _of_steps(node: Node, final: ir.Value, masks: _Masks | None) -> ir.Value:
    """A last state (directions, batch, hidden): zero where a sequence has no step."""
    known = node.known(4)
    if masks is None or (known is not None and (known > 0).all()):
        return final
    return emit.where(masks.at(0), final, 0)


def _part(x: ir.Value, number: int) -> ir.Value:
    return emit.squeeze(emit.take(x, 0, number, number + 1), [0])


@dataclass(frozen=True)
class _Cells:
    """The weights of a node, for one direction or both."""

    node: Node
    gates: int
    hidden: int
    weights: tuple[ir.Value, ir.Value]
    rounded: Activation

    def one(self, number: int, functions: list[Activation]) -> Cell:
        """A direction's cell."""
        backwards = self.node.attribute("direction") == "reverse" or number == 1
        return self._cell(lambda x: _part(x, number), lambda x: x, functions, backwards)

    def both(self, functions: list[Activation]) -> Cell:
        """The cell of both directions."""
        return self._cell(lambda x: x, lambda x: emit.unsqueeze(x, [1]), functions, False)

    def _cell(
        self,
        part: Activation,
        of_all: Activation,
        functions: list[Activation],
        backwards: bool,
    ) -> Cell:
        """`part`: of weights for all directions; `of_all`: of vectors that a whole batch shares."""
        node = self.node
        bias_w = bias_r = peepholes = None
        if node.given(3):
            bias, size = of_all(part(node.tensor(3))), self.gates * self.hidden
            axis = tensors.rank(bias) - 1
            bias_w, bias_r = (emit.take(bias, axis, i * size, (i + 1) * size) for i in (0, 1))
            if node.op_type != "GRU":  # a step adds both
                bias_w, bias_r = mgx.add(bias_w, bias_r), None
        if node.given(7):
            peepholes = of_all(part(node.tensor(7)))
        w, r = (part(x) for x in self.weights)
        return Cell(
            node, self.hidden, w, r, bias_w, bias_r, peepholes, functions, backwards, self.rounded
        )


def _weights(node: Node) -> tuple[ir.Value, ir.Value]:
    """The weights of inputs 1 and 2, with the gates last."""
    w, r = (emit.transpose(node.tensor(i), [0, 2, 1]) for i in (1, 2))
    return w, r


def _initial(
    node: Node, index: int, directions: int, x: ir.Value, hidden: int, batch_first: bool
) -> ir.Value:
    """A state of all directions before the first step: (directions, batch, hidden)."""
    batch = tensors.dims(x)[1]
    if not node.given(index):
        zero = np.zeros((), emit.numpy_type(x))
        return emit.filled(zero, (directions, batch, hidden))
    state = node.tensor(index)
    wanted = (batch, directions, hidden) if batch_first else (directions, batch, hidden)
    tensors.require(state, wanted, "a first state")
    return emit.transpose(state, [1, 0, 2]) if batch_first else state


def _masks(node: Node, x: ir.Value, hidden: int) -> _Masks | None:
    """Where sequences x are not over; None where all have the full length."""
    length = tensors.dims(x)[0]
    if not node.given(4):
        return None
    known = node.known(4)
    if known is not None and isinstance(length, int):
        if ((known < 0) | (known > length)).any():
            raise ModelError(f"sequence_lens of {known.tolist()} in {length} steps")
        if (known == length).all():
            return None
    lengths = emit.convert(node.tensor(4), "i64")
    steps = emit.broadcast(emit.size_of(x, 0), tensors.dims(lengths))
    return _Masks(mgx.min(lengths, steps), length, hidden)


def _functions(node: Node, directions: int, default: Sequence[str]) -> list[list[Activation]]:
    """The activations of each direction."""
    count = len(default)
    made = [activation_of(*settings) for settings in _settings(node, directions, default)]
    return [made[i * count : (i + 1) * count] for i in range(directions)]


def _are_equal(node: Node, default: Sequence[str]) -> bool:
    """Whether two directions have the same activations."""
    settings = _settings(node, 2, default)
    return settings[: len(default)] == settings[len(default) :]


def _all_of(names: list[str], count: int, directions: int) -> list[str]:
    """Too few names as MIGraphX reads them.

    The last one given goes on to the end of its direction, and one direction's are the other's.
    """
    if not names:
        return names
    ends = -(-len(names) // count) * count
    filled = names + names[-1:] * (ends - len(names))
    return filled * directions if len(filled) == count else filled


def _settings(
    node: Node, directions: int, default: Sequence[str]
) -> list[tuple[str, float | None, float | None]]:
    """Name, alpha and beta of the activations of all directions."""
    names = list(default) * directions
    if node.has_attribute("activations"):
        names = _all_of(list(node.attribute("activations")), len(default), directions)
    # RNN's default names both directions', which onnxruntime writes out for one direction too.
    if names == [*default, *default]:
        names = names[: len(default) * directions]
    if len(names) != len(default) * directions:
        raise ModelError(f"{len(names)} activations; {len(default) * directions} are needed")
    alphas = list(node.attribute("activation_alpha") or [])
    betas = list(node.attribute("activation_beta") or [])
    found = []
    for name in (str(name).lower() for name in names):
        alpha = alphas.pop(0) if alphas and name in TAKES_ALPHA else None
        beta = betas.pop(0) if betas and name in TAKES_BETA else None
        found.append((name, alpha, beta))
    return found


@operator("RNN", (7, 22), "dot add tanh slice concat")
def rnn(node: Node) -> Any:
    def step(cell: Cell, x: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        total = mgx.add(x, cell.product(state[0], cell.r, cell.bias_r))
        return [cell.functions[0](cell.clipped(total))]

    return _unrolled(node, 1, 1, ["Tanh"], step, _weights(node))


@operator("GRU", (7, 22), "dot add mul sigmoid tanh slice concat")
def gru(node: Node) -> Any:
    """Gates: update, reset, hidden."""
    before_reset = bool(node.attribute("linear_before_reset"))

    def step(cell: Cell, x: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        (h,) = state
        gate_function, hidden_function = cell.functions
        n, axis = cell.hidden, tensors.rank(cell.r) - 1
        if before_reset:
            recurrent = cell.product(h, cell.r, cell.bias_r)
        else:
            r, b = emit.take(cell.r, axis, 0, 2 * n), cell.bias_r
            of_gates = None if b is None else emit.take(b, tensors.rank(b) - 1, 0, 2 * n)
            recurrent = cell.product(h, r, of_gates)
        z, r = (
            gate_function(cell.clipped(mgx.add(cell.gate(x, i), cell.gate(recurrent, i))))
            for i in range(2)
        )
        if before_reset:
            hidden = mgx.mul(r, cell.gate(recurrent, 2))
        else:
            b = cell.bias_r
            hidden_bias = None if b is None else cell.gate(b, 2)
            hidden = cell.product(mgx.mul(r, h), cell.gate(cell.r, 2), hidden_bias)
        new = hidden_function(cell.clipped(mgx.add(cell.gate(x, 2), hidden)))
        # (1 - z) * new + z * h
        return [mgx.add(new, mgx.mul(z, mgx.sub(h, new)))]

    return _unrolled(node, 3, 1, ["Sigmoid", "Tanh"], step, _weights(node))


@operator("LSTM", (7, 22), "dot add mul sigmoid tanh slice concat")
def lstm(node: Node) -> Any:
    return lstm_of(node, _weights(node))


def lstm_of(
    node: Node, weights: tuple[ir.Value, ir.Value], rounded: Activation | None = None
) -> Any:
    """Gates: input, output, forget, cell. See `_unrolled`."""
    coupled = bool(node.attribute("input_forget"))

    def step(cell: Cell, x: ir.Value, state: list[ir.Value]) -> list[ir.Value]:
        h, c = state
        f, g, last = cell.functions
        total = mgx.add(x, cell.product(h, cell.r, cell.bias_r))

        def gate(number: int, memory: ir.Value, function: Activation) -> ir.Value:
            value = cell.gate(total, number)
            if cell.peepholes is not None and number < 3:
                value = mgx.add(value, emit.mul(memory, cell.gate(cell.peepholes, number)))
            return function(cell.clipped(value))

        i = gate(0, c, f)
        forget = emit.add(mgx.neg(i), 1) if coupled else gate(2, c, f)
        new = mgx.add(mgx.mul(forget, c), mgx.mul(i, gate(3, c, g)))
        return [mgx.mul(gate(1, new, f), last(new)), new]

    return _unrolled(node, 4, 2, ["Sigmoid", "Tanh", "Tanh"], step, weights, rounded)
