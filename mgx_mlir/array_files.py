"""Files of numpy: .npy and .npz, read without the code that they could hold."""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import Literal

import numpy as np

from mgx_mlir.errors import UsageError


def read_arrays(
    file: str | os.PathLike[str], mmap_mode: Literal["r"] | None = None
) -> np.ndarray | dict[str, np.ndarray]:
    """The array of an .npy file, or the arrays of an .npz file by name.

    An .npy file may be mapped. Raises UsageError for other files, and for Python objects.
    """
    try:
        found = np.load(Path(file), mmap_mode, allow_pickle=False)
        return found if isinstance(found, np.ndarray) else dict(found)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if re.search("Object arrays|Python objects", str(error)):
            raise UsageError(
                f"{file} holds Python objects, which can hold code and are not read; save arrays "
                "of numbers, or of text (dtype str)"
            ) from error
        # Numpy takes what it does not know for a pickle, and advises to allow these.
        raise UsageError(
            f"{file} is no .npy file, nor an .npz file, or is damaged; save arrays with numpy.save "
            "or numpy.savez"
        ) from error


def read_array(file: str | os.PathLike[str], mmap_mode: Literal["r"] | None = None) -> np.ndarray:
    """The array of an .npy file. Raises UsageError where there is none, or several."""
    found = read_arrays(file, mmap_mode)
    if isinstance(found, dict):
        raise UsageError(f"{file} holds several arrays; save one with numpy.save")
    return found
