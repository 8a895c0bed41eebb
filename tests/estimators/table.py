"""All estimators by name."""

from __future__ import annotations

from . import boosting, compositions, linear, neighbours, preprocessing, text, trees
from .entry import Table

ESTIMATORS: Table = {
    **linear.TABLE,
    **trees.TABLE,
    **neighbours.TABLE,
    **preprocessing.TABLE,
    **text.TABLE,
    **compositions.TABLE,
    **boosting.TABLE,
}
