"""Where operators run: `sardonyx inspect --operators`.

The table was made by compiling the cases of each operator for each provider (`python -m tests.operators --write`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sardonyx.cli.screen import Screen
from sardonyx.providers import registry

DATA = Path(__file__).with_suffix(".json")
MARKDOWN = Path(__file__).parents[1] / "ops" / "README.md"
COLUMNS = (registry.WEBGPU, registry.WASM, registry.NUMPY)

_WEB = """
Abs Acos Acosh Add ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization BiasAdd BiasSplitGelu
Cast Ceil Clip Concat Conv ConvTranspose Cos Cosh CumSum DFT DepthToSpace DequantizeLinear Div Einsum Elu Equal Erf
Exp Expand FastGelu Flatten Floor FusedConv Gather GatherBlockQuantized GatherElements GatherND Gelu Gemm
GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual GridSample GroupQueryAttention HardSigmoid HardSwish If
InstanceNormalization LayerNormalization LeakyRelu Less LessOrEqual Log MatMul MatMulNBits MaxPool MemcpyFromHost
MemcpyToHost Mul MultiHeadAttention Neg Not Pad Pow QuickGelu Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Resize
RotaryEmbedding ScatterND Shape Sigmoid SimplifiedLayerNormalization Sin Sinh SkipLayerNormalization
SkipSimplifiedLayerNormalization Slice Softmax Split Sqrt Squeeze Sub Tan Tanh ThresholdedRelu Tile Transpose
Unsqueeze Where
"""
ONNXRUNTIME_WEB = frozenset(_WEB.split())
"""The operators in the table of onnxruntime-web 1.30's WebGPU provider, by name."""

LEGEND = {
    "native": "all of it runs on the provider",
    "steps": "on the provider, and the host takes steps between: control flow, sizes that depend on data, functions",
    "partly": "some forms or types are native, others take steps of the host or run in NumPy",
    "host": "in NumPy or Python",
    "folded": "known before the run, which has nothing to do",
}


def table() -> list[dict[str, Any]]:
    """A row for each operator: its domain, its name, and for each provider its cases by where they run."""
    domains = json.loads(DATA.read_text(encoding="utf-8"))
    return [
        {"domain": domain, "name": name, **_by_provider(homes)}
        for domain, operators in domains.items()
        for name, homes in operators.items()
    ]


def _by_provider(homes: Any) -> dict[str, Any]:
    return dict(zip(COLUMNS, homes, strict=True)) if isinstance(homes, list) else dict.fromkeys(COLUMNS, homes)


def text(rows: list[dict[str, Any]]) -> str:
    """The table as JSON, by domain and name, an operator in a line; what all providers have in common stands once."""
    domains = dict.fromkeys(row["domain"] for row in rows)
    parts = [
        f"{json.dumps(domain)}:{{\n" + ",\n".join(_line(row) for row in rows if row["domain"] == domain) + "\n}"
        for domain in domains
    ]
    return "{" + ",\n".join(parts) + "}\n"


def _line(row: dict[str, Any]) -> str:
    first, *others = homes = [row[provider] for provider in COLUMNS]
    common = first if others == [first, first] else homes
    return f"{json.dumps(row['name'])}:{json.dumps(common, separators=(',', ':'))}"


def collect() -> dict[str, Any]:
    """The facts, as `--json` prints them."""
    rows = [{**row, "onnxruntime-web": row["name"] in ONNXRUNTIME_WEB} for row in table()]
    return {"operators": rows, "legend": LEGEND}


def word(homes: dict[str, int]) -> str:
    """What the numbers of cases by where they run come to, a key of `LEGEND`; "" without cases.

    >>> word({"native": 3, "folded": 1}), word({"native": 2, "host": 1}), word({"steps": 1}), word({"host": 1})
    ('native', 'partly', 'steps', 'host')
    """
    kinds = homes.keys() - {"folded"}
    if len(kinds) > 1:
        return "partly"
    return next(iter(kinds or homes), "")


def _title(row: dict[str, Any]) -> str:
    return str(row["name"] if row["domain"] == "ai.onnx" else f"{row['domain']}.{row['name']}")


def _cells(row: dict[str, Any]) -> list[str]:
    web = "yes" if row["name"] in ONNXRUNTIME_WEB else ""
    return [_title(row), *(word(row[provider]) for provider in COLUMNS), web]


def _head() -> list[str]:
    return ["Operator", *(registry.TITLES[provider] for provider in COLUMNS), "ort-web"]


def render(screen: Screen, data: dict[str, Any]) -> None:
    rows = data["operators"]
    screen.heading(f"Operators: {len(rows)}")
    screen.table(_head(), [_cells(row) for row in rows])
    screen.line("")
    screen.facts({**LEGEND, "ort-web": "whether onnxruntime-web 1.30's WebGPU provider has an operator of this name"})


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table as a Markdown file."""
    counts = ", ".join(
        f"{sum(word(row[provider]) in ('native', 'folded') for row in rows)} on {registry.TITLES[provider]}"
        for provider in COLUMNS
    )
    lines = [
        "# Operators",
        "",
        f"{len(rows)} operators; native in all forms and types of their tests: {counts}.",
        "They were compiled for each provider to see it. `python -m tests.operators --write` makes this file, and",
        "`sardonyx inspect --operators` shows it.",
        "",
        *(f"* **{name}**: {meaning}" for name, meaning in LEGEND.items()),
        "* **ort-web**: whether onnxruntime-web 1.30's WebGPU provider has an operator of this name",
        "",
        f"| {' | '.join(_head())} |",
        f"|{'---|' * (len(COLUMNS) + 2)}",
        *(f"| {' | '.join(_cells(row))} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"
