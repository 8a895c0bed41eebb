"""SmolLM2 as transformers.js finds it: files beside the model, whose words are the numbers of tokens."""

from __future__ import annotations

from typing import Any

WORDS = ["<|endoftext|>", *(f"w{number}" for number in range(1, 49152))]
FILES: dict[str, Any] = {
    "config.json": {
        "model_type": "llama",
        "hidden_size": 576,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "num_hidden_layers": 30,
        "vocab_size": len(WORDS),
        "bos_token_id": 0,
        "eos_token_id": 0,
    },
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": WORDS[0]},
    "tokenizer.json": {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": dict(zip(WORDS, range(len(WORDS)))), "unk_token": WORDS[0]},
    },
}
