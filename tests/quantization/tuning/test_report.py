"""The page: whole, safe, and with marks where they belong."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sardonyx.errors import Fail, InvalidArgument
from sardonyx.quantization.tuning import chart, report
from sardonyx.quantization.tuning.page import page
from tests.cli.conftest import without

HOSTILE = "<script>alert('x')</script>\"&{{ 7 * 7 }}"
VOID = {"meta", "br", "hr", "img", "input", "link"}


def facts(name: str = "layer", **changes: Any) -> dict[str, Any]:
    """A report of a run with a budget."""
    score = {"agreement": 0.98, "cosine": 0.997, "snr": 24.5}
    side = {"seconds": 0.002, "peak_memory": 123456789}
    told: dict[str, Any] = {
        "version": 1,
        "sardonyx": "1.2.3",
        "status": "ok",
        "warnings": [f"Something about {name}"],
        "model": {"path": f"/models/{name}.onnx", "bytes": 4_000_000, "nodes": 12},
        "result": {"path": f"/models/{name}.int8.onnx", "bytes": 1_000_000, "nodes": 20},
        "options": {
            "kind": "int8",
            "format": "qdq",
            "per_channel": True,
            "method": "minmax",
            "block_size": None,
            "operators": [],
            "bias_correction": True,
            "smooth": 0.5,
            "budgets": ["cosine>=0.995"],
            "exclude": [],
        },
        "samples": {"source": name, "synthetic": False, "calibration": 9, "held_out": 3, "shared": False},
        "score": score,
        "outputs": [{"name": name, **score}, {"name": "labels", "agreement": 1.0, "cosine": None, "snr": None}],
        "providers": [{"provider": "CPUExecutionProvider", "before": side, "after": side, "ratio": 1.0}],
        "nodes": {"quantizable": 3, "quantized": 2, "others": 9},
        "layers": [
            {"node": f"{name}/one", "operator": "Conv", "state": "quantized", "snr": 30.0, "alone": 33.0},
            {"node": f"{name}/two", "operator": "Conv", "state": "float", "snr": 70.0, "alone": 5.0},
            {"node": f"{name}/three", "operator": "Relu", "state": "quantized", "snr": None, "alone": 200.0},
        ],
        "kept": [{"node": f"{name}/two", "operator": "Conv", "reason": "alone 5.0 dB"}],
        "variants": [
            {
                "label": "all",
                "kept": 0,
                "bytes": 9,
                "seconds": 0.1,
                **score,
                "met": False,
                "chosen": False,
                "front": True,
            },
            {
                "label": "1",
                "kept": 1,
                "bytes": 11,
                "seconds": 0.2,
                **score,
                "met": True,
                "chosen": True,
                "front": False,
            },
        ],
        "corrections": [{"what": "smooth", "nodes": 2, "alpha": 0.5, "added": 1, "before": score, "after": score}],
        "machine": {"processor": name, "system": "Linux", "cores": 2},
    }
    return {**told, **changes}


class Page(HTMLParser):
    """Checks that elements are closed in their order; keeps text, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_it_is_whole_and_loads_nothing() -> None:
    read = Page(page(facts()))
    names = {tag for tag, _ in read.tags}
    assert names.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert not any({"src", "href", "onload", "onclick"} & set(attributes) for _, attributes in read.tags)
    text = " ".join(" ".join(read.text).split())
    for part in ("layer.onnx, quantized", "Something about layer.", "976.6 KiB", "98 %", "0.99700", "24.5 dB", "…/two"):
        assert part in text
    assert text.index("Something about") < text.index("976.6 KiB")


def test_names_are_text() -> None:
    read = Page(page(facts(HOSTILE)))
    assert "script" not in {tag for tag, _ in read.tags}
    assert any(f"Something about {HOSTILE}" in text for text in read.text)
    titles = [text for text in read.text if text.startswith("Conv ")]
    assert any(f"{HOSTILE}/one: 30.0 dB; alone 33.0 dB" in title for title in titles)


def test_bars_are_as_tall_as_the_ratio() -> None:
    drawn = chart.layer_chart(facts()["layers"])
    one, two = drawn["bars"]
    assert one["height"] == chart.HEIGHT / 2
    assert one["y"] + one["height"] == two["y"] + two["height"] == chart.HEIGHT
    assert two["height"] == chart.HEIGHT  # more than 60 dB
    assert (one["x"], two["x"]) == (0, 50)
    assert one["alone"] == pytest.approx(chart.HEIGHT * (1 - 33 / 60), abs=0.1)


def test_points_lie_by_cost_and_metric() -> None:
    variants = [
        {"label": label, "bytes": cost, "cosine": value, "chosen": label == "b"}
        for label, cost, value in (("a", 100, 0.90), ("b", 200, 0.95), ("c", 300, 0.92))
    ]
    drawn = chart.front_chart(variants, "bytes", "cosine", [0.94], str)
    points = {point["title"][0]: point for point in drawn["points"]}
    assert points["a"]["x"] < points["b"]["x"] < points["c"]["x"]
    assert points["b"]["y"] < points["c"]["y"] < points["a"]["y"]
    assert [points[label]["front"] for label in "abc"] == [True, True, False]
    assert points["b"]["y"] < drawn["wanted"][0] < points["c"]["y"]
    for tick in drawn["ticks"]:
        assert 0 <= tick["y"] <= chart.HEIGHT
    inside = [point for point in drawn["points"] if 0 < point["x"] < 100 and 0 < point["y"] < chart.HEIGHT]
    assert len(inside) == 3


@pytest.mark.parametrize("status", ["missed", "slower", "interrupted"])
def test_bad_ends_are_told(status: str) -> None:
    words = {"missed": "not met", "slower": "slower here", "interrupted": "best so far"}
    assert words[status] in page(facts(status=status))


def test_a_report_of_almost_nothing() -> None:
    empty = facts(
        result=None, score=None, outputs=[], providers=[], layers=[], kept=[], variants=[], corrections=[], warnings=[]
    )
    Page(page(empty))


def test_files(tmp_path: Path) -> None:
    report(facts(), tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text()) == facts()
    report(facts(), tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text() == page(facts())
    with pytest.raises(InvalidArgument, match=r"name a file that ends in .html or .json"):
        report(facts(), tmp_path / "r.pdf")


def test_jinja2_is_optional(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch, "jinja2")
    with pytest.raises(Fail, match="a report as HTML: jinja2 is not installed; pip install jinja2"):
        report(facts(), tmp_path / "r.html")
    report(facts(), tmp_path / "r.json")
