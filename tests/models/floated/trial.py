"""How far runs of a model of dynamic int8 are from its float form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import sardonyx
from tests.models.catalogue import MODELS, path
from tests.models.feeds import inputs
from tests.models.oracle import session_of, spectrum

from .form import floated

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

ORT = "onnxruntime"
ROUNDED = ("DynamicQuantizeLinear", "DynamicQuantizeLSTM")
FOUND = 1e-4
"""A tensor before which nothing was rounded has a smaller error, which tells of float32."""


class Session(Protocol):
    def run(self, outputs: Sequence[str] | None, feeds: Any) -> list[Any]: ...


@dataclass(frozen=True, order=True)
class Runtime:
    """onnxruntime or a provider, running the model of int8 or its float form."""

    name: str
    exact: bool = False


@dataclass(frozen=True)
class Distance:
    """How far a run is from that of the float form.

    By `longer` elements the output of the whole run is longer or shorter. `free` is the cosine of the outputs, or, for
    sounds, of their spectra; `timed` that of runs which are given what the float form rounds to integers (durations),
    and `given` that of runs which are given its Fourier transforms besides. `sums` is the mean distance of what is
    rounded to integers, and `errors` has the errors of the tensors that become 8 bits in timed runs, relative to the
    tensors' norms.
    """

    longer: int
    free: float
    timed: float
    given: float
    sums: float
    errors: Mapping[str, float]


@dataclass(frozen=True)
class Reference:
    """What the float form is fed, what is given to other runs besides, and its results."""

    feeds: Feeds
    rounds: Feeds
    bins: Feeds
    results: Feeds


class Trial:
    """A model, its float form, and what this gives for some seeds.

    onnxruntime runs the float form, but NumPy its Fourier transforms, in float64: of real frames the first bin and the
    last are real, and where rounding errors make them complex, models take the phases of these.
    """

    def __init__(self, id: str, seeds: Iterable[int]) -> None:
        self.id = id
        self.model = onnx.load(path(id))
        self.exact = floated(self.model)
        nodes = {kind: [node for node in self.model.graph.node if node.op_type == kind] for kind in ("Round", "STFT")}
        fed = {value.name for value in self.model.graph.input}
        self.whole = self.model.graph.output[0].name
        self.sums = [node.input[0] for node in nodes["Round"]]
        self.rounds = [node.output[0] for node in nodes["Round"]]
        self.bins = [node.output[0] for node in nodes["STFT"]]
        self.taps = [*dict.fromkeys(node.input[0] for node in self.model.graph.node if node.op_type in ROUNDED)]
        self.taps = [name for name in self.taps if name not in fed]
        self.references = self._references(nodes["STFT"], [speech(id, seed) for seed in seeds])

    def _references(self, transforms: Sequence[onnx.NodeProto], feeds: Sequence[Feeds]) -> list[Reference]:
        weights = {tensor.name: tensor for tensor in self.model.graph.initializer}
        signals = [node.input[0] for node in transforms]
        constants = [[numpy_helper.to_array(weights[name]) for name in node.input[1:3]] for node in transforms]
        rounds, bins = [], []
        first = session(ORT, tapped(self.exact, [*self.rounds, *signals], []))
        for one in feeds:
            found = first.run([*self.rounds, *signals], one)
            rounds.append(_given(self.rounds, found[: len(self.rounds)]))
            pairs = zip(found[len(self.rounds) :], constants, strict=True)
            bins.append(_given(self.bins, [transformed(signal, int(step), window) for signal, (step, window) in pairs]))
        del first
        names = [self.whole, *self.sums, *self.taps]
        second = session(ORT, tapped(self.exact, names[1:], [*self.rounds, *self.bins]))
        return [
            Reference(one, its, own, dict(zip(names, second.run(names, {**one, **its, **own}), strict=True)))
            for one, its, own in zip(feeds, rounds, bins, strict=True)
        ]

    def distances(self, runtime: Runtime) -> list[Distance]:
        """The distance of the runtime's runs, seed by seed. One session is there at a time, since each is large."""
        form = self.exact if runtime.exact else self.model
        known = self.references
        free = session(runtime.name, tapped(form, self.sums, []))
        runs = [free.run([self.whole, *self.sums], one.feeds) for one in known]
        del free
        timed = session(runtime.name, tapped(form, self.taps, self.rounds))
        errors, cosines = [], []
        for one in known:
            sound, *tensors = timed.run([self.whole, *self.taps], {**one.feeds, **one.rounds})
            cosines.append(self.likeness(sound, one.results[self.whole]))
            errors.append({name: error(a, one.results[name]) for a, name in zip(tensors, self.taps, strict=True)})
        del timed
        given = session(runtime.name, tapped(form, [], [*self.rounds, *self.bins]))
        sounds = [given.run([self.whole], {**one.feeds, **one.rounds, **one.bins})[0] for one in known]
        return [
            Distance(
                longer=abs(run[0].size - one.results[self.whole].size),
                free=self.likeness(run[0], one.results[self.whole]),
                timed=cosine,
                given=self.likeness(sound, one.results[self.whole]),
                sums=_distance(run[1:], [one.results[name] for name in self.sums]),
                errors=its,
            )
            for one, run, cosine, its, sound in zip(known, runs, cosines, errors, sounds, strict=True)
        ]

    def likeness(self, found: Array, expected: Array) -> float:
        """A cosine, of sounds that of their spectra."""
        count = min(found.size, expected.size)
        one, other = (a.ravel()[:count].astype(np.float64) for a in (found, expected))
        if MODELS[self.id].spectrum is not None:
            one, other = spectrum(one), spectrum(other)
        return float(np.vdot(one, other) / (np.linalg.norm(one) * np.linalg.norm(other)))


def mean_error(distances: Sequence[Distance]) -> float:
    """The geometric mean of the errors of all tensors that have some."""
    errors = [error for distance in distances for error in distance.errors.values() if error > FOUND]
    return float(np.exp(np.mean(np.log(errors))))


def speech(id: str, seed: int) -> dict[str, Array]:
    """The feeds of the seed; of a voice other words of the same sounds, by a voice near it, at another speed."""
    feeds = inputs(id, seed)
    if seed == 0 or MODELS[id].spectrum is None:
        return feeds
    rng = np.random.default_rng(seed)
    tokens, style = feeds["tokens"], feeds["style"]
    words = rng.choice(tokens[0, 1:-1], rng.integers(12, 40))
    return {
        "tokens": np.array([[0, *words, 0]], tokens.dtype),
        "style": (style * rng.normal(1, 0.15, style.shape)).astype(style.dtype),
        "speed": rng.uniform(0.8, 1.3, 1).astype(np.float32),
    }


def tapped(model: onnx.ModelProto, taps: Sequence[str], given: Sequence[str]) -> bytes:
    """The model with `taps` as further outputs, whose operators read inputs, `NAME given`, in place of `given`."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for node in made.graph.node:
        node.input[:] = [f"{name} given" if name in given else name for name in node.input]
    for name in given:
        made.graph.input.append(helper.make_tensor_value_info(f"{name} given", TensorProto.FLOAT, None))
    for name in taps:
        made.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    return bytes(made.SerializeToString())


def session(runtime: str, model: bytes) -> Session:
    if runtime != ORT:
        made: Session = sardonyx.InferenceSession(model, providers=[runtime])
        return made
    reference: Session = session_of(model)
    return reference


def transformed(signal: Array, step: int, window: Array) -> Array:
    """What STFT gives for one real signal, computed in float64: [1, frames, bins, 2]."""
    frames = np.lib.stride_tricks.sliding_window_view(signal.ravel().astype(np.float64), window.size)[::step]
    bins = np.fft.rfft(frames * window)
    return np.stack([bins.real, bins.imag], -1)[None].astype(np.float32)


def _given(names: Sequence[str], arrays: Sequence[Array]) -> Feeds:
    return {f"{name} given": array for name, array in zip(names, arrays, strict=True)}


def _distance(found: Sequence[Array], expected: Sequence[Array]) -> float:
    return float(np.mean([np.abs(a - b).mean() for a, b in zip(found, expected, strict=True)] or [0]))


def error(found: Array, expected: Array) -> float:
    expected = expected.astype(np.float64)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
