"""libmgx, the runtime as a C library, through ctypes: the structs of mgx.h, and checked calls."""

from __future__ import annotations

import atexit
import ctypes
import logging
from collections.abc import Generator
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from mgx_mlir import errors
from mgx_mlir.errors import CompilerError, MgxError

_log = logging.getLogger("mgx_mlir.libmgx")

_INTERFACE = 1
_WARNING = 2  # an mgx_level
_PATH = Path(__file__).parents[1] / "_native" / "libmgx.so"
# mgx_error_kind.
_KINDS: dict[int, type[MgxError]] = {
    1: errors.UsageError,
    2: errors.ArtifactError,
    3: errors.TargetError,
    4: errors.ResourceError,
    5: errors.DeviceError,
    6: errors.ModelError,
    7: errors.UserError,
    8: errors.CompilerError,
}


def _struct(kind: str, /, **fields: Any) -> type[ctypes.Structure]:
    """A struct that begins with its size."""
    members = [("struct_bytes", c_size_t), *fields.items()]
    return type(kind, (ctypes.Structure,), {"_fields_": members})


class Tensor(ctypes.Structure):
    """mgx_tensor."""

    _fields_ = (
        ("data", c_void_p),
        ("sizes", POINTER(c_int64)),
        ("rank", c_uint32),
        ("type", c_uint32),
        ("memory", c_uint32),
        ("flags", c_uint32),
        ("bytes", c_uint64),
    )


class Weight(ctypes.Structure):
    """mgx_weight."""

    _fields_ = (
        ("key", c_char_p),
        ("data", c_void_p),
        ("bytes", c_uint64),
        ("type", c_uint32),
        ("flags", c_uint32),
        ("sha256", c_char_p),
    )


class Code(ctypes.Structure):
    """mgx_code."""

    _fields_ = (("record", c_char_p), ("data", c_char_p), ("bytes", c_uint64))


SPLAT, MAPPED = 1, 2
OpenOptions = _struct("OpenOptions", allow_absolute=c_int32, borrow=c_int32, folder=c_char_p)
Assembly = _struct(
    "Assembly", plan=c_char_p, code=POINTER(Code), codes=c_size_t, weights=POINTER(Weight),
    weight_count=c_size_t,
)  # fmt: skip
ProgramOptions = _struct(
    "ProgramOptions", trust_code=c_int32, graph=c_int32, trusted_keys=c_void_p,
    trusted_key_count=c_size_t, cache_dir=c_char_p, kept_sizes=c_int32,
)  # fmt: skip
InterruptedFunction = ctypes.CFUNCTYPE(c_int32, c_void_p)
Span = _struct("Span", thread=c_uint64, step=c_uint64, start=ctypes.c_double, end=ctypes.c_double)
SpanFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(Span))
RunOptions = _struct(
    "RunOptions", stream=c_void_p, on_stream=c_int32, graph=c_int32,
    interrupted=InterruptedFunction, user=c_void_p, span=SpanFunction, events=c_void_p,
    event_count=c_size_t,
)  # fmt: skip
HipError = _struct("HipError", name=c_char_p, call=c_char_p, kernel=c_char_p)
DeviceOptions = _struct("DeviceOptions", hip_library=c_char_p)
Sizes = _struct("Sizes", workspace_bytes=c_uint64, launches=c_uint64, decides=c_int32)
ProfileRow = _struct(
    "ProfileRow", nodes=c_char_p, function=c_char_p, seconds=ctypes.c_double, bytes=c_uint64,
    operations=c_uint64, step=c_uint64, kernel=c_int64,
)  # fmt: skip
ProgramInfo = _struct(
    "ProgramInfo", target=c_char_p, weight_bytes=c_uint64, kept_bytes=c_uint64, bindings=c_uint64,
    runs=c_uint64,
)  # fmt: skip
Rates = _struct(
    "Rates", bytes_per_second=ctypes.c_double, flops_per_second=ctypes.c_double,
    compute_units=ctypes.c_double,
)  # fmt: skip
ProfileFunction = ctypes.CFUNCTYPE(None, c_void_p, POINTER(ProfileRow))
LogFunction = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, c_char_p)
TextFunction = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)

# The functions that fail, without the result, and the types of their arguments.
_TENSORS = (c_void_p, c_size_t)
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "mgx_artifact_assemble": (c_void_p, c_void_p),
    "mgx_artifact_bind": (c_void_p, *_TENSORS, c_void_p, TextFunction, c_void_p),
    "mgx_artifact_check": (c_void_p, c_int32),
    "mgx_artifact_open_memory": (c_void_p, c_size_t, c_void_p, c_void_p),
    "mgx_code_function": (c_void_p, c_char_p, c_void_p),
    "mgx_code_load": (c_char_p, c_size_t, c_void_p),
    "mgx_done": (c_void_p, c_void_p),
    "mgx_device_open": (c_char_p, c_void_p, c_void_p),
    "mgx_profile": (c_void_p, *_TENSORS, *_TENSORS, ProfileFunction, c_void_p),
    "mgx_program_create": (c_void_p, c_void_p, c_void_p, c_void_p),
    "mgx_program_get_info": (c_void_p, c_void_p),
    "mgx_program_launches": (c_void_p, *_TENSORS, ProfileFunction, c_void_p),
    "mgx_program_plan": (c_void_p, *_TENSORS, TextFunction, c_void_p),
    "mgx_program_sizes": (c_void_p, *_TENSORS, *_TENSORS, c_void_p),
    "mgx_run": (c_void_p, *_TENSORS, *_TENSORS, c_void_p),
    "mgx_run_async": (c_void_p, *_TENSORS, *_TENSORS, c_void_p, c_void_p),
    "mgx_wait": (c_void_p,),
}
_RELEASES = ("artifact", "code", "device", "error", "program")


@cache
def library() -> ctypes.CDLL:
    """The package's libmgx. Raises CompilerError where it is not built, or of another version."""
    if not _PATH.exists():
        raise CompilerError(f"{_PATH} is missing: the native parts are not built; run `make setup`")
    found = ctypes.CDLL(str(_PATH))
    if found.mgx_interface() != _INTERFACE:
        raise CompilerError(f"{_PATH} is of another version; run `make setup`")
    for name, arguments in _FUNCTIONS.items():
        function = getattr(found, name)
        function.argtypes, function.restype = arguments, c_void_p
    for name in _RELEASES:
        function = getattr(found, f"mgx_{name}_release")
        function.argtypes, function.restype = (c_void_p,), None
    found.mgx_error_text.argtypes, found.mgx_error_text.restype = (c_void_p,), c_char_p
    found.mgx_error_kind_of.argtypes = (c_void_p,)
    found.mgx_error_get_hip.argtypes, found.mgx_error_get_hip.restype = (c_void_p, c_void_p), None
    for function in (found.mgx_log_to, found.mgx_log_end):
        function.argtypes, function.restype = (LogFunction, c_void_p), None
    found.mgx_log_to(_heard, None)
    atexit.register(found.mgx_log_end, _heard, None)  # nobody hears while the process ends
    return found


def _hear(_: Any, level: int, text: bytes) -> None:
    """The library's words, in Python's log."""
    _log.log(logging.WARNING if level == _WARNING else logging.INFO, "%s", text.decode())


_heard = LogFunction(_hear)


def check(error: int | None) -> None:
    """Raises the exception of an mgx_error, which it releases; nothing for NULL."""
    if not error:
        return
    found = library()
    kind = _KINDS[found.mgx_error_kind_of(error)]
    text = found.mgx_error_text(error).decode(errors="replace")
    hip = made(HipError)
    found.mgx_error_get_hip(error, ctypes.byref(hip))
    facts = [part.decode(errors="replace") for part in (hip.name, hip.call, hip.kernel)]
    found.mgx_error_release(error)
    raise errors.DeviceError(text, *facts) if facts[0] else kind(text)


def call(name: str, *arguments: Any) -> None:
    """Calls a function that can fail. Raises the exception of its error."""
    check(getattr(library(), name)(*arguments))


def made(kind: type[ctypes.Structure], **values: Any) -> Any:
    """A struct with its size."""
    return kind(ctypes.sizeof(kind), **values)


class Handle:
    """An object of the library, released with this one."""

    __slots__ = ("_release", "value")

    def __init__(self, name: str, release: str, *arguments: Any) -> None:
        """Calls the function that makes the object. Raises the exception of its error."""
        self.value: int | None = None
        self._release = getattr(library(), release)
        handle = c_void_p()
        call(name, *arguments, ctypes.byref(handle))
        self.value = handle.value

    def __del__(self) -> None:
        if self.value is not None:
            self._release(self.value)


class Interruptible:
    """Options of a run whose loops let signals of Python, such as Ctrl-C, end it."""

    def __init__(self, options: Any = None) -> None:
        """`options`: those of the run beside."""
        self._raised: BaseException | None = None
        answers = self._answers()
        next(answers)
        self._ask = InterruptedFunction(answers.send)
        self._options = made(RunOptions) if options is None else options
        self._options.interrupted = self._ask

    def _answers(self) -> Generator[int, Any, None]:
        """Whether the run is interrupted, again and again.

        Handlers of signals run where Python goes on, so inside of the block. A function would go on
        before its first line.
        """
        while True:
            try:
                yield int(self._raised is not None)
            except GeneratorExit:
                return
            except BaseException as error:
                self._raised = error

    def __enter__(self) -> Any:
        return ctypes.byref(self._options)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._raised is not None:
            raise self._raised from None
