"""ImageDecoder, by Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError, UsageError
from mgx_mlir.models.host.table import Call, Kind, host_operator

# The file formats that ONNX names. Pillow knows more, some of which start programs.
_FORMATS = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
_MODES = {"RGB": "RGB", "BGR": "RGB", "Grayscale": "L"}


@host_operator("ImageDecoder", Kind.IMAGES)
def image_decoder(call: Call) -> Any:
    """The bytes of an image file to its pixels, uint8 [height, width, channels]."""
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError("images are decoded by Pillow: pip install mgx-mlir[images]") from error
    wanted = call.attribute("pixel_format")
    if wanted not in _MODES:
        raise ModelError(f"pixel_format = {wanted}; {', '.join(_MODES)} are known")
    data = io.BytesIO(call.array(0).tobytes())
    try:
        with Image.open(data, formats=_FORMATS) as image:
            pixels = np.asarray(image.convert(_MODES[wanted]))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ModelError(f"its input is no image that can be decoded: {error}") from error
    if wanted == "Grayscale":
        return [pixels[:, :, None]]
    return [pixels[:, :, ::-1] if wanted == "BGR" else pixels]
