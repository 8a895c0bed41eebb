"""Three decoders of SmolLM2-135M-Instruct: weights of 4 bits in standard or com.microsoft operators, and float16.

All take `input_ids` [B, S], `attention_mask` [B, T] and, per layer, `past_key_values.N.key` and `.value`
[B, 3, T - S, 64]; all but the second take `position_ids` [B, S]. They return `logits` [B, S, 49152] and `present.N.*`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from .graph import Array, Graph
from .weights import (
    BLOCK,
    EPSILON,
    HEAD,
    HEADS,
    LAYERS,
    SHARED_HEADS,
    VOCABULARY,
    int4,
    int8,
    packed,
    rotation,
    weights,
)

SCALE = HEAD**-0.5
MICROSOFT = "com.microsoft"


def models() -> Iterator[tuple[str, onnx.ModelProto]]:
    """Build all three."""
    tensors = weights()
    for name, kind in {"int4-std": Standard, "int4-contrib": Contributed, "fp16-op23": Half}.items():
        yield name, kind(tensors).model()


class Standard:
    """Operators of ai.onnx alone, opset 21, attention spelled out: the base of the other two."""

    opsets = {"": 21}
    dtype: str = "float32"
    element: int = TensorProto.FLOAT
    positions = ["position_ids"]

    def __init__(self, weights: dict[str, Array]) -> None:
        self.weights = weights
        self.graph = Graph()

    def model(self) -> onnx.ModelProto:
        """Spell the network (Llama's: Touvron et al. 2023), layer by layer."""
        x, y = self.normalize(self.embed(), None, "blk.0.attn_norm")
        self.prepare()
        for layer in range(LAYERS):
            q, k, v, o, gate, up, down = (
                f"blk.{layer}.{part}"
                for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
            )
            following = f"blk.{layer + 1}.attn_norm" if layer + 1 < LAYERS else "output_norm"
            y = self.linear(self.attention(layer, self.linear(y, q), self.linear(y, k), self.linear(y, v)), o)
            x, y = self.normalize(x, y, f"blk.{layer}.ffn_norm")
            gated = self.linear(y, gate)
            gated = self.graph.Mul(gated, self.graph.Sigmoid(gated))
            y = self.linear(self.graph.Mul(gated, self.linear(y, up)), down)
            x, y = self.normalize(x, y, following)
        self.project(y)
        return self._finished()

    def _finished(self) -> onnx.ModelProto:
        tokens = {"input_ids": ["B", "S"], "attention_mask": ["B", "T"]} | {name: ["B", "S"] for name in self.positions}
        parts = [f"{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
        inputs: dict[str, Any] = {name: (TensorProto.INT64, shape) for name, shape in tokens.items()}
        inputs |= {f"past_key_values.{part}": (self.element, ["B", SHARED_HEADS, "P", HEAD]) for part in parts}
        outputs: dict[str, Any] = {"logits": (self.element, ["B", "S", VOCABULARY])}
        outputs |= {f"present.{part}": (self.element, ["B", SHARED_HEADS, "T", HEAD]) for part in parts}
        return self.graph.model("smollm2", inputs, outputs, self.opsets)

    def weight(self, name: str, array: Array) -> str:
        return self.graph.tensor(name, array.astype(self.dtype))

    def embed(self) -> str:
        g, parts = self.graph, int8(self.weights["token_embd"])
        names = [g.tensor(name, part) for name, part in zip(("token_embd", "token_embd.scale"), parts)]
        self.table = g.DequantizeLinear(*names, axis=1, block_size=BLOCK)
        return g.Gather(self.table, "input_ids")

    def project(self, y: str) -> None:
        self.graph.MatMul(y, self.graph.Transpose(self.table, perm=[1, 0]), outputs=["logits"])

    def prepare(self) -> None:
        """Compute what layers share: cosines and sines [B, 1, S, HEAD], and 0 or -1e9 for the attention's scores."""
        g = self.graph
        self.turns = [
            g.Unsqueeze(g.Gather(g.tensor(name, np.concatenate([table, table], axis=1)), "position_ids"), [1])
            for name, table in zip(("cos", "sin"), rotation())
        ]
        self.bias = g.Where(self.visible(), 0.0, -1e9)

    def visible(self) -> str:
        """Which of T tokens each of S may see, as bool [B, 1, S, T]: those up to itself that the mask leaves."""
        g = self.graph
        total, new = g.Shape("attention_mask", start=1, end=2), g.Shape("input_ids", start=1, end=2)
        end = g.Squeeze(total)
        column, row = g.Range(0, end, 1), g.Range(g.Squeeze(g.Sub(total, new)), end, 1)
        causal = g.LessOrEqual(column, g.Unsqueeze(row, [1]))
        given = g.Unsqueeze(g.Cast("attention_mask", to=TensorProto.BOOL), [1, 2])
        return g.And(g.Unsqueeze(causal, [0, 1]), given)

    def normalize(self, x: str, change: str | None, weight: str) -> tuple[str, str]:
        """Return x + change, and that divided by its root mean square and scaled (Zhang and Sennrich 2019)."""
        g = self.graph
        x = g.Add(x, change) if change else x
        mean = g.ReduceMean(g.Mul(x, x), [-1], keepdims=1)
        y = g.Mul(x, g.Reciprocal(g.Sqrt(g.Add(mean, EPSILON))))
        return x, g.Mul(y, self.weight(weight, self.weights[weight]))

    def linear(self, x: str, weight: str) -> str:
        g, parts = self.graph, int4(self.weights[weight])
        names = [g.tensor(weight + suffix, part.T) for suffix, part in zip(("", ".scale", ".zero"), parts)]
        return g.MatMul(x, g.DequantizeLinear(*names, axis=0, block_size=BLOCK))

    def attention(self, layer: int, q: str, k: str, v: str) -> str:
        g = self.graph
        q, k = self._rotate(self._split(q, HEADS)), self._rotate(self._split(k, SHARED_HEADS))
        v = self._split(v, SHARED_HEADS)
        k, v = (
            g.Concat(f"past_key_values.{layer}.{part}", new, axis=2, outputs=[f"present.{layer}.{part}"])
            for part, new in (("key", k), ("value", v))
        )
        scores = g.Mul(g.MatMul(q, g.Transpose(self._repeat(k), perm=[0, 1, 3, 2])), SCALE)
        y = g.MatMul(g.Softmax(g.Add(scores, self.bias), axis=-1), self._repeat(v))
        return g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), [0, 0, HEADS * HEAD])

    def _split(self, x: str, heads: int) -> str:
        return self.graph.Transpose(self.graph.Reshape(x, [0, 0, heads, HEAD]), perm=[0, 2, 1, 3])

    def _rotate(self, x: str) -> str:
        g, (cos, sin) = self.graph, self.turns
        first, second = g.Slice(x, [0], [HEAD // 2], [3]), g.Slice(x, [HEAD // 2], [HEAD], [3])
        return g.Add(g.Mul(x, cos), g.Mul(g.Concat(g.Neg(second), first, axis=3), sin))

    def _repeat(self, x: str) -> str:
        """[B, 3, T, 64] to [B, 9, T, 64]: three heads of queries share one of keys and values (Ainslie et al. 2023)."""
        g = self.graph
        batch, total = g.Shape(x, start=0, end=1), g.Shape(x, start=2, end=3)
        groups = g.Concat(batch, [SHARED_HEADS, HEADS // SHARED_HEADS], total, [HEAD], axis=0)
        return g.Reshape(g.Expand(g.Unsqueeze(x, [2]), groups), g.Concat(batch, [HEADS], total, [HEAD], axis=0))


class Contributed(Standard):
    """The operators that exporters for onnxruntime write: MatMulNBits, GroupQueryAttention, SkipSimplified..."""

    opsets = {"": 21, MICROSOFT: 1}
    positions: list[str] = []

    def embed(self) -> str:
        table = self.graph.tensor("token_embd.half", self.weights["token_embd"].astype(np.float16))
        return self.graph.Cast(self.graph.Gather(table, "input_ids"), to=TensorProto.FLOAT)

    def project(self, y: str) -> None:
        self.linear(y, "token_embd", outputs=["logits"])

    def prepare(self) -> None:
        g = self.graph
        self.turns = [g.tensor(name, table) for name, table in zip(("cos", "sin"), rotation())]
        last = g.Sub(g.ReduceSum("attention_mask", [1], keepdims=0), [1])
        total = g.Squeeze(g.Shape("attention_mask", start=1, end=2))
        self.lengths = [g.Cast(length, to=TensorProto.INT32) for length in (last, total)]

    def normalize(self, x: str, change: str | None, weight: str) -> tuple[str, str]:
        g, scale = self.graph, self.weight(weight, self.weights[weight])
        if change is None:  # onnxruntime has it in the domain of ai.onnx
            return x, g.SimplifiedLayerNormalization(x, scale, axis=-1, epsilon=EPSILON, stash_type=1)
        outputs = [f"{weight}.y", "", "", f"{weight}.sum"]
        g.SkipSimplifiedLayerNormalization(x, change, scale, outputs=outputs, domain=MICROSOFT, epsilon=EPSILON)
        return outputs[3], outputs[0]

    def linear(self, x: str, weight: str, **keywords: Any) -> str:
        g, (values, scale, zero) = self.graph, int4(self.weights[weight])
        n, k = values.shape
        names = [
            g.tensor(weight, packed(values).reshape(n, k // BLOCK, BLOCK // 2)),
            g.tensor(f"{weight}.scale", scale),
            g.tensor(f"{weight}.zero", packed(zero)),
        ]
        return g.MatMulNBits(x, *names, domain=MICROSOFT, K=k, N=n, bits=4, block_size=BLOCK, **keywords)

    def attention(self, layer: int, q: str, k: str, v: str) -> str:
        memory = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        outputs = [f"attention.{layer}", f"present.{layer}.key", f"present.{layer}.value"]
        heads = {"num_heads": HEADS, "kv_num_heads": SHARED_HEADS}
        operands = [q, k, v, *memory, *self.lengths, *self.turns]
        self.graph.GroupQueryAttention(
            *operands, outputs=outputs, domain=MICROSOFT, scale=SCALE, do_rotary=1, rotary_interleaved=0, **heads
        )
        return outputs[0]


class Half(Standard):
    """Float16 with the operators of opset 23: RMSNormalization, RotaryEmbedding, Attention."""

    opsets = {"": 23}
    dtype = "float16"
    element = TensorProto.FLOAT16

    def embed(self) -> str:
        self.table = self.weight("token_embd", self.weights["token_embd"])
        return self.graph.Gather(self.table, "input_ids")

    def prepare(self) -> None:
        self.turns = [self.weight(name, table) for name, table in zip(("cos", "sin"), rotation())]
        self.mask = self.visible()

    def normalize(self, x: str, change: str | None, weight: str) -> tuple[str, str]:
        x = self.graph.Add(x, change) if change else x
        scale = self.weight(weight, self.weights[weight])
        return x, self.graph.RMSNormalization(x, scale, axis=-1, epsilon=EPSILON)

    def linear(self, x: str, weight: str) -> str:
        return self.graph.MatMul(x, self.weight(weight, self.weights[weight].T))

    def attention(self, layer: int, q: str, k: str, v: str) -> str:
        g, turns = self.graph, [*self.turns, "position_ids"]
        q, k = g.RotaryEmbedding(q, *turns, num_heads=HEADS), g.RotaryEmbedding(k, *turns, num_heads=SHARED_HEADS)
        memory = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        outputs = [f"attention.{layer}", f"present.{layer}.key", f"present.{layer}.value"]
        heads = {"q_num_heads": HEADS, "kv_num_heads": SHARED_HEADS}
        g.Attention(q, k, v, self.mask, *memory, outputs=outputs, scale=SCALE, **heads)
        return outputs[0]
