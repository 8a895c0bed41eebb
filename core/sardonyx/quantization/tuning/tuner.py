"""Quantizes a model, measures what that costs, and searches for what meets a budget; the best file is always there."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sardonyx.api.session import InferenceSession
from sardonyx.common.atomic import replacing
from sardonyx.common.record import field, record
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Model, Node
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.writer import save
from sardonyx.providers.registry import CPU
from sardonyx.quantization.tuning import bias_correction, layers, measurement, smooth, switches
from sardonyx.quantization.tuning.budget import Budget, all_met, budget
from sardonyx.quantization.tuning.facts import Variant, facts, provider_title
from sardonyx.quantization.tuning.preparation import prepared
from sardonyx.quantization.tuning.samples import MOST, Feeds, Listed, Samples, Split, Spooled, check, split
from sardonyx.quantization.tuning.scheme import Scheme
from sardonyx.quantization.tuning.score import Score
from sardonyx.quantization.tuning.search import kept_nodes
from sardonyx.quantization.tuning.workshop import Workshop

Stages = Callable[[str, int], AbstractContextManager[Callable[[], None]]]
"""What shows progress: of a stage's name and number of steps it makes a context, which gives what is called a step."""
Refine = Callable[[Model, Model, Samples, Callable[[], None]], "Model | None"]
"""What makes of a quantized model and the model itself, on samples, a better one of the same graph, or None."""
SENSED = 60.0
"""Seconds that measuring the noise of single nodes may take before fewer samples are used for it."""


@record(frozen=True)
class Outcome:
    """What came of it.

    `facts` is the report as JSON. `path` is the best file, None where nothing was written. `refused` says, where the
    budget is missed or the result is slower, why, and what helps; it is empty otherwise. `interrupted` is true after
    Ctrl+C.
    """

    facts: dict[str, Any]
    path: Path | None
    refused: str = ""
    interrupted: bool = False


@contextmanager
def silent(text: str, total: int) -> Iterator[Callable[[], None]]:
    """Shows no progress."""
    yield lambda: None


def tune(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    samples: Samples | Sequence[Feeds],
    scheme: Scheme | None = None,
    *,
    budgets: Sequence[Budget | str] = (),
    exclude: Collection[str] = (),
    providers: Sequence[str] = (CPU,),
    most_samples: int = MOST,
    memory: bool = True,
    stages: Stages = silent,
    refine: Refine | None = None,
    refine_steps: int = 1,
) -> Outcome:
    """Write `model` quantized to `output`, and tell what changed.

    A quarter of the samples is held out, and measured by. With budgets, nodes are kept in float until all are met; what
    misses them, or is slower on the first provider than the model is, goes to a file beside `output` instead. All
    providers are timed. `refine` is tried on the result before nodes are kept in float; it calls its last argument
    `refine_steps` times. Raises InvalidArgument where samples do not fit the model, a node does not exist, or nothing
    can be quantized.
    """
    listed = samples if isinstance(samples, Samples) else Listed(samples)
    asked = [budget(each) if isinstance(each, str) else each for each in budgets]
    with tempfile.TemporaryDirectory(prefix="sardonyx-quantize-") as folder:
        run = _Run(Path(model), Path(output), scheme or Scheme(), asked, list(exclude), list(providers), Path(folder))
        run.stages, run.memory = stages, memory
        run.refine, run.refine_steps = refine, refine_steps
        return run.outcome(listed, most_samples)


@record
class _Run:
    """One call of `tune`."""

    path: Path
    output: Path
    scheme: Scheme
    budgets: list[Budget]
    exclude: list[str]
    providers: list[str]
    folder: Path
    memory: bool = True
    stages: Stages = silent
    refine: Refine | None = None
    refine_steps: int = 1
    variants: list[Variant] = field(default_factory=list)
    corrections: list[dict[str, Any]] = field(default_factory=list)
    noises: dict[str, float] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    best: Variant | None = None
    written: Path | None = None

    def outcome(self, samples: Samples, most: int) -> Outcome:
        source = read(self.path)
        check(samples, source)
        self.parts: Split = split(samples, most)
        base = prepared(source)
        self._check_names(base)
        self.shop = Workshop(base, self.scheme, self.parts.calibration, self.folder)
        self.shop.left = frozenset(self.exclude)
        if not self.shop.quantizable():
            raise InvalidArgument(self._nothing(base))
        self.nodes: dict[str, Node] = {node.name: node for node in base.graph.nodes}
        try:
            self._work(base)
        except KeyboardInterrupt:
            return Outcome(self._facts("interrupted"), self.written, interrupted=True)
        status, refused = self._verdict()
        return Outcome(self._facts(status), self.written, refused)

    # ---- the steps

    def _work(self, base: Model) -> None:
        self._expect()
        asked = self.scheme
        steps = 1 + (asked.smooth is not None) + asked.bias_correction
        with self.stages("Quantizing", steps) as step:
            first = self._build(())
            self.candidates = self.shop.changed(first)
            if not self.candidates:
                raise InvalidArgument(self._nothing(base))
            variant = self._measure(first, (), "all quantized, uncorrected" if steps > 1 else "all quantized")
            step()
            if asked.smooth is not None:
                variant = self._smooth(base, variant, asked.smooth)
                step()
            if asked.bias_correction:
                variant = self._correct(variant)
                step()
        if self.refine is not None:
            variant = self._refined(variant, self.refine)
        if self.budgets and not all_met(self.budgets, variant.score):
            self._search()
        assert self.best is not None
        with self.stages("Measuring layers, times and memory", 1 + len(self.providers)) as step:
            best = self.folder / "best.onnx"
            best.write_bytes(self.best.path.read_bytes())
            model = self.shop.model
            self.ratios = layers.ratios(model, best, list(self.nodes), self.parts.held_out, self.providers[:1])
            step()
            for provider in self.providers:
                feeds = self.parts.held_out[0]
                self.rows += measurement.compared(self.path, best, feeds, [provider], memory=self.memory)
                step()

    def _expect(self) -> None:
        """Keep what the model itself gives for the samples that are held out."""
        session = InferenceSession(str(self.path), providers=self.providers[:1])
        self.names = [port.name for port in session.get_outputs()]
        held = self.parts.held_out
        with self.stages("Running the model", len(held)) as step:

            def results() -> Iterator[Feeds]:
                for feeds in held:
                    yield {str(k): value for k, value in enumerate(session.run(None, dict(feeds)))}
                    step()

            self.expected = Spooled(results(), "results", len(held))

    def _build(self, kept: Collection[str]) -> Path:
        return self.shop.build(kept)

    def _measure(self, path: Path, kept: Sequence[str], label: str) -> Variant:
        """Compare a file with the model, and have it be the one on disk if it is the best."""
        session = InferenceSession(str(path), providers=self.providers[:1])
        score = Score.of(self.names)
        seconds = []
        for number, feeds in enumerate(self.parts.held_out):
            start = time.perf_counter()
            found = session.run(None, dict(feeds))
            seconds.append(time.perf_counter() - start)
            wanted = self.expected[number]
            score.add([wanted[str(k)] for k in range(len(self.names))], found)
        start = time.perf_counter()
        session.run(None, dict(feeds))
        seconds.append(time.perf_counter() - start)
        changed = bool(self.shop.changed(path))  # else it is the model itself, which meets any budget
        met = changed and all_met(self.budgets, score)
        variant = Variant(path, label, tuple(kept), path.stat().st_size, min(seconds), score, changed, met)
        self.variants.append(variant)
        if self.best is None or self._rank(variant) >= self._rank(self.best):
            if self.best is not None:
                self.best.path.unlink(missing_ok=True)
            self.best = variant
            self._publish(variant)
        else:
            path.unlink()
        return variant

    def _rank(self, variant: Variant) -> tuple[bool, float]:
        """What meets the budgets is better, then what keeps fewer nodes; what misses them is better the nearer."""
        if variant.met:
            return True, -float(len(variant.kept))
        if not variant.changed:
            return False, -float("inf")
        return False, min((each.value(variant.score) - each.least for each in self.budgets), default=0.0)

    def _publish(self, variant: Variant, state: str = "missed") -> None:
        """Put the best file where it belongs, in one step."""
        target = self.output if variant.met and state == "missed" else self._beside(state)
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as file:
            file.write(variant.path.read_bytes())
        if self.written not in (None, target):
            assert self.written is not None
            self.written.unlink(missing_ok=True)
        self.written = target

    def _beside(self, state: str) -> Path:
        return self.output.with_name(f"{self.output.stem}.{state}{self.output.suffix}")

    def _smooth(self, base: Model, before: Variant, alpha: float) -> Variant:
        model, changed, added = smooth.smoothed(base, self.parts.calibration, alpha, self.providers[:1])
        if changed:
            self.shop.set_model(model)
            self.shop.left |= set(added)
            self.nodes |= {node.name: node for node in model.graph.nodes}
            path = self._build(())
            after = self._measure(path, (), f"smoothed, alpha {alpha:g}")
        else:
            after = before
        self.corrections.append(
            _correction("smooth", len(changed), before, after) | {"alpha": alpha, "added": len(added)}
        )
        return after

    def _correct(self, before: Variant) -> Variant:
        built = self._build(())
        self.shop.shifts = bias_correction.shifts(self.shop.model, built, self.parts.calibration, self.providers[:1])
        built.unlink()
        after = before
        if self.shop.shifts:
            after = self._measure(self._build(()), (), "biases corrected")
        self.corrections.append(_correction("bias", len(self.shop.shifts), before, after))
        return after

    def _refined(self, before: Variant, refine: Refine) -> Variant:
        """Train what is quantized, if that helps."""
        built, after = self._build(()), before
        with self.stages("Training", self.refine_steps) as step:
            better = refine(read(built), self.shop.model, self.parts.calibration, step)
        if better is not None:
            save(better, built)
            after = self._measure(built, (), "trained")
        else:
            built.unlink()
        self.corrections.append(_correction("qat", len(self.candidates) if better is not None else 0, before, after))
        return after

    def _search(self) -> None:
        self.noises = self._alone()
        order = sorted(self.candidates, key=lambda name: -self.noises[name])
        total = max(2 * len(order).bit_length() + 4, 1)
        with self.stages("Searching for what stays in float", total) as step:

            def meets(kept: tuple[str, ...]) -> bool:
                variant = self._measure(self._build(kept), kept, f"{len(kept)} in float")
                step()
                return variant.met

            kept_nodes(order, meets)

    def _alone(self) -> dict[str, float]:
        """The noise that each candidate adds alone, over the signal."""
        held = self.parts.calibration
        if self.scheme.kind == "dynamic":
            return self._alone_by_files()
        if self.scheme.kind == "fp16":
            switched = switches.of_halves(self.shop.model, self.candidates, self.providers[:1])
        else:
            simulated = self.shop.build(only=self.candidates, simulated=True)
            switched = switches.of_pairs(self.shop.model, simulated, self.candidates, self.providers[:1])
            simulated.unlink()
        feeds = held[0]
        switched.run(feeds, ())
        start = time.perf_counter()
        switched.run(feeds, ())
        each = (time.perf_counter() - start) * (len(self.candidates) + 1)
        count = max(1, min(4, len(held), int(SENSED / max(each, 1e-6))))
        with self.stages("Measuring the noise of each node", len(self.candidates)) as step:
            return switches.alone(switched, self.candidates, held[:count], step)

    def _alone_by_files(self) -> dict[str, float]:
        """The same where nothing but a file of its own quantizes a node alone."""
        noises = {}
        with self.stages("Measuring the noise of each node", len(self.candidates)) as step:
            for name in self.candidates:
                path = self.shop.build(only=[name])
                session = InferenceSession(str(path), providers=self.providers[:1])
                wanted = [self.expected[0][str(k)] for k in range(len(self.names))]
                noises[name] = switches.share([wanted], [session.run(None, dict(self.parts.held_out[0]))])
                path.unlink()
                step()
        return noises

    # ---- the end

    def _verdict(self) -> tuple[str, str]:
        """The result's state, and why it is refused."""
        assert self.best is not None
        if not self.best.met:
            missed = next(each for each in self.budgets if not each.met(self.best.score))
            value = missed.value(self.best.score)
            left = len(self.candidates) - len(self.best.kept)
            return "missed", (
                f"the budget {missed} is not met: {missed.metric} is {value:.4g} with {left} of "
                f"{len(self.candidates)} nodes quantized; that file is {self.written}. {self._remedy()}"
            )
        found = measurement.slower(self.rows[:1])
        if found and self.budgets:
            self._publish(self.best, "slower")
            where, ratio = provider_title(found[0]["provider"]), found[0]["ratio"]
            return "slower", (
                f"the result takes {ratio:.2f} times as long as the model on {where}; it is {self.written}. Stay with "
                "the model here, quantize products alone (operators Conv,MatMul,Gemm), or leave out the budget to "
                "have the smaller file"
            )
        return "ok", ""

    def _remedy(self) -> str:
        options = []
        if self.scheme.kind == "int8" and not self.scheme.bias_correction:
            options.append("bias correction")
        if self.scheme.kind == "int8" and self.scheme.method == "minmax":
            options.append("the method percentile")
        if self.scheme.kind == "int4" and self.scheme.block_size > 16:
            options.append("blocks of 16")
        if self.scheme.kind in ("int4", "dynamic", "int8"):
            options.append("fp16")
        return f"Try {', '.join([*options, 'more samples'])}, or a smaller budget"

    def _facts(self, status: str) -> dict[str, Any]:
        return facts(
            model=self.path,
            written=self.written,
            status=status,
            scheme=self.scheme,
            budgets=self.budgets,
            exclude=self.exclude,
            parts=self.parts,
            best=self.best,
            variants=self.variants,
            corrections=self.corrections,
            nodes=self.nodes,
            candidates=self.candidates,
            noises=self.noises,
            ratios=self.ratios,
            rows=self.rows,
        )

    def _check_names(self, base: Model) -> None:
        from difflib import get_close_matches

        known = [node.name for node in base.graph.nodes]
        for name in self.exclude:
            if name not in known:
                near = get_close_matches(name, known, 1)
                meant = f", but {near[0]!r}" if near else ""
                raise InvalidArgument(f"exclude: {self.path} has no node {name!r}{meant}")

    def _nothing(self, base: Model) -> str:
        kinds = sorted({node.op_type for node in base.graph.nodes})
        listed = ", ".join(kinds[:8]) or "no nodes"
        return f"{self.path} has nothing that {self.scheme.kind} can quantize ({listed}); nothing is written"


def _correction(what: str, count: int, before: Variant, after: Variant) -> dict[str, Any]:
    return {"what": what, "nodes": count, "before": dict(before.score.figures), "after": dict(after.score.figures)}
