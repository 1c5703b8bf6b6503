"""Folders of decoders: which file, names, tokens and settings they give, and what is refused."""

from __future__ import annotations

import json
import os
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mgx_mlir
from mgx_mlir.errors import ModelError, UnsupportedError, UsageError
from mgx_mlir.models.generation import Folder, Sampling
from mgx_mlir.tools.mgx import main
from test.decoder_models import LAYERS, VOCABULARY, llama
from test.test_examples import EXAMPLES, LETTERS

TEMPLATE = (
    "{{ bos_token }}{% for one in messages %}{{ one['content'] + ';' }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)


def write(folder: Path, name: str, value: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value))


def renamed(model: onnx.ModelProto, old: str, new: str) -> onnx.ModelProto:
    for value in (*model.graph.input, *model.graph.output):
        value.name = value.name.replace(old, new)
    for node in model.graph.node:
        for lines in (node.input, node.output):
            lines[:] = [name.replace(old, new) for name in lines]
    return model


@pytest.fixture
def genai(tmp_path: Path) -> Path:
    """A folder whose model calls its caches otherwise."""
    path = tmp_path / "genai"
    path.mkdir()
    model = renamed(renamed(llama(), "past_key_values.", "cache_in_"), "present.", "cache_out_")
    onnx.save(model, path / "decoder.onnx")
    decoder = {
        "filename": "decoder.onnx",
        "num_hidden_layers": LAYERS,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "position_ids": "position_ids",
            "past_key_names": "cache_in_%d.key",
            "past_value_names": "cache_in_%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "cache_out_%d.key",
            "present_value_names": "cache_out_%d.value",
        },
    }
    model = {"decoder": decoder, "eos_token_id": [5, 6], "pad_token_id": 3, "context_length": 64}
    write(path, "genai_config.json", {"model": model, "search": {"do_sample": False, "top_k": 9}})
    return path


@pytest.fixture
def hugging_face(tmp_path: Path) -> Path:
    path = tmp_path / "hub"
    (path / "onnx").mkdir(parents=True)
    onnx.save(llama(), path / "onnx" / "model_fp16.onnx")
    onnx.save(llama(), path / "onnx" / "model_q4.onnx")
    write(path, "config.json", {"eos_token_id": 2, "num_attention_heads": 4})
    write(path, "generation_config.json", {"eos_token_id": [2, 4], "do_sample": True, "top_k": 7})
    letters = (" " + string.ascii_lowercase + string.digits + string.punctuation)[:VOCABULARY]
    write(path, "tokenizer.json", letters)
    write(path, "tokenizer_config.json", {"chat_template": TEMPLATE, "bos_token": {"content": "~"}})
    return path


def changed(path: Path, **model: Any) -> None:
    file = path / "genai_config.json"
    config = json.loads(file.read_text())
    config["model"] |= model
    file.write_text(json.dumps(config))


def test_a_genai_folder_gives_names_and_tokens(genai: Path) -> None:
    folder = Folder.open(genai)
    assert (folder.stop, folder.pad, folder.most) == ((5, 6), 3, 64)
    assert folder.sampling == Sampling()
    plain = mgx_mlir.generate(llama(), [[3, 17, 5]], max_new_tokens=4)
    assert mgx_mlir.generate(genai, [[3, 17, 5]], max_new_tokens=4, stop=[]) == plain
    stopped = mgx_mlir.generate(folder, [[3, 17, 5]], max_new_tokens=4, stop=plain[0][2:3])
    assert stopped == [plain[0][:2]]


def searched(path: Path, **search: Any) -> Path:
    file = path / "genai_config.json"
    config = json.loads(file.read_text())
    config["search"] |= search
    file.write_text(json.dumps(config))
    return path


def test_an_answer_ends_at_the_folder_s_length(genai: Path) -> None:
    prompt = [3, 17, 5]
    plain = mgx_mlir.generate(llama(), [prompt], max_new_tokens=61)
    folder = Folder.open(searched(genai, max_length=8))
    assert mgx_mlir.generate(folder, [prompt], stop=[]) == [plain[0][:5]]
    assert mgx_mlir.generate(folder, [prompt], stop=[], max_new_tokens=7) == [plain[0][:7]]
    assert folder.room([prompt], 500) == 61
    with pytest.raises(UsageError, match="64 tokens"):
        folder.room([[1] * 64], 1)
    with pytest.raises(UsageError, match="8 with its answer"):
        folder.room([[1] * 8])


def test_an_answer_does_not_end_before_its_least_length(genai: Path) -> None:
    prompt = [3, 17, 5]
    (plain,) = mgx_mlir.generate(llama(), [prompt], max_new_tokens=4)
    folder = Folder.open(searched(genai, min_length=6))
    (found,) = mgx_mlir.generate(folder, [prompt], max_new_tokens=4, stop=plain[:1])
    assert len(found) >= 3 and plain[0] not in found[:3]


def test_settings_of_a_search_are_those_of_genai(genai: Path) -> None:
    search = {"repetition_penalty": 1.5, "random_seed": 7, "no_repeat_ngram_size": 2}
    kept = Sampling(repetition_penalty=1.5, seed=7, no_repeat_ngram_size=2)
    assert Folder.open(searched(genai, temperature=0.5, **search)).sampling == kept
    drawn = Folder.open(searched(genai, do_sample=True, top_p=0.0)).sampling
    assert (drawn.temperature, drawn.top_k, drawn.top_p) == (0.5, 9, 1.0)
    assert Folder.open(searched(genai, temperature=0.0)).sampling.temperature == 0


def test_tokens_do_not_repeat_in_a_row() -> None:
    logits, sampling = np.array([0.0, 3.0, 2.0, 1.0]), Sampling(no_repeat_ngram_size=2)
    assert sampling.shares(logits, [1, 2, 0]).argmax() == 1
    assert sampling.shares(logits, [0, 1, 3, 0]).argmax() == 2


@pytest.mark.parametrize("setting", ["num_beams", "num_return_sequences"])
def test_searches_of_several_sequences_are_refused(genai: Path, setting: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"genai_config\.json has {setting} 4"):
        Folder.open(searched(genai, **{setting: 4}))


@pytest.mark.parametrize("section", ["vision", "speech", "embedding", "encoder"])
def test_a_model_of_more_than_tokens_is_refused_by_its_section(genai: Path, section: str) -> None:
    changed(genai, **{section: {"filename": "other.onnx"}})
    with pytest.raises(UnsupportedError, match=f"section '{section}'"):
        mgx_mlir.generate(genai, [[1]])


@pytest.mark.parametrize(
    ("side", "key", "pattern"),
    [
        ("inputs", "block_table", "block_table"),
        # Scales of a paged cache, one for each token.
        ("inputs", "past_key_scale_names", "past_key_values.%d.key_scale"),
        ("outputs", "present_value_scale_names", "present.%d.value_scale"),
    ],
)
def test_values_that_generation_does_not_fill_are_refused_by_name(
    genai: Path, side: str, key: str, pattern: str
) -> None:
    decoder = json.loads((genai / "genai_config.json").read_text())["model"]["decoder"]
    decoder[side][key] = pattern
    changed(genai, decoder=decoder)
    with pytest.raises(UnsupportedError, match=f"'{key}'"):
        Folder.open(genai)


def test_a_file_outside_of_the_folder_is_not_opened(genai: Path) -> None:
    decoder = json.loads((genai / "genai_config.json").read_text())["model"]["decoder"]
    changed(genai, decoder={**decoder, "filename": "../decoder.onnx"})
    with pytest.raises(ModelError, match="outside"):
        Folder.open(genai)


def test_a_damaged_setting_names_its_file(genai: Path) -> None:
    (genai / "genai_config.json").write_text("{")
    with pytest.raises(ModelError, match=r"genai_config\.json"):
        Folder.open(genai)


def test_precision_chooses_a_file_of_a_hub(hugging_face: Path) -> None:
    assert Folder.open(hugging_face).model.name == "model_fp16.onnx"
    assert Folder.open(hugging_face, "q4").model.name == "model_q4.onnx"
    with pytest.raises(UsageError, match="it has fp16, q4"):
        Folder.open(hugging_face, "q8")
    with pytest.raises(UsageError, match="did you mean q4"):
        Folder.open(hugging_face, "q44")


def test_a_merged_decoder_goes_before_a_pair(hugging_face: Path) -> None:
    for stem in ("decoder_model", "decoder_with_past_model", "decoder_model_merged"):
        (hugging_face / "onnx" / f"{stem}.onnx").touch()
    assert Folder.open(hugging_face).model.stem == "decoder_model_merged"
    (hugging_face / "onnx" / "decoder_model_merged.onnx").unlink()
    assert Folder.open(hugging_face, "fp32").model.stem == "decoder_with_past_model"


def test_settings_of_a_hub_are_those_of_its_files(hugging_face: Path) -> None:
    folder = Folder.open(hugging_face)
    assert folder.stop == (2, 4)
    assert folder.sampling == Sampling(1.0, 7)


def test_a_hub_of_more_than_tokens_is_refused_by_its_file(hugging_face: Path) -> None:
    (hugging_face / "onnx" / "vision_encoder.onnx").touch()
    with pytest.raises(UnsupportedError, match=r"vision_encoder\.onnx"):
        Folder.open(hugging_face)


def test_a_folder_without_a_decoder_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"neither genai_config\.json"):
        Folder.open(tmp_path)


def test_a_template_writes_chats_in_a_sandbox(
    hugging_face: Path,
) -> None:
    words = Folder.open(hugging_face).words
    messages = [{"role": "user", "content": "hi"}]
    assert words.rendered(messages) == "~hi;a:"
    (hugging_face / "chat_template.jinja").write_text("{{ ''.__class__.__mro__ }}")
    with pytest.raises(UsageError, match="unsafe"):
        Folder.open(hugging_face).words.rendered(messages)
    (hugging_face / "chat_template.jinja").write_text("{{ raise_exception('no system') }}")
    with pytest.raises(UsageError, match="no system"):
        Folder.open(hugging_face).words.rendered(messages)


def test_the_command_takes_a_folder(
    genai: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (wanted,) = mgx_mlir.generate(genai, [[3, 17, 5]], max_new_tokens=4)
    assert main(["generate", str(genai), "--ids", "3,17,5", "--max-new-tokens", "4"]) == 0
    assert capsys.readouterr().out.split() == list(map(str, wanted))
    assert main(["generate", str(genai), "--prompt", "hi"]) == 2
    assert "has no tokenizer.json" in capsys.readouterr().err


@pytest.mark.parametrize("chat", [True, False])
def test_the_chat_takes_a_folder(hugging_face: Path, tmp_path: Path, chat: bool) -> None:
    if not chat:
        (hugging_face / "tokenizer_config.json").unlink()
    (tmp_path / "tokenizers.py").write_text(LETTERS.replace("text)", "text, **_)"))
    arguments = [str(hugging_face), "--max-new-tokens", "5", "--temperature", "0", "--stop", "99"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / "chat.py", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        input="hi\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()[0].removeprefix("> ")) == 5
