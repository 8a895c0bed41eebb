"""What quantizing costs, measured, and searched for within a budget; not how a model is quantized.

    from sardonyx.quantization.tuning import Scheme, report, tune

    outcome = tune("model.onnx", "model.int8.onnx", samples, Scheme("int8"), budgets=["cosine>=0.995"])
    report(outcome.facts, "report.html")

`samples` are dictionaries of arrays by input name, in a list or any other sequence. `tuner.py` owns a run;
`workshop.py` builds variants; `switches.py` and `layers.py` tell where noise comes from; `search.py` knows no model.
"""

from __future__ import annotations

from sardonyx.quantization.tuning.budget import Budget
from sardonyx.quantization.tuning.page import report
from sardonyx.quantization.tuning.samples import Listed, Samples, Spooled
from sardonyx.quantization.tuning.scheme import Scheme
from sardonyx.quantization.tuning.tuner import Outcome, tune

__all__ = ["Budget", "Listed", "Outcome", "Samples", "Scheme", "Spooled", "report", "tune"]
