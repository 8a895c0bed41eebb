"""A plugin of pytest: `import onnxruntime` finds Sardonyx, on the side that STANDING_IN names."""

import os

import sardonyx.compat
from tests.packages.__main__ import SIDES, stand_for

stand_for(SIDES[os.environ["STANDING_IN"]])
sardonyx.compat.install()
