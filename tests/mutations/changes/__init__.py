"""The mutations, room by room: each is a mistake that somebody could make, and the tests that must tell."""

from __future__ import annotations

from tests.mutations.changes.backends import PAGES, WASM, WEBGPU
from tests.mutations.changes.compiler import COMPILER, OPERATORS, PASSES, SIZES
from tests.mutations.changes.engine import COMMANDS, FILES, RUNTIME, SESSIONS
from tests.mutations.changes.language import LANGUAGE
from tests.mutations.changes.rooms import QUANTIZATION, VISION
from tests.mutations.changes.training import TRAINING

MUTATIONS = [
    *SIZES, *COMPILER, *PASSES, *OPERATORS, *FILES, *RUNTIME, *SESSIONS, *COMMANDS, *LANGUAGE, *QUANTIZATION,
    *VISION, *TRAINING, *PAGES, *WASM, *WEBGPU,
]  # fmt: skip
