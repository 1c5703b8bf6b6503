"""Folders that exporters write: the tokens are those of onnxruntime-genai and transformers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgx_mlir
from mgx_mlir.models.generation import Folder
from test.exported.export import ENVIRONMENTS, _install

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
transformers = pytest.importorskip("transformers", reason="make test-torch installs it")
tokenizers = pytest.importorskip("tokenizers", reason="make test-torch installs it")

pytestmark = pytest.mark.slow

PROMPTS = ["once upon a time", "the lazy dog"]
COUNT = 20
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


# Settings of small decoders whose configurations have no heads of 16 elements by themselves.
ARCHITECTURES: dict[str, dict[str, int]] = {
    "Gemma": {"head_dim": 16}, "Granite": {}, "Mistral": {"head_dim": 16}, "Qwen2": {},
    "Qwen3": {"head_dim": 16}, "SmolLM3": {},
}  # fmt: skip
# Settings of genai's search, beside none.
SEARCHES: list[dict[str, Any]] = [
    {}, {"repetition_penalty": 1.7}, {"no_repeat_ngram_size": 2}, {"min_length": 20},
]  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small LLaMA with random weights, and a tokenizer trained here."""
    return save(tmp_path_factory.mktemp("saved"), "Llama")


def save(path: Path, architecture: str, **options: int) -> Path:
    torch.manual_seed(0)
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>", "<|user|>", "<|assistant|>"],
        initial_alphabet=byte_level.alphabet(),
    )
    tokenizer.train_from_iterator([*PROMPTS, "a quick brown fox jumps over it"] * 9, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", chat_template=TEMPLATE
    )
    config = getattr(transformers, f"{architecture}Config")(
        vocab_size=len(fast), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
        bos_token_id=0, eos_token_id=[1, 7], pad_token_id=1,
        **options,
    )  # fmt: skip
    getattr(transformers, f"{architecture}ForCausalLM")(config).save_pretrained(path)
    fast.save_pretrained(path)
    return path


def tokens_of_transformers(saved: Path, ids: list[int]) -> list[int]:
    model = transformers.LlamaForCausalLM.from_pretrained(saved).eval()
    found = model.generate(
        torch.tensor([ids]), max_new_tokens=COUNT, do_sample=False, eos_token_id=None
    )
    return list(found[0, len(ids) :].tolist())


def built(saved: Path, tmp_path: Path, precision: str = "fp32", *extra: str) -> Path:
    """The folder of genai's builder, with its further options."""
    path = tmp_path / "genai"
    command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", saved, "-o", path]
    command += ["-p", precision, "-e", "cpu", "-c", tmp_path / "cache"]
    command += ["--extra_options", *extra] if extra else []
    subprocess.run(command, check=True, capture_output=True)
    return path


def expect_tokens_of_genai(folder: Folder, ids: list[int], **search: Any) -> None:
    genai = pytest.importorskip("onnxruntime_genai", reason="make test-torch installs it")
    model = genai.Model(str(folder.path))
    options = genai.GeneratorParams(model)
    options.set_search_options(max_length=len(ids) + COUNT, do_sample=False, **search)
    generator = genai.Generator(model, options)
    generator.append_tokens(np.array([ids], np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    wanted = [int(token) for token in generator.get_sequence(0)][len(ids) :]
    (found,) = mgx_mlir.generate(folder, [ids], max_new_tokens=COUNT, **search)
    assert found == [token for token in wanted if token not in folder.stop]


@pytest.mark.parametrize("precision", ["fp32", "int4"])
def test_a_folder_of_genais_builder(saved: Path, tmp_path: Path, precision: str) -> None:
    folder = Folder.open(built(saved, tmp_path, precision))
    assert folder.stop == (1, 7)
    for ids in folder.ids(PROMPTS):
        expect_tokens_of_genai(folder, ids)
    check_chat(folder, saved)


def test_searches_choose_the_tokens_that_genai_chooses(saved: Path, tmp_path: Path) -> None:
    folder = Folder.open(built(saved, tmp_path))
    for search in SEARCHES:
        expect_tokens_of_genai(folder, folder.ids(PROMPTS)[0], **search)


@pytest.mark.parametrize(
    "scheme", ["int8_per_tensor", "int8_per_channel", "int4_per_tensor", "int4_per_channel"]
)
def test_caches_of_few_bits_with_the_builders_scales(
    saved: Path, tmp_path: Path, scheme: str
) -> None:
    many = [0.02 + 0.003 * (n % 7) for n in range(32)] if scheme.endswith("channel") else 0.02
    scales = {name: [many] * 2 for name in ("k_scales", "v_scales")}
    file = tmp_path / "scales.json"
    file.write_text(json.dumps({"scales": scales}))
    options = (f"kv_cache_quant_scheme={scheme}", f"kv_cache_scale_file={file}")
    folder = Folder.open(built(saved, tmp_path, "fp32", *options))
    expect_tokens_of_genai(folder, folder.ids(PROMPTS)[0])


def test_a_shared_buffer_of_past_and_present_changes_no_token(saved: Path, tmp_path: Path) -> None:
    path = built(saved, tmp_path)
    config = json.loads((path / "genai_config.json").read_text())
    for shared in (True, False):
        config["search"]["past_present_share_buffer"] = shared
        (path / "genai_config.json").write_text(json.dumps(config))
        folder = Folder.open(path)
        expect_tokens_of_genai(folder, folder.ids(PROMPTS)[0])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_decoders_of_other_architectures(architecture: str, tmp_path: Path) -> None:
    saved = save(tmp_path, architecture, **ARCHITECTURES[architecture])
    folder = Folder.open(built(saved, tmp_path))
    expect_tokens_of_genai(folder, folder.ids(PROMPTS)[0])


def test_a_folder_of_optimums_exporter(saved: Path, tmp_path: Path) -> None:
    packages = ("onnxscript", "optimum-onnx", "torch==2.13.0")
    if refused := _install("optimum", packages):
        pytest.skip(refused)
    path = tmp_path / "hub"
    cli = ENVIRONMENTS / "optimum" / "bin" / "optimum-cli"
    command = [cli, "export", "onnx", "--model", saved, "--task", "text-generation-with-past"]
    subprocess.run([*command, path / "onnx"], check=True, capture_output=True)
    for file in (*(path / "onnx").glob("*config.json"), *saved.glob("token*"),
                 *saved.glob("*.jinja")):  # fmt: skip
        shutil.copy(file, path)
    folder = Folder.open(path)
    found = mgx_mlir.generate(folder, PROMPTS, max_new_tokens=COUNT, stop=[])
    assert found == [tokens_of_transformers(saved, ids) for ids in folder.ids(PROMPTS)]
    check_chat(folder, saved)


def check_chat(folder: Folder, saved: Path) -> None:
    messages: Any = [{"role": "user", "content": "hello fox"}]
    tokenizer = transformers.AutoTokenizer.from_pretrained(saved)
    wanted = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False, tokenize=True
    )
    assert folder.chat(messages) == wanted
