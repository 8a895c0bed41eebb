"""Tiny models that generate: a decoder like GPT-2's, an encoder and a decoder like T5's, with random weights; and the
models of one node that call them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from tests.engine.providers import require_provider
from tests.support import eager

VOCABULARY, HEADS, SIZE = 11, 2, 4
HIDDEN = HEADS * SIZE
SPREAD = 0.7
"""Of weights: with larger ones attention is of one word alone, and float32 decides how much."""
MOST = 32
"""The words for which decoders with room in their caches declare it."""
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
ID, FLOAT = TensorProto.INT32, TensorProto.FLOAT


@dataclass
class Body:
    """A graph that grows: `emit` adds a node, and arrays among its inputs become constants."""

    name: str
    seed: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    held: list[onnx.TensorProto] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def weights(self, *shape: int) -> np.ndarray:
        return (self.rng.normal(size=shape) * SPREAD).astype(np.float32)

    def emit(self, op_type: str, *inputs: str | np.ndarray, output: str = "", **attributes: Any) -> str:
        names = [x if isinstance(x, str) else self._hold(x) for x in inputs]
        output = output or f"{self.name}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, names, [output], **attributes))
        return output

    def _hold(self, array: np.ndarray) -> str:
        self.held.append(numpy_helper.from_array(array, f"{self.name}_c{len(self.held)}"))
        return self.held[-1].name

    def graph(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> onnx.GraphProto:
        """The graph, of inputs and outputs by name: types and shapes."""
        infos = [
            [helper.make_tensor_value_info(name, *kind) for name, kind in each.items()] for each in (inputs, outputs)
        ]
        return helper.make_graph(self.nodes, self.name, *infos, self.held)

    def heads(self, x: str) -> str:
        """[B, S, hidden] through a matrix, as [B, heads, S, size]."""
        made = self.emit("MatMul", x, self.weights(HIDDEN, HIDDEN))
        split = self.emit("Reshape", made, np.array([0, 0, HEADS, SIZE]))
        return self.emit("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, x: str, k: str, v: str, mask: str = "") -> str:
        """x plus its attention to keys and values [B, heads, T, size], of which those are left out whose mask is 0."""
        keys = self.emit("Transpose", k, perm=[0, 1, 3, 2])
        scores = self.emit("MatMul", self.heads(x), keys)
        if mask:
            missing = self.emit("Sub", np.float32(1), self.emit("Cast", mask, to=FLOAT))
            spread = self.emit("Unsqueeze", missing, np.array([1, 2]))
            scores = self.emit("Sub", scores, self.emit("Mul", spread, np.float32(1e4)))
        made = self.emit("MatMul", self.emit("Softmax", scores, axis=-1), v)
        merged = self.emit("Transpose", made, perm=[0, 2, 1, 3])
        return self.emit("Add", x, self.emit("Reshape", merged, np.array([0, 0, HIDDEN])))

    def masked(self, x: str, new: list[str], past: list[str], present: list[str], mask: str, beams: bool) -> str:
        """The same by one node, which puts new keys and values [B, 1, hidden] into caches with room for more."""
        query = self.emit("MatMul", x, self.weights(HIDDEN, HIDDEN))
        inputs = [query, *new, mask, "", *past, "past_sequence_length"]
        made = helper.make_node(
            "DecoderMaskedMultiHeadAttention",
            [*inputs, "beam_width", "cache_indirection"] if beams else inputs,
            [f"{self.name}_{len(self.nodes)}", *present],
            domain="com.microsoft",
            num_heads=HEADS,
            scale=1.0,
            past_present_share_buffer=1,
        )
        self.nodes.append(made)
        return self.emit("Add", x, made.output[0])

    def logits(self, x: str) -> None:
        self.emit("MatMul", x, self.weights(HIDDEN, VOCABULARY), output="logits")


def extras(room: int) -> dict[str, Any]:
    """The inputs of a decoder whose caches have room for all words: how many there are; with 3 also whose they are."""
    beams = {"beam_width": (ID, [1]), "cache_indirection": (ID, ["prompts", "beams", MOST])}
    return {"past_sequence_length": (ID, [1]), **(beams if room == 3 else {})} if room else {}


def decoder(seed: int = 0, layers: int = 2, room: int = 0) -> onnx.GraphProto:
    """Like GPT-2: what comes next, by words, positions, a mask, and keys and values of earlier words; with so many
    inputs for caches that have `room` for all of them."""
    body = Body("decoder", seed)
    words = body.emit("Gather", body.weights(VOCABULARY, HIDDEN), "input_ids")
    x = body.emit("Add", words, body.emit("Gather", body.weights(64, HIDDEN), "position_ids"))
    caches, results = {}, {}
    for layer in range(layers):
        caches[f"past_{layer}"] = FLOAT, [2, "batch", HEADS, "past", SIZE]
        if room:
            new = [body.emit("MatMul", x, body.weights(HIDDEN, HIDDEN)) for _ in range(2)]
            past = [body.emit("Gather", f"past_{layer}", np.array(part), axis=0) for part in (0, 1)]
            present = [f"{kind}_{layer}" for kind in ("keys", "values")]
            x = body.masked(x, new, past, present, "attention_mask", room == 3)
            parts = [body.emit("Unsqueeze", part, np.array([0])) for part in present]
            body.emit("Concat", *parts, axis=0, output=f"present_{layer}")
        else:
            new = [body.emit("Unsqueeze", body.heads(x), np.array([0])) for _ in range(2)]
            both = body.emit("Concat", *new, axis=0)
            whole = body.emit("Concat", f"past_{layer}", both, axis=3, output=f"present_{layer}")
            k, v = (body.emit("Gather", whole, np.array(part), axis=0) for part in (0, 1))
            x = body.attention(x, k, v, "attention_mask")
        results[f"present_{layer}"] = FLOAT, [2, "batch", HEADS, "total", SIZE]
    body.logits(x)
    ids = {"input_ids": (ID, ["batch", "length"]), "position_ids": (ID, ["batch", "length"])}
    inputs = {**ids, "attention_mask": (ID, ["batch", "total"]), **caches, **extras(room)}
    return body.graph(inputs, {"logits": (FLOAT, ["batch", "length", VOCABULARY]), **results})


def cross(body: Body, x: str, layers: int) -> dict[str, Any]:
    """The outputs of an encoder that makes keys and values of x for each layer of a decoder."""
    results = {}
    for layer in range(layers):
        for kind in ("key", "value"):
            name = f"present_{kind}_cross_{layer}"
            body.emit("Identity", body.heads(x), output=name)
            results[name] = FLOAT, ["batch", HEADS, "encoded", SIZE]
    return results


def decoded(
    body: Body, words: str, encoded: list[str], past: bool, mask: str, known: list[str] | None = None, room: int = 0
) -> dict[str, Any]:
    """The outputs of what comes after words, by caches of earlier ones and of what is encoded, and by what else is
    `known` of that: words of it [B, T], or vectors [B, T, hidden]."""
    x = body.emit("Gather", body.weights(VOCABULARY, HIDDEN), words)
    for name in known or []:
        vectors = name if "hidden" in name else body.emit("Gather", body.weights(VOCABULARY, HIDDEN), name)
        x = body.emit("Add", x, body.emit("ReduceMean", vectors, axes=[1], keepdims=1))
    results: dict[str, Any] = {"logits": (FLOAT, ["batch", "length", VOCABULARY])}
    layers = len(encoded) // 2
    made = []
    for layer in range(layers):
        present = [f"present_{kind}_self_{layer}" for kind in ("key", "value")]
        earlier = [name.replace("present", "past") for name in present]
        made += [(name, (FLOAT, ["batch", HEADS, "total", SIZE])) for name in present]
        if room:
            new = [body.emit("MatMul", x, body.weights(HIDDEN, HIDDEN)) for _ in range(2)]
            x = body.masked(x, new, earlier, present, "", room == 3)
        else:
            joined = [[before] * past + [body.heads(x)] for before in earlier]
            own = [body.emit("Concat", *parts, axis=2, output=name) for parts, name in zip(joined, present)]
            x = body.attention(x, *own)
        x = body.attention(x, *encoded[2 * layer : 2 * layer + 2], mask)
    body.logits(x)
    return results | dict(made)


def pair(
    seed: int = 0,
    layers: int = 1,
    starts: bool = True,
    hidden: bool = False,
    whole: bool = False,
    speech: bool = False,
    given: bool = False,
    room: int = 0,
) -> dict[str, onnx.GraphProto]:
    """Like T5, or, with `speech`, Whisper: an encoder, which `starts` generation if asked to, and a decoder, which may
    take what was `given` to that and what is `hidden`, the `whole` of the words each time, and caches with `room`."""
    encoder, decoder = Body("encoder", seed), Body("decoder", seed + 100)
    mask = "" if speech else "encoder_attention_mask"
    masks = {} if speech else {mask: (ID, ["batch", "encoded"])}
    if speech:
        x = encoder.emit("Transpose", "encoder_input_ids", perm=[0, 2, 1])
        inputs: dict[str, Any] = {"encoder_input_ids": (FLOAT, ["batch", HIDDEN, "encoded"])}
    else:
        x = encoder.emit("Gather", encoder.weights(VOCABULARY, HIDDEN), "encoder_input_ids")
        inputs = {"encoder_input_ids": (ID, ["batch", "encoded"]), **masks}
    crossed = cross(encoder, x, layers)
    outputs = crossed
    held = {"encoder_hidden_states": (FLOAT, ["batch", "encoded", HIDDEN])}
    if starts:
        inputs["decoder_input_ids"] = ID, ["batch", "length"]
        encoder.emit("Identity", x, output="encoder_hidden_states")
        begun = decoded(encoder, "decoder_input_ids", list(crossed), False, mask)
        outputs = {"logits": begun.pop("logits"), **held, **begun, **crossed}
    names = [name.replace("present", "past") for name in crossed]
    words = "input_ids"
    if whole:
        words = decoder.emit("Slice", words, np.array([-1]), np.array([9999]), np.array([1]))
    known = ["encoder_input_ids"] * given + ["encoder_hidden_states"] * hidden
    made = decoded(decoder, words, names, True, mask, known, room)
    taken: dict[str, Any] = {"input_ids": (ID, ["batch", "length" if whole else 1])}
    taken |= {"encoder_input_ids": (ID, ["batch", "encoded"])} if given else {}
    taken |= masks | (held if hidden else {})
    for name in made:
        if name != "logits":
            taken[name.replace("present", "past")] = FLOAT, ["batch", HEADS, "past", SIZE]
    taken |= {name: (FLOAT, ["batch", HEADS, "encoded", SIZE]) for name in names} | extras(room)
    return {"encoder": encoder.graph(inputs, outputs), "decoder": decoder.graph(taken, made)}


@dataclass
class Search:
    """A node that generates, its inputs by name (None for one that is left out), attributes and outputs."""

    op_type: str
    inputs: dict[str, np.ndarray | None]
    attributes: dict[str, Any]
    outputs: tuple[str, ...] = ("sequences",)
    domain: ClassVar[str] = "com.microsoft"

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {name: x for name, x in self.inputs.items() if x is not None}

    def model(self) -> onnx.ModelProto:
        """The model, without the sizes of its inputs."""
        names = [name if x is not None else "" for name, x in self.inputs.items()]
        while not names[-1]:
            names.pop()
        fed = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), [None] * x.ndim)
            for name, x in self.feeds.items()
        ]
        node = helper.make_node(self.op_type, names, list(self.outputs), domain="com.microsoft", **self.attributes)
        results = [onnx.ValueInfoProto(name=name) for name in self.outputs if name]
        graph = helper.make_graph([node], self.op_type, fed, results)
        return helper.make_model(graph, opset_imports=IMPORTS, ir_version=8)

    def with_inputs(self, **inputs: np.ndarray | None) -> Search:
        return Search(self.op_type, self.inputs | inputs, self.attributes, self.outputs)

    def each(self, batch: int) -> list[Search]:
        """The same for every prompt of the batch alone."""
        return [
            self.with_inputs(
                **{name: x[k : k + 1] for name, x in self.feeds.items() if x.ndim > 1 and x.shape[0] == batch}
            )
            for k in range(batch)
        ]

    def expected(self) -> list[np.ndarray]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        data = self.model().SerializeToString()
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, self.feeds))

    def run(self, provider: str) -> list[np.ndarray]:
        if provider == "eager":
            return eager.evaluate(self.model(), self.feeds)
        require_provider(provider)
        session = InferenceSession(self.model().SerializeToString(), providers=[provider])
        return list(session.run(None, self.feeds))
