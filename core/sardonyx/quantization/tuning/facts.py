"""What a report tells, as one JSON object; `report.schema.json` describes it."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sardonyx.common.record import record
from sardonyx.common.threads import cores
from sardonyx.model.ir import Node
from sardonyx.model.serde.reader import read
from sardonyx.providers.registry import SUFFIX, TITLES
from sardonyx.quantization.tuning import measurement
from sardonyx.quantization.tuning.budget import Budget
from sardonyx.quantization.tuning.samples import Split
from sardonyx.quantization.tuning.scheme import Scheme
from sardonyx.quantization.tuning.score import EXACT, Score, decibels
from sardonyx.version import __version__

VERSION = 1
"""Of the schema; raised where a reader of the old one would be misled."""
GOOD = {"agreement": 0.99, "cosine": 0.99, "snr": 20.0}
"""Figures below which a warning says where the difference comes from."""
FEW = 8
"""Samples below which ranges are a guess."""
LOSS = 1e-3
"""The share of noise that a node has to add to be named."""
CORRECTIONS = {"bias": "Bias correction", "smooth": "SmoothQuant", "qat": "Training"}
"""What corrections are called."""
WORSE = 0.1
"""Decibels that a correction may cost before it is called worse."""
CULPRITS = 3
"""Nodes that such a warning names."""


def provider_title(name: str) -> str:
    """A provider's name as prose has it."""
    return TITLES.get(name, name.removesuffix(SUFFIX))


@record(frozen=True)
class Variant:
    """A file that was tried: which nodes stayed in float, its size, the seconds of its fastest run, its score.

    `changed` is false where nothing was quantized, since what is left needs its neighbours to be.
    """

    path: Path
    label: str
    kept: tuple[str, ...]
    nbytes: int
    seconds: float
    score: Score
    changed: bool
    met: bool


def facts(
    *,
    model: Path,
    written: Path | None,
    status: str,
    scheme: Scheme,
    budgets: Sequence[Budget],
    exclude: Sequence[str],
    parts: Split,
    best: Variant | None,
    variants: Sequence[Variant],
    corrections: Sequence[Mapping[str, Any]],
    nodes: Mapping[str, Node],
    candidates: Sequence[str],
    noises: Mapping[str, float],
    ratios: Mapping[str, float],
    rows: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """All of it, ready for `json.dumps`."""
    kept = best.kept if best else ()
    listed = [
        {
            "node": name,
            "operator": nodes[name].op_type,
            "state": "float" if name in kept else "quantized",
            "snr": ratios.get(name),
            "alone": decibels(1.0, noises[name]) if name in noises else None,
        }
        for name in candidates
    ]
    told: dict[str, Any] = {
        "version": VERSION,
        "sardonyx": __version__,
        "status": status,
        "warnings": [],
        "model": {"path": str(model), "bytes": _size(model), "nodes": len(nodes)},
        "result": {"path": str(written), "bytes": _size(written), "nodes": _count(written)} if written else None,
        "options": {
            "kind": scheme.kind,
            "format": scheme.form or None,
            "per_channel": scheme.per_channel,
            "method": scheme.method if scheme.calibrates else None,
            "block_size": scheme.block_size if scheme.kind == "int4" else None,
            "operators": list(scheme.operators),
            "bias_correction": scheme.bias_correction,
            "smooth": scheme.smooth,
            "budgets": list(map(str, budgets)),
            "exclude": list(exclude),
        },
        "samples": {
            "source": parts.held_out.source,
            "synthetic": parts.held_out.synthetic,
            "calibration": len(parts.calibration),
            "held_out": len(parts.held_out),
            "shared": parts.shared,
        },
        "score": dict(best.score.figures) if best else None,
        "outputs": [output.facts() for output in best.score.outputs] if best else [],
        "providers": list(map(dict, rows)),
        "nodes": {
            "quantizable": len(candidates),
            "quantized": len(candidates) - len(kept),
            "others": len(nodes) - len(candidates),
        },
        "layers": listed,
        "kept": list(_kept(exclude, kept, nodes, noises)),
        "variants": _variants(variants, best),
        "corrections": list(map(dict, corrections)),
        "machine": {"processor": platform.machine(), "system": platform.system(), "cores": cores()},
    }
    told["warnings"] = list(_warnings(told, _losses(candidates, nodes, noises, ratios)))
    return told


def _size(path: Path | None) -> int:
    return path.stat().st_size if path is not None else 0


def _count(path: Path) -> int:
    return len(read(path).graph.nodes)


def _kept(
    exclude: Sequence[str], kept: Sequence[str], nodes: Mapping[str, Node], noises: Mapping[str, float]
) -> Iterator[dict[str, Any]]:
    for name in exclude:
        yield {"node": name, "operator": nodes[name].op_type, "reason": "excluded"}
    for name in kept:
        alone = decibels(1.0, noises[name])
        reason = f"alone {alone:.1f} dB" if alone < EXACT else "with others"
        yield {"node": name, "operator": nodes[name].op_type, "reason": reason}


def _variants(variants: Sequence[Variant], best: Variant | None) -> list[dict[str, Any]]:
    rows = [
        {
            "label": each.label,
            "kept": len(each.kept),
            "bytes": each.nbytes,
            "seconds": each.seconds,
            **each.score.figures,
            "met": each.met,
            "chosen": each is best,
        }
        for each in variants
    ]
    for row in rows:
        row["front"] = not any(_dominates(other, row) for other in rows)
    return rows


def _dominates(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a variant is nowhere worse and somewhere better: smaller and more alike."""
    pairs = [(-one["bytes"], -other["bytes"])]
    pairs += [(one[name], other[name]) for name in GOOD if one[name] is not None and other[name] is not None]
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def _warnings(told: Mapping[str, Any], losses: Sequence[str]) -> Iterator[str]:
    """What a person should know first."""
    samples = told["samples"]
    if samples["synthetic"]:
        yield (
            "No data was given: the samples are made up, which says little about real ones. Give some of what the "
            "model will see, --calibrate FOLDER"
        )
    elif samples["shared"]:
        yield "There is one sample: it is what ranges are learnt from and what the result is measured by. Give more"
    elif samples["calibration"] < FEW and told["options"]["method"]:
        yield f"Ranges are learnt from {samples['calibration']} samples; 32 and more make them reliable"
    score = told["score"] or {}
    poor = [name for name, least in GOOD.items() if score.get(name) is not None and score[name] < least]
    if poor and not told["options"]["budgets"]:
        said = ", ".join(f"{METRICS[name].title.lower()} {METRICS[name].text(score[name])}" for name in poor)
        lost = f" Most is lost at {', '.join(losses)}." if losses else ""
        yield f"The results differ from the model's: {said}.{lost} A budget keeps such nodes in float"
    for row in measurement.slower(told["providers"]):
        where = provider_title(row["provider"])
        yield f"The result is slower than the model on {where}: {row['ratio']:.2f} times its time"
    if told["result"] and told["result"]["bytes"] >= told["model"]["bytes"]:
        yield "The result is no smaller than the model"
    for each in told["corrections"]:
        title = CORRECTIONS[each["what"]]
        if not each["nodes"]:
            yield f"{title} {'made it no better' if each['what'] == 'qat' else 'found nothing to change'}"
        elif (each["after"]["snr"] or 0) < (each["before"]["snr"] or 0) - WORSE:
            yield f"{title} made it worse: {each['before']['snr']:.1f} dB before, {each['after']['snr']:.1f} dB after"


@record(frozen=True)
class Metric:
    """How a figure is called, and written."""

    title: str
    text: Callable[[float], str]


METRICS = {
    "agreement": Metric("Agreement", lambda value: f"{100 * value:.4g} %"),
    "cosine": Metric("Cosine", lambda value: f"{value:.5f}"),
    "snr": Metric("Signal-to-noise", lambda value: "no noise" if value >= EXACT else f"{value:.1f} dB"),
}
"""The figures of a score, as people read them."""


def _losses(
    candidates: Sequence[str], nodes: Mapping[str, Node], noises: Mapping[str, float], ratios: Mapping[str, float]
) -> list[str]:
    """The nodes at which most is lost: those that alone add most noise, else where the share of noise grows most."""
    if noises:
        worst = sorted(noises, key=lambda name: -noises[name])[:CULPRITS]
        return [f"{name} (alone {decibels(1.0, noises[name]):.0f} dB)" for name in worst]
    losses = []
    for name in candidates:
        if name in ratios:
            before, after = min(_before(nodes[name], ratios), default=EXACT), ratios[name]
            losses.append((10 ** (-after / 10) - 10 ** (-before / 10), name, before, after))
    losses.sort(reverse=True)
    return [
        f"{name} (from {METRICS['snr'].text(before)} to {METRICS['snr'].text(after)})"
        for loss, name, before, after in losses[:CULPRITS]
        if loss > LOSS
    ]


def _before(node: Node, ratios: Mapping[str, float]) -> Iterator[float]:
    """The ratios of what a node reads, or of what that was made of where it has none."""
    for value in node.inputs:
        if value is not None and value.producer is not None:
            if value.producer.name in ratios:
                yield ratios[value.producer.name]
            else:
                yield from _before(value.producer, ratios)
