"""Draws what a detector's export finds on a picture.

    python examples/detect.py yolo.onnx street.jpg found.png [--target gfx942] [--score 0.4]

The model has one input of pixels from 0 to 1, (1, 3, height, width) or (3, height, width).
It gives boxes, scores and classes as torchvision's detectors do, or (1, n, 6) of corners, score
and class, or YOLO's (1, 4 + classes, n), which gets a NonMaxSuppression here. Needs Pillow.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from PIL import Image, ImageDraw

import mgx_mlir

# The sides of a picture for a model of open sizes are multiples of this.
STEP = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--score", type=float, default=0.25, help="the least that counts")
    options = parser.parse_args()
    source = onnx.load(options.model)
    raw = is_raw(source)
    if raw:
        add_suppression(source, options.score)
    model = mgx_mlir.Model(source, options.target)
    (name,) = model.input_types
    given = next(value for value in source.graph.input if value.name == name)
    dims = [dim.dim_value for dim in given.type.tensor_type.shape.dim]  # 0: open
    with Image.open(options.picture) as opened:
        picture = opened.convert("RGB")
    height, width = (
        size or max(side // STEP, 1) * STEP
        for size, side in zip(dims[-2:], (picture.height, picture.width), strict=True)
    )
    pixels = np.asarray(picture.resize((width, height)), np.float32).transpose(2, 0, 1) / 255
    fed = pixels[None] if len(dims) == 4 else pixels
    results = list(model.run({name: fed}).values())
    found = suppressed(results) if raw else listed(results)
    scale = np.tile([picture.width / width, picture.height / height], 2)
    draw = ImageDraw.Draw(picture)
    for *corners, score, kind in found:
        if score >= options.score:
            box = [round(float(c)) for c in np.array(corners) * scale]
            draw.rectangle(box, outline=(255, 0, 0), width=2)
            draw.text((box[0] + 3, box[1] + 3), f"{int(kind)}: {score:.2f}", fill=(255, 0, 0))
            print(f"class {int(kind)}, score {score:.2f}, box {box}")
    picture.save(options.output)


def is_raw(model: onnx.ModelProto) -> bool:
    """Whether the model gives YOLO's (1, 4 + classes, n), boxes by their centres."""
    dims = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
    return len(model.graph.output) == 1 and len(dims) == 3 and dims[2] != 6


def add_suppression(model: onnx.ModelProto, least: float) -> None:
    """Adds an output `kept`: (image, class, place) of each box that no better one covers."""
    graph, given = model.graph, model.graph.output[0].name
    numbers = {"zero": [0], "four": [4], "end": [1 << 40], "axis": [1], "most": [100]}
    values = {f"nms/{n}": np.array(v, np.int64) for n, v in numbers.items()}
    values |= {
        "nms/overlap": np.array([0.45], np.float32),
        "nms/least": np.array([least], np.float32),
    }
    graph.initializer.extend(numpy_helper.from_array(v, n) for n, v in values.items())
    graph.node.extend([
        helper.make_node("Slice", [given, "nms/zero", "nms/four", "nms/axis"], ["nms/centres"]),
        helper.make_node("Transpose", ["nms/centres"], ["nms/boxes"], perm=[0, 2, 1]),
        helper.make_node("Slice", [given, "nms/four", "nms/end", "nms/axis"], ["nms/scores"]),
        helper.make_node(
            "NonMaxSuppression",
            ["nms/boxes", "nms/scores", "nms/most", "nms/overlap", "nms/least"],
            ["kept"], "nms", center_point_box=1,
        ),
    ])  # fmt: skip
    graph.output.append(helper.make_tensor_value_info("kept", onnx.TensorProto.INT64, ["found", 3]))


def suppressed(results: list[np.ndarray]) -> np.ndarray:
    """(n, 6): corners, score and class of YOLO's boxes that are kept."""
    (boxes,), kept = results
    kinds, places = kept[:, 1], kept[:, 2]
    centre, half = boxes[:2, places].T, boxes[2:4, places].T / 2
    score = boxes[4 + kinds, places]
    return np.column_stack([centre - half, centre + half, score, kinds])


def listed(results: list[np.ndarray]) -> np.ndarray:
    """(n, 6): corners, score and class, of outputs in any order."""
    if len(results) == 1:
        rows: np.ndarray = results[0].reshape(-1, 6)
        return rows
    boxes = next(r for r in results if r.shape[-1:] == (4,) and r.ndim > 1).reshape(-1, 4)
    others = [r.reshape(-1) for r in results if r.ndim == 1 or r.shape[-1] != 4]
    score = next(r for r in others if r.dtype.kind == "f")
    kind = next(r for r in others if r.dtype.kind in "iu")
    return np.column_stack([boxes, score, kind])


if __name__ == "__main__":
    main()
