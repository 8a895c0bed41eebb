"""What a quantized model must still reach: `agreement>=0.99`, `cosine>=0.995`, `snr>=25`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sardonyx.common.record import record
from sardonyx.errors import InvalidArgument
from sardonyx.quantization.tuning.score import Score

METRICS = {
    "agreement": "the share of equal decisions, 0 to 1",
    "cosine": "the cosine of the outputs, up to 1",
    "snr": "signal-to-noise in dB",
}
FORM = re.compile(r"\s*([a-z]+)\s*>=?\s*([-+.\de]+)\s*(%|db)?\s*", re.IGNORECASE)


@record(frozen=True)
class Budget:
    """The least value of a metric."""

    metric: str
    least: float

    def __str__(self) -> str:
        return f"{self.metric}>={self.least:g}"

    def value(self, score: Score) -> float:
        """The metric's value; InvalidArgument where no output has one."""
        value = score.figures[self.metric]
        if value is None:
            outputs = ", ".join(output.name for output in score.outputs)
            other = "cosine>=0.99" if self.metric == "agreement" else "agreement>=0.99"
            why = "decides between classes" if self.metric == "agreement" else "has floats"
            raise InvalidArgument(f"budget {self}: no output {why} ({outputs}); ask for {other} instead")
        return value

    def met(self, score: Score) -> bool:
        return self.value(score) >= self.least


def budget(text: str) -> Budget:
    """The budget that a text says.

    >>> budget("agreement>=0.99"), str(budget("snr >= 25 dB")), str(budget("agreement>=99%"))
    (Budget(metric='agreement', least=0.99), 'snr>=25', 'agreement>=0.99')
    """
    found = FORM.fullmatch(text)
    try:
        metric, least, unit = found[1].lower(), float(found[2]), (found[3] or "").lower()  # type: ignore[index]
    except (TypeError, ValueError):
        raise InvalidArgument(f"budget {text!r}: write agreement>=0.99, cosine>=0.995 or snr>=25") from None
    if metric not in METRICS:
        raise InvalidArgument(f"budget {text!r}: there is no metric {metric!r}; there are {', '.join(METRICS)}")
    if unit == "%":
        least /= 100
    if (metric != "snr" and not 0 < least <= 1) or (unit and (unit == "db") != (metric == "snr")):
        raise InvalidArgument(f"budget {text!r}: {metric} is {METRICS[metric]}")
    return Budget(metric, least)


def all_met(budgets: Sequence[Budget], score: Score) -> bool:
    """Whether each budget is met."""
    return all(each.met(score) for each in budgets)
