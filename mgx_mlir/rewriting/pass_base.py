"""A pass: a frozen dataclass with a name, options as fields, and `apply`.

The class variable `name` is kebab-case, the fields are the options, `apply` does the work. The
textual form (`mgx-fuse-pointwise{max-ops=8}`) and the fields convert both ways.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, get_type_hints

from mlir import ir

from mgx_mlir.artifact.target import Target
from mgx_mlir.artifact.weights import WeightStore
from mgx_mlir.errors import UsageError

# The passes that the driver runs after a pass that asks for clean-up.
CLEANUP = ("canonicalize", "cse")


@dataclass
class Budget:
    """An amount of work that is left; None until a pass asks for it."""

    left: int | None = None

    def spend(self, work: int) -> bool:
        """Whether so much is left; subtracts it then."""
        if self.left is None or work > self.left:
            return False
        self.left -= work
        return True


@dataclass
class PassContext:
    """The inputs of a pass beside the module. `target` is None where no chip is known."""

    weights: WeightStore = field(default_factory=WeightStore)
    target: Target | None = None
    # The kind of target that the program is for; "gpu" where it is for any.
    kind: str = "gpu"
    # Whether the model's formulas are kept, and the signs of zeros with them.
    exact: bool = False
    # The passes that run after a pass that asks for clean-up.
    cleanup: tuple[str, ...] = CLEANUP
    # Elements that all passes together may spend on computing constants.
    folding: Budget = field(default_factory=Budget)
    # Rewrites that fired, as (pass, rewrite, node): what `--explain` prints.
    fired: list[tuple[str, str, str]] = field(default_factory=list)
    current: str = ""

    def note(self, rewrite: str, node: str) -> None:
        """Records that a rewrite of the running pass fired at an ONNX node."""
        self.fired.append((self.current, rewrite, node))


@dataclass(frozen=True)
class Pass(ABC):
    """A pass over a module. Subclasses are frozen dataclasses; their docstring is the help.

    An option that is an integer is 0 or more; the metadata of its field may say what is its
    `least` value, and of what number it is a `multiple_of`.
    """

    name: ClassVar[str]
    # Whether the driver removes the dead and duplicated ops that the pass leaves.
    cleanup: ClassVar[bool] = False
    # Whether the pass may look at `context.target`.
    knows_chip: ClassVar[bool] = False
    # Whether floats are computed by another formula, and so rounded differently.
    rounds: ClassVar[bool] = False
    # Whether no program can be made without the pass.
    required: ClassVar[bool] = False
    # Whether the pass is right, and useful, for symbolic sizes.
    symbolic: ClassVar[bool] = False
    # The oldest version of the portable form whose readers know all that the pass makes.
    since: ClassVar[tuple[int, int]] = (1, 0)

    def __post_init__(self) -> None:
        for option in dataclasses.fields(self):
            value, limits = getattr(self, option.name), option.metadata
            least, step = limits.get("least", 0), limits.get("multiple_of", 1)
            if type(value) is not int or (value >= least and value % step == 0):
                continue
            allowed = f"{least} or more" + (f", in multiples of {step}" if step > 1 else "")
            label = option.name.replace("_", "-")
            raise UsageError(f"{self.name}: option '{label}' takes {allowed}, not {value}")

    @abstractmethod
    def apply(self, module: ir.Module, context: PassContext) -> None:
        """Changes the module in place."""

    def __str__(self) -> str:
        """The pass in pipeline text, with the options that differ from their defaults."""
        options = [
            f"{option.name.replace('_', '-')}={option_text(getattr(self, option.name))}"
            for option in dataclasses.fields(self)
            if getattr(self, option.name) != option.default
        ]
        return self.name + (f"{{{' '.join(options)}}}" if options else "")

    @classmethod
    def from_options(cls, text: str) -> Pass:
        """The pass with the options in `text` ('max-ops=8 flag=true')."""
        types = get_type_hints(cls)
        known = {option.name: types[option.name] for option in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for word in text.split():
            key, has_value, value = word.partition("=")
            name = key.replace("-", "_")
            if name not in known:
                allowed = ", ".join(n.replace("_", "-") for n in known) or "none"
                raise UsageError(f"{cls.name} has no option '{key}'; it has: {allowed}")
            if name in values:
                raise UsageError(f"{cls.name}: option '{key}' is given twice")
            values[name] = _option_value(cls.name, key, known[name], value if has_value else "true")
        return cls(**values)


def option_text(value: Any) -> str:
    """An option's value as pipeline text has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(str(v) for v in value)
    return str(value)


def _option_value(owner: str, option: str, kind: Any, text: str) -> Any:
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind in (int, float, str):
            return kind(text)
        item = kind.__args__[0]
        return tuple(item(part) for part in text.split(",") if part)
    except (KeyError, ValueError) as error:
        expected = getattr(kind, "__name__", str(kind))
        message = f"{owner}: option '{option}' takes {expected}, not '{text}'"
        raise UsageError(message) from error
