"""The exceptions of the project: what the user did, and what the compiler did wrong."""

from __future__ import annotations


class MgxError(Exception):
    """Root of every error that this package raises on purpose."""


class UserError(MgxError):
    """Something outside the compiler has to change: the model, a file, an option."""


class ModelError(UserError):
    """The model is malformed: it does not say what to compute."""


class UnsupportedError(UserError):
    """The model is well-formed but holds something that is not supported.

    `nodes` lists every such node, so that one run shows them all.
    """

    def __init__(self, message: str, nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nodes = nodes


class ArtifactError(UserError):
    """An artifact is damaged, hostile, or of a version that this one cannot read."""


class TargetError(UserError):
    """A target is not known, or cannot do what was asked of it."""


class UsageError(UserError):
    """A call or a command line is wrong: a name, a shape, a type, an option."""


class CompilerError(MgxError):
    """A fault of the compiler. The message names the reproducer, where one was written."""


class DeviceError(MgxError):
    """A HIP call failed, or there is no HIP to call.

    `name` is HIP's name of the error ('' where no call was made), `call` the function, and
    `kernel` what was to be launched, where it was a launch.
    """

    def __init__(self, message: str, name: str = "", call: str = "", kernel: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.call = call
        self.kernel = kernel
