"""The GPU of a page under onnxruntime-web's interface: one device, and tensors that go from session to session."""

from __future__ import annotations

import pytest

from sardonyx.demo import assets
from tests.support.browser import Chromium
from tests.web.ort_pages import ask, ort_site
from tests.web.pages import bundled, model_of

pytestmark = pytest.mark.slow

SUM = "g (float[N] x, float[N] before) => (float[N] y, float[N] twice) { y = Add (x, before) twice = Add (y, y) }"


site_folders = ort_site()


@pytest.fixture(scope="module", autouse=True)
def served(chromium: Chromium) -> None:
    chromium.site.data["sum.onnx"] = bundled(model_of(SUM), {}, ["webgpu"])
    chromium.site.data["digits.onnx"] = bundled(assets() / "digits.onnx", {}, ["wasm"])


def test_tensors_stay_on_the_gpu(chromium: Chromium) -> None:
    told = ask(chromium, "staying")
    assert told["places"] == ["gpu-buffer", *3 * ["gpu-buffer", "cpu"]]
    assert told["sum"] == [4, 8, 12]
    assert told["again"] == [5, 10, 15]


def test_sessions_share_a_device(chromium: Chromium) -> None:
    """Runs that are asked for at once are all right, and the device stays when sessions go."""
    told = ask(chromium, "sharing")
    assert told.pop("broken").startswith("the shader ")
    assert told == {
        "devices": 1,
        "answers": [2 * (k + n) for k in range(3) for n in (1, 2)],
        "last": 21,
        "after": 11,
        "kept": 15,
        "stays": [2],
        "isTold": True,
        "isOne": True,
        "isAlive": True,
        "shrinks": True,
        "isSame": True,
    }


def test_sessions_leave_no_buffers(chromium: Chromium) -> None:
    told = ask(chromium, "leaving")
    assert told["sizes"] == 3 * [[told["before"], [5, 8]]]
    assert told["left"] == 1  # what stands for tensors without elements
    assert told["refused"] == "output 'twice' is float32[2], for which a tensor float32[1] has no room"
    assert told["isWhole"]


def test_tensors_go_from_session_to_session(chromium: Chromium) -> None:
    told = ask(chromium, "crossing")
    assert told == {
        "reads": 0,
        "sum": [6, 9, 12],
        "fed": [24, 46, 68],
        "isSame": True,
        "read": [11, 21, 31],
        "inPlace": [14, 24, 34],
        "isKept": True,
    }


def test_what_a_session_does_not_take(chromium: Chromium) -> None:
    told = ask(chromium, "refusing", "/data/digits.onnx")
    other = "has a buffer of another GPUDevice than the session's, which is env.webgpu.device; make it on that"
    assert told["refusals"] == [
        f"input 'before' {other}",
        "input 'before' is float32[5], 20 bytes, and its buffer has 16",
        "input 'before' has a buffer without GPUBufferUsage.COPY_SRC; make it with that",
        "input 'before' has a buffer that is mapped; unmap() it first",
        f"output 'y' {other}",
        "output 'y' is float32[3], for which a tensor float32[2] has no room",
        "output 'y' has a buffer without GPUBufferUsage.COPY_DST; make it with that",
        "input 'image' lies in gpu-buffer, and this session does not run on webgpu; feed what its getData() gives",
        "WebGPU: ",
    ]
    assert told["after"] == [1]


def test_a_fault_is_told_to_whose_it_is(chromium: Chromium) -> None:
    told = ask(chromium, "failing")
    assert told == {"outcomes": [["rejected", k + 1] for k in range(16)], "uncaptured": []}


def test_the_page_chooses_the_device(chromium: Chromium) -> None:
    assert ask(chromium, "environment") == {
        "wrong": "env.webgpu.device takes a GPUDevice",
        "late": "sessions share a GPUDevice already: set env.webgpu.device before the first one, or when it is lost",
        "asked": [["low-power", True]],
        "isQuiet": True,
        "isAdapter": True,
        "y": [2],
        "beside": [4],
    }
    assert ask(chromium, "own", "device") == {"twice": [20], "devices": 1, "isOwn": True, "isAlive": True}
    assert ask(chromium, "own", "adapter") == {"twice": [20], "devices": 1, "isOwn": True, "isAlive": True}


def test_a_device_that_is_lost(chromium: Chromium) -> None:
    told = ask(chromium, "losing")
    assert [text[:17] for text in told["refusals"]] == 6 * ["the GPU was lost "], told
    assert told["isNew"]
    assert told["y"] == [3]


def test_a_page_that_draws_on_the_device(chromium: Chromium) -> None:
    assert ask(chromium, "drawing") == {
        "drawn": [0, 128, 255],
        "sum": [5],
        "heard": "GPUValidationError",
        "failed": "WebGPU: ",
        "mute": None,
        "uncaptured": [],
    }
