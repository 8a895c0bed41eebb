"""python -m tests.models.open_sizes [ID ...]: make a bundle of each model, for both targets, and say how it does.

For each: its plans, the bytes of the bundle and of what a further plan adds to it (deflated), the seconds to make it,
the sizes that it takes, and of 20 sizes that are drawn, at how many it agrees with onnxruntime, at how many both refuse
and at how many it alone does, or only onnxruntime, or it is wrong.
"""

from __future__ import annotations

import os

from tests.support.needs import quieten_vulkan

quieten_vulkan()
os.environ["SARDONYX_LIMITS"] = "default"  # what a browser grants


COUNT = {"wasm": (20, 1.0), "webgpu": (6, 0.1)}
"""How many sizes are drawn, and from which part of them: a processor may play the GPU."""
