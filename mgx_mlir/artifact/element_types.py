"""The element types of a program's tensors as numpy has them."""

from __future__ import annotations

import numpy as np

from mgx_mlir.errors import UserError


def numpy_dtype(name: str) -> np.dtype:
    """The numpy type of an element type's name; numpy's own or that of ml_dtypes.

    ml_dtypes is loaded for its types alone. Raises UserError where it is not installed.
    """
    try:
        return np.dtype(name)
    except TypeError:
        pass  # none of numpy's own
    try:
        import ml_dtypes
    except ImportError as error:
        raise UserError(f"tensors of {name} need ml_dtypes; pip install ml_dtypes") from error
    return np.dtype(getattr(ml_dtypes, name))
