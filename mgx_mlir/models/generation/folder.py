"""Folders of decoders: onnxruntime-genai's, and those of Hugging Face with ONNX files.

    folder = Folder.open("phi-4-mini", precision="q4")
    tokens = mgx_mlir.generate(folder, folder.ids(["Once upon"]))
    print(folder.text(tokens[0]))

A folder names the model's file, its inputs and outputs, the tokens that end an answer, how tokens
are drawn, and the tokenizer. Nothing in it is executed but the chat template, in jinja2's sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mgx_mlir.errors import ModelError, UnsupportedError, UsageError
from mgx_mlir.importer import loading, prepare
from mgx_mlir.importer.structure import all_nodes, subgraphs
from mgx_mlir.models.generation.decoder import DEFAULT_TOKENS
from mgx_mlir.models.generation.sampling import Sampling
from mgx_mlir.models.generation.text import Text
from mgx_mlir.suggest import instead, listed

GENAI = "genai_config.json"
_CONFIG = "config.json"

# The sections of a genai_config.json beside the decoder, and the files of Hugging Face's folders,
# that make a model more than a decoder of tokens.
_SECTIONS = ("embedding", "encoder", "speech", "vision")
_OTHER_FILES = ("audio_encoder", "embed_tokens", "encoder_model", "vision_encoder")

# The inputs of a genai decoder, by their keys in the file, and their names here. With '%d': one for
# each layer.
_INPUTS = {
    "attention_mask": "attention_mask",
    "cache_position": "cache_position",
    "current_sequence_length": "seqlens_k",
    "input_ids": "input_ids",
    "past_key_names": "past_key_values.%d.key",
    "past_names": "past_key_values.%d",
    "past_value_names": "past_key_values.%d.value",
    "position_ids": "position_ids",
    "total_sequence_length": "total_sequence_length",
}
_OUTPUTS = {
    "logits": "logits",
    "present_key_names": "present.%d.key",
    "present_names": "present.%d",
    "present_value_names": "present.%d.value",
}
# Inputs that say how many logits to compute, with the value for all.
_ALL_LOGITS = ("logits_to_keep", "num_logits_to_keep")

# Settings of searches that follow several sequences, and how many tokens are drawn from where
# neither onnxruntime-genai's nor Hugging Face's file says it: their own default.
_BEAMS = ("num_beams", "num_return_sequences")
_TOP_K = 50

# Hugging Face's files: the decoder's name, then the precision's ending.
_STEMS = ("decoder_model_merged", "model", "decoder_with_past_model")
_PRECISIONS = {
    "fp32": "", "fp16": "_fp16", "q8": "_quantized", "int8": "_int8", "uint8": "_uint8",
    "q4": "_q4", "q4f16": "_q4f16", "bnb4": "_bnb4",
}  # fmt: skip


@dataclass(frozen=True)
class Folder:
    """A decoder with all that a folder says about it.

    `names`: those of inputs and outputs that are called otherwise here. `stop` are the tokens that
    end an answer, `most` how many tokens there may be in all, `length` with how many an answer
    ends that has no other limit, `heads` those of a cache, and `size` the elements of each: 0 where
    it is not said.
    """

    path: Path
    model: Path
    stop: tuple[int, ...] = ()
    pad: int = 0
    most: int = 0
    length: int = 0
    heads: int = 0
    size: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    names: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def open(path: Any, precision: str = "") -> Folder:
        """Reads a folder. `precision` chooses among Hugging Face's files: 'q4', 'fp16' ...

        Raises ModelError where it is none or damaged, UnsupportedError naming a part that is not
        supported, UsageError for a precision that there is not.
        """
        path = Path(path)
        if not path.is_dir():
            raise ModelError(f"{path} is no folder")
        if (path / GENAI).is_file():
            if precision:
                raise UsageError(f"{path} is of onnxruntime-genai: its precision is the model's")
            return _of_genai(path)
        return _of_hugging_face(path, precision)

    def source(self) -> loading.Source:
        """The model, its inputs and outputs by the names that generation knows."""
        source = loading.load(self.model)
        _rename(source, self.names)
        _size_caches(source, self.heads, self.size)
        fixed = {n: np.zeros((), np.int64) for n in _ALL_LOGITS if n in source.inputs}
        return prepare.fix_inputs(source, fixed) if fixed else source

    def room(self, prompts: Sequence[Sequence[int]], wanted: int | None = None) -> int:
        """How many tokens an answer may have: those wanted, as far as the model's length allows.

        Raises UsageError for a prompt that leaves no room.
        """
        longest = max(map(len, prompts), default=0)
        end = min(filter(None, (self.most, self.length if wanted is None else 0)), default=0)
        if end and longest >= end:
            raise UsageError(
                f"a prompt has {longest} tokens, and {self.path.name} takes {end} with its answer"
            )
        if wanted is None:
            wanted = self.length - longest if self.length else DEFAULT_TOKENS
        return min(wanted, end - longest) if end else wanted

    @cached_property
    def words(self) -> Text:
        """The tokenizer and the chat template. Raises UsageError where a package is missing."""
        return Text(self.path)

    def ids(self, prompts: Sequence[str]) -> list[list[int]]:
        """The tokens of texts."""
        return [self.words.encode(prompt) for prompt in prompts]

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """The tokens of a chat, which has the role and the content of each message."""
        return self.words.chat(messages)

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self.words.decode(tokens)


def _of_genai(path: Path) -> Folder:
    config = read_json(path / GENAI)
    model = _section(config, "model", path)
    for name in _SECTIONS:
        if name in model:
            raise UnsupportedError(
                f"{path.name} has the section '{name}' in {GENAI}; generation takes decoders of "
                "tokens alone"
            )
    decoder = _section(model, "decoder", path)
    if "filename" not in decoder:
        way = "a pipeline of models" if "pipeline" in decoder else "no file"
        raise UnsupportedError(f"{path.name}: its decoder has {way}; one model is supported")
    search = config.get("search", {})
    context = int(model.get("context_length") or 0)
    length = int(search.get("max_length") or 0)
    names = {
        **_named(decoder.get("inputs", {}), _INPUTS, decoder, path),
        **_named(decoder.get("outputs", {}), _OUTPUTS, decoder, path),
    }
    return Folder(
        path,
        _inside(path, decoder["filename"]),
        _tokens(model.get("eos_token_id")),
        (_tokens(model.get("pad_token_id")) or (0,))[0],
        context,
        length if length < context or not context else 0,
        int(decoder.get("num_key_value_heads") or 0),
        int(decoder.get("head_size") or 0),
        _sampling(search, path / GENAI),
        names,
    )


def _named(given: Mapping[str, str], known: Mapping[str, str], decoder: Mapping[str, Any],
           path: Path) -> dict[str, str]:  # fmt: skip
    """The names here of a genai decoder's inputs or outputs that are called otherwise in it."""
    found: dict[str, str] = {}
    layers = range(int(decoder.get("num_hidden_layers", 0)))
    for key, pattern in given.items():
        if key not in known:
            raise UnsupportedError(
                f"{path.name}: the decoder has '{key}' ({pattern}) in {GENAI}; generation knows "
                f"{listed(known)}"
            )
        if "%d" in pattern:
            found |= {pattern % layer: known[key] % layer for layer in layers}
        else:
            found[pattern] = known[key]
    return {name: here for name, here in found.items() if name != here}


def _of_hugging_face(path: Path, precision: str) -> Folder:
    config = read_json(path / _CONFIG) if (path / _CONFIG).is_file() else {}
    home = path / "onnx" if (path / "onnx").is_dir() else path
    there = {file.stem for file in home.glob("*.onnx")}
    if not there:
        raise ModelError(
            f"{path} is a folder without a decoder: it has neither {GENAI} nor .onnx files"
        )
    for name in _OTHER_FILES:
        found = sorted(stem for stem in there if stem.startswith(name))
        if found:
            raise UnsupportedError(
                f"{path.name} has {found[0]}.onnx; generation takes decoders of tokens alone"
            )
    defaults = path / "generation_config.json"
    said = {**config, **(read_json(defaults) if defaults.is_file() else {})}
    return Folder(
        path,
        home / f"{_chosen(path, there, precision)}.onnx",
        _tokens(said.get("eos_token_id")),
        (_tokens(said.get("pad_token_id")) or (0,))[0],
        0,
        0,
        int(config.get("num_key_value_heads") or config.get("num_attention_heads") or 0),
        int(config.get("head_dim") or 0),
        _sampling(said, defaults),
    )


def _chosen(path: Path, there: set[str], precision: str) -> str:
    """The name of the decoder's file: of the wanted precision, else of the greatest there is."""
    if precision and precision not in _PRECISIONS:
        hint = instead(precision, _PRECISIONS, f"there are: {listed(_PRECISIONS)}")
        raise UsageError(f"there is no precision '{precision}'; {hint}")
    found = {
        name: stem + ending
        for name, ending in _PRECISIONS.items()
        for stem in reversed(_STEMS)
        if stem + ending in there
    }
    if precision and precision not in found:
        raise UsageError(f"{path} has no file of precision '{precision}'; it has {listed(found)}")
    if found:
        return found[precision or next(iter(found))]
    if len(there) == 1:
        return next(iter(there))
    raise ModelError(
        f"{path}: which file is the decoder? There are {listed(sorted(there))}; give the file"
    )


def _rename(source: loading.Source, names: Mapping[str, str]) -> None:
    """Gives values of a model other names, in its graph and those inside of it."""
    own = {*source.inputs, *(value.name for value in source.model.graph.output)}
    names = {old: new for old, new in names.items() if old in own}
    if not names:
        return
    graphs = [source.model.graph]
    graphs += [g for node in all_nodes(source.model.graph) for g in subgraphs(node)]
    for graph in graphs:
        for value in (*graph.input, *graph.output, *graph.value_info):
            value.name = names.get(value.name, value.name)
        for node in graph.node:
            for lines in (node.input, node.output):
                lines[:] = [names.get(name, name) for name in lines]
    source.inputs = tuple(names.get(name, name) for name in source.inputs)


def _size_caches(source: loading.Source, heads: int, size: int) -> None:
    """Gives the heads of caches, and the elements of each, where the model leaves them open."""
    for value in source.model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if not value.name.startswith("past_key_values.") or len(dims) < 4:
            continue
        for dim, known in ((dims[len(dims) - 3], heads), (dims[len(dims) - 1], size)):
            if known and not dim.HasField("dim_value"):
                dim.dim_value = known


def _sampling(said: Mapping[str, Any], file: Path) -> Sampling:
    """How tokens are drawn: the likeliest where sampling is not asked for."""
    for name in _BEAMS:
        if int(said.get(name) or 1) > 1:
            raise UnsupportedError(
                f"{file} has {name} {said[name]}; generation follows one sequence a prompt: set it "
                "to 1"
            )
    kept = Sampling(
        repetition_penalty=float(said.get("repetition_penalty") or 1.0),
        seed=max(0, int(said.get("random_seed") or 0)),
        min_length=int(said.get("min_length") or 0),
        no_repeat_ngram_size=int(said.get("no_repeat_ngram_size") or 0),
    )
    if not said.get("do_sample"):
        return kept
    temperature, most = said.get("temperature"), said.get("top_k")
    return replace(
        kept,
        temperature=1.0 if temperature is None else float(temperature),
        top_k=_TOP_K if most is None else int(most),
        top_p=float(said.get("top_p") or 1.0),
    )


def _tokens(value: Any) -> tuple[int, ...]:
    """The tokens of a setting, which is one, a list, or null."""
    if value is None:
        return ()
    listing = value if isinstance(value, list) else [value]
    return tuple(int(token) for token in listing)


def _section(config: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    found = config.get(name)
    if not isinstance(found, dict):
        raise ModelError(f"{path / GENAI} has no section '{name}'")
    return found


def _inside(path: Path, name: str) -> Path:
    """A file of the folder: a download may name others."""
    file = path / str(name)
    if not file.resolve().parent.is_relative_to(path.resolve()):
        raise ModelError(f"{path / GENAI} names {name}, outside of its folder")
    return file


def read_json(file: Path) -> dict[str, Any]:
    """The object of a JSON file. Raises ModelError."""
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: {error}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{file} is no JSON object")
    return found
