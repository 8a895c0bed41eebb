"""Small decoders with seeded weights, of the shapes in which exporters write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from tests.models.derived.graph import Graph

VOCABULARY, WIDTH, HEADS, SHARED, HEAD, LAYERS, MOST = 61, 64, 4, 2, 16, 2, 256
EOS, PAD = 2, 0


@dataclass
class Tiny:
    """A decoder of two layers; fields say in which way it is written.

    `past` and `present` are names by layer and part, or by layer alone where both parts are one tensor.
    """

    positions: bool = True
    mask: bool = True
    cache: bool = True
    last: bool = False
    grouped: bool = False
    """Whether attention is com.microsoft's GroupQueryAttention."""
    biased: bool = False
    """Whether that has a bias by the places of keys."""
    past: str = "past_key_values.{}.{}"
    present: str = "present.{}.{}"
    ids: str = "input_ids"
    element: int = TensorProto.FLOAT
    vocabulary: int = VOCABULARY
    seed: int = 0

    @property
    def together(self) -> bool:
        return self.past.count("{}") == 1

    def model(self) -> onnx.ModelProto:
        self.graph = g = Graph()
        self.random = np.random.default_rng(self.seed)
        embedding = self._weight("embedding", self.vocabulary, WIDTH)
        x = g.Gather(embedding, self.ids)
        self._prepare()
        if not self.grouped:
            x = g.Add(x, g.Gather(self._weight("places", MOST, WIDTH, 0.5), self.place))
        for layer in range(LAYERS):
            x = g.Add(x, self._attention(layer, self._normal(x)))
            inner = g.MatMul(self._normal(x), self._weight(f"up{layer}", WIDTH, 2 * WIDTH))
            x = g.Add(x, g.MatMul(g.Tanh(inner), self._weight(f"down{layer}", 2 * WIDTH, WIDTH)))
        if self.last:
            x = g.Slice(x, [-1], [2**31], [1])
        g.MatMul(self._normal(x), self._weight("head", WIDTH, self.vocabulary, 0.4), outputs=["logits"])
        return self._finished()

    def save(self, folder: Path, name: str = "model.onnx") -> Path:
        """Write the model into a folder, with what onnxruntime-genai wants to know of it."""
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(self.model(), folder / name)
        (folder / "genai_config.json").write_text(json.dumps(self.config(name)))
        return folder

    def config(self, name: str) -> dict[str, Any]:
        inputs, outputs = {"input_ids": self.ids}, {"logits": "logits"}
        if self.mask:
            inputs["attention_mask"] = "attention_mask"
        if self.positions:
            inputs["position_ids"] = "position_ids"
        if self.cache and self.together:
            inputs["past_names"], outputs["present_names"] = self.past.format("%d"), self.present.format("%d")
        elif self.cache:
            for part in ("key", "value"):
                inputs[f"past_{part}_names"] = self.past.format("%d", part)
                outputs[f"present_{part}_names"] = self.present.format("%d", part)
        decoder = {
            "session_options": {"provider_options": []},
            "filename": name,
            "head_size": HEAD,
            "hidden_size": WIDTH,
            "num_attention_heads": HEADS,
            "num_hidden_layers": LAYERS,
            "num_key_value_heads": SHARED,
            "inputs": inputs,
            "outputs": outputs,
        }
        model = {"bos_token_id": 1, "eos_token_id": [EOS], "pad_token_id": PAD, "context_length": MOST}
        kind = "gpt2" if self.together else "llama"
        search = {"max_length": MOST, "past_present_share_buffer": False}
        return {"model": {**model, "type": kind, "vocab_size": self.vocabulary, "decoder": decoder}, "search": search}

    # ---- the network

    def _weight(self, name: str, rows: int, columns: int, scale: float = 0.0) -> str:
        array = self.random.normal(0, scale or 2.0 * rows**-0.5, (rows, columns))
        return self.graph.tensor(name, array.astype(onnx.helper.tensor_dtype_to_np_dtype(self.element)))

    def _constant(self, value: float) -> str:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(self.element)
        return self.graph.tensor(f"constant {value}", np.array(value, dtype))

    def _normal(self, x: str) -> str:
        g = self.graph
        mean = g.ReduceMean(g.Mul(x, x), [-1], keepdims=1)
        return g.Div(x, g.Sqrt(g.Add(mean, self._constant(1e-4))))

    def _prepare(self) -> None:
        """Compute places of tokens, and which ones each may see."""
        g = self.graph
        new = g.Shape(self.ids, start=1, end=2)
        if self.cache:
            first = self.past.format(0, "key")
            axis = 3 if self.together else 2
            total = g.Add(new, g.Shape(first, start=axis, end=axis + 1))
        else:
            total = new
        if self.grouped:
            length = g.ReduceSum("attention_mask", [1], keepdims=0)
            self.seen = g.Cast(g.Sub(length, 1), to=TensorProto.INT32)
            self.total = g.Cast(g.Squeeze(g.Shape("attention_mask", start=1, end=2)), to=TensorProto.INT32)
            angle = np.arange(MOST)[:, None] * 100.0 ** (-np.arange(0, HEAD, 2) / HEAD)
            slots = g.Cast(g.Range(0, g.Squeeze(g.Shape("attention_mask", start=1, end=2)), 1), to=self.element)
            rows = g.Mul(g.Cast(g.Range(0, g.Squeeze(new), 1), to=self.element), 0.0)
            self.bias = g.Unsqueeze(g.Add(g.Unsqueeze(rows, [1]), g.Mul(g.Sin(slots), 2.0)), [0, 1])
            self.turns = [g.tensor(n, f(angle).astype(np.float32)) for n, f in (("cos", np.cos), ("sin", np.sin))]
            return
        column = g.Range(0, g.Squeeze(total), 1)
        row = g.Range(g.Squeeze(g.Sub(total, new)), g.Squeeze(total), 1)
        visible = g.Unsqueeze(g.LessOrEqual(column, g.Unsqueeze(row, [1])), [0, 1])
        if self.mask:
            given = g.Unsqueeze(g.Cast("attention_mask", to=TensorProto.BOOL), [1, 2])
            visible = g.And(visible, given)
        self.bias = g.Where(visible, self._constant(0.0), self._constant(-1e4))
        self.place = "position_ids" if self.positions else g.Add(g.Mul(self.ids, 0), row)

    def _heads(self, x: str, count: int) -> str:
        return self.graph.Transpose(self.graph.Reshape(x, [0, 0, count, HEAD]), perm=[0, 2, 1, 3])

    def _attention(self, layer: int, x: str) -> str:
        g = self.graph
        q, k, v = (
            g.MatMul(x, self._weight(f"{name}{layer}", WIDTH, count * HEAD))
            for name, count in (("q", HEADS), ("k", SHARED), ("v", SHARED))
        )
        out = self._weight(f"out{layer}", WIDTH, WIDTH)
        names = [(self.past.format(layer, part), self.present.format(layer, part)) for part in ("key", "value")]
        if self.grouped:
            pasts, presents = [past for past, _ in names], [present for _, present in names]
            y = g.GroupQueryAttention(
                *(q, k, v, *pasts, self.seen, self.total, *self.turns),
                *(["", self.bias] if self.biased else []),
                domain="com.microsoft",
                outputs=[f"attention{layer}", *presents],
                num_heads=HEADS,
                kv_num_heads=SHARED,
                do_rotary=1,
            )
            return g.MatMul(y, out)
        q, k, v = self._heads(q, HEADS), self._heads(k, SHARED), self._heads(v, SHARED)
        if self.cache and self.together:
            past, present = self.past.format(layer), self.present.format(layer)
            k, v = (
                g.Concat(g.Squeeze(g.Slice(past, [part], [part + 1], [0]), [0]), new, axis=2)
                for part, new in enumerate((k, v))
            )
            g.Concat(g.Unsqueeze(k, [0]), g.Unsqueeze(v, [0]), axis=0, outputs=[present])
        elif self.cache:
            k, v = (g.Concat(past, new, axis=2, outputs=[present]) for (past, present), new in zip(names, (k, v)))
        k, v = (self._repeated(each) for each in (k, v))
        scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), self._constant(HEAD**-0.5))
        y = g.MatMul(g.Softmax(g.Add(scores, self.bias), axis=-1), v)
        return g.MatMul(g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, WIDTH]), out)

    def _repeated(self, x: str) -> str:
        """Let each shared head be that of several."""
        g = self.graph
        parts = [g.Slice(x, [head * SHARED // HEADS], [head * SHARED // HEADS + 1], [1]) for head in range(HEADS)]
        return g.Concat(*parts, axis=1)

    def _finished(self) -> onnx.ModelProto:
        whole = TensorProto.INT64
        inputs: dict[str, Any] = {self.ids: (whole, ["B", "S"])}
        if self.mask:
            inputs["attention_mask"] = (whole, ["B", "T"])
        if self.positions:
            inputs["position_ids"] = (whole, ["B", "S"])
        outputs: dict[str, Any] = {"logits": (self.element, ["B", 1 if self.last else "S", self.vocabulary])}
        for layer in range(LAYERS if self.cache else 0):
            for part in ("key", "value")[: 1 if self.together else 2]:
                front = [2] if self.together else []
                inputs[self.past.format(layer, part)] = (self.element, [*front, "B", SHARED, "P", HEAD])
                outputs[self.present.format(layer, part)] = (self.element, [*front, "B", SHARED, "T", HEAD])
        return self.graph.model("tiny", inputs, outputs, {"": 21, "com.microsoft": 1})
