"""What the tests give to the program, and what it shows of that."""

from __future__ import annotations

from sardonyx.demo import assets
from tests.models.feeds import LINE
from tests.support.wheel import ROOT

EXAMPLE = ROOT / "examples" / "desktop"
SEVEN, FOUR = (str(assets() / "images" / name) for name in ("7_drawn.png", "4_heldout.png"))
FILES = {"ppocr4-det": "ch_PP-OCRv4_det_infer.onnx", "ppocr4-rec": "ch_PP-OCRv4_rec_infer.onnx"}
"""The program's names of models, by those of tests/models."""
LINES = [LINE, "read on a desktop"]
"""What the page says."""
ACCENT = [0xF0, 0x8A, 0x5D]
"""The colour of boxes on dark ground."""
