"""What host and module agree on: the memory that the driver of a segment works with."""

from __future__ import annotations

SCRATCH = 1 << 20
"""Bytes of scratch memory that a code may ask for."""
HEADER = 2
"""Words before those of the first launch."""
STATE = 16
"""Bytes of the state by which the threads of a segment meet."""
STOP = 8
"""Where in the state the host writes 1 to end the run."""
CONVOLUTIONS = {
    "conv_panels": {"before": "im2col"},
    "conv_winograd": {"before": "winograd_input", "after": "winograd_output"},
}
"""What the module does before and after the product of a convolution, where the host does that."""
