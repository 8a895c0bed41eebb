"""The listed models whose sizes are open: which sizes they can have, and inputs of such sizes.

    rng = np.random.default_rng(0)
    sizes = draw("minilm-l3", rng)  # {"batch_size": 3, "sequence_length": 200}
    feeds = feeds_of("minilm-l3", sizes, rng)

`python -m tests.models.open_sizes` makes a bundle of each, and says how it does.
"""

from .feeds import feeds_of
from .sizes import OPEN, Open, Sizes, draw

__all__ = ["OPEN", "Open", "Sizes", "draw", "feeds_of"]
