"""Mistakes in what writes text."""

from __future__ import annotations

from tests.mutations.runner import Mutation

SEARCH = ("tests/genai/test_search.py",)
BATCHES = ("tests/genai/test_batches.py",)
SAMPLING = ("tests/genai/test_sampling.py",)
TOKENIZER = ("tests/genai/test_tokenizer.py",)
PORTS = ("tests/genai/test_ports.py",)
ENCODERS = ("tests/genai/test_encoders.py",)
LANGUAGE = [
    Mutation(
        "beams begin as copies of each other",
        "core/sardonyx/genai/beams.py",
        "self._scores[:, 0] = 0",
        "self._scores[:] = 0",
        SEARCH,
    ),
    Mutation(
        "unlikely ends are kept as well",
        "core/sardonyx/genai/beams.py",
        "elif rank < beams:",
        "else:",
        SEARCH,
    ),
    Mutation(
        "the length penalty is left out",
        "core/sardonyx/genai/beams.py",
        "return total / math.pow(length, self._penalty)",
        "return total",
        SEARCH,
    ),
    Mutation(
        "beams that are patient stop early",
        "core/sardonyx/genai/beams.py",
        "improves = not self._options.early_stopping and",
        "improves = False and",
        SEARCH,
    ),
    Mutation(
        "the cache does not follow the beams",
        "core/sardonyx/genai/generator.py",
        "self._decoder.select(self._search.rows)",
        "pass",
        SEARCH,
    ),
    Mutation(
        "logits below 0 are divided as well",
        "core/sardonyx/genai/penalties.py",
        "np.where(found < 0, found * factor, found / factor)",
        "found / factor",
        ("core/sardonyx/genai/penalties.py",),
    ),
    Mutation(
        "tokens of padding are penalized",
        "core/sardonyx/genai/sequences.py",
        "found: Array = self.fed[row][self.mask[row] > 0]",
        "found: Array = self.fed[row]",
        SEARCH,
    ),
    Mutation(
        "the end of a text is compared without its last token",
        "core/sardonyx/genai/penalties.py",
        "end = tokens[len(tokens) - size + 1 :]",
        "end = tokens[len(tokens) - size : -1]",
        SEARCH,
    ),
    Mutation(
        "a row goes on after its end",
        "core/sardonyx/genai/greedy.py",
        "np.where(self._ended, self._pad, chosen)",
        "np.where(False, self._pad, chosen)",
        SEARCH,
    ),
    Mutation(
        "padding stays where it was given",
        "core/sardonyx/genai/sequences.py",
        "if self._ahead else slice(0, count)",
        "if self._ahead or prompt[0] == self._pad else slice(0, count)",
        SEARCH,
    ),
    Mutation(
        "padding counts as a place",
        "core/sardonyx/genai/sequences.py",
        "before = self.mask.sum(axis=1, keepdims=True)",
        "before = start + 0 * self.mask.sum(axis=1, keepdims=True)",
        SEARCH,
    ),
    Mutation(
        "what was rewound stays in the cache",
        "core/sardonyx/api/caches.py",
        "        self.length = length\n",
        "        pass\n",
        SEARCH,
    ),
    Mutation(
        "the last logits are taken of rows that are shorter",
        "core/sardonyx/genai/decoder.py",
        "return logits[np.arange(len(logits)), last].astype(np.float32)",
        "return logits[:, -1].astype(np.float32)",
        BATCHES,
    ),
    Mutation(
        "a nucleus has a token less",
        "core/sardonyx/genai/sampling.py",
        'enough, side="left")) + 1',
        'enough, side="left")) or 1',
        SAMPLING,
    ),
    Mutation(
        "heat is taken for cold",
        "core/sardonyx/genai/sampling.py",
        "(logits.astype(np.float64) - float(highest)) / temperature",
        "(logits.astype(np.float64) - float(highest)) * temperature",
        SAMPLING,
    ),
    Mutation(
        "equal candidates come in any order",
        "core/sardonyx/genai/sampling.py",
        "np.flatnonzero(scores == least)[: count - len(above)]",
        "np.flatnonzero(scores == least)[len(above) - count :]",
        SAMPLING,
    ),
    Mutation(
        "rows draw the same numbers",
        "core/sardonyx/genai/random.py",
        "(stream * 0x9E3779B9)",
        "(0 * stream)",
        SAMPLING,
    ),
    Mutation(
        "a number is rotated by another count",
        "core/sardonyx/genai/random.py",
        "self._d << 11 | self._d >> 21",
        "self._d << 12 | self._d >> 20",
        SAMPLING,
    ),
    Mutation(
        "halves of characters are shown",
        "core/sardonyx/genai/token_stream.py",
        "if text.endswith(BROKEN) and",
        "if False and",
        TOKENIZER,
    ),
    Mutation(
        "the space of a word in the middle is lost",
        "core/sardonyx/genai/token_stream.py",
        "del self._tokens[: self._shown]\n        self._shown = len(self._tokens)",
        "self._tokens.clear()\n        self._shown = 0",
        TOKENIZER,
    ),
    Mutation(
        "JSON in templates is made safe for pages",
        "core/sardonyx/genai/chat_template.py",
        'found.filters["tojson"] = _tojson',
        "pass",
        TOKENIZER,
    ),
    Mutation(
        "templates keep the lines of their blocks",
        "core/sardonyx/genai/chat_template.py",
        "trim_blocks=True, lstrip_blocks=True",
        "trim_blocks=False, lstrip_blocks=True",
        TOKENIZER,
    ),
    Mutation(
        "texts begin with a space",
        "core/sardonyx/genai/gguf_tokenizer.py",
        '"add_prefix_space": False, "trim_offsets": True',
        '"add_prefix_space": True, "trim_offsets": True',
        TOKENIZER,
    ),
    Mutation(
        "padding that is taken for tokens goes unnoticed",
        "core/sardonyx/genai/model.py",
        "return bool(abs(padded[1] - plain[0]).max() <= NEAR * abs(plain).max())",
        "return True",
        PORTS,
    ),
    Mutation(
        "both parts in one tensor are taken for rows",
        "core/sardonyx/genai/ports.py",
        "return 1 if len(self.shape) == 5 else 0",
        "return 0",
        PORTS + SEARCH,
    ),
    Mutation(
        "keys of an encoder are taken from each run",
        "core/sardonyx/genai/memory.py",
        "if not (each.cross and self.arrays[each.input].shape[each.time]):",
        "if not (each.cross and False):",
        ENCODERS,
    ),
    Mutation(
        "an encoder's padding is read",
        "core/sardonyx/genai/encoder.py",
        "found[self._ports.encoded_mask] = mask",
        "found[self._ports.encoded_mask] = np.ones_like(mask)",
        ENCODERS,
    ),
    Mutation(
        "texts may end where a grammar goes on",
        "core/sardonyx/genai/guidance.py",
        "logits[: len(allowed)][allowed == 0] = LOWEST",
        "pass",
        ("tests/genai/test_guidance.py",),
    ),
    Mutation(
        "a chat forgets what was said",
        "core/sardonyx/cli/chat.py",
        'messages.append({"role": "assistant", "content": "".join(parts)})',
        "messages = list(beginning)",
        ("tests/genai/test_cli.py",),
    ),
]
"""Searches, sampling, tokenizers, grammars and chats."""
