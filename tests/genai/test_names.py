"""Every name of the installed onnxruntime-genai can be imported, and does something or says why not."""

from __future__ import annotations

import inspect
import re
from typing import Any

import onnxruntime_genai
import pytest

from sardonyx import genai
from sardonyx.errors import NotImplemented
from sardonyx.genai import absent

NAMES = [name for name in dir(onnxruntime_genai.onnxruntime_genai) if not name.startswith("_")]
CLASSES = [name for name in NAMES if inspect.isclass(getattr(onnxruntime_genai, name))]
ABSENT = [name for name in CLASSES if name in vars(absent) and not hasattr(getattr(genai, name), "__members__")]
PRESENT = [name for name in CLASSES if name not in ABSENT]
ENUMERATIONS = ["EngineErrorCode", "EngineEventFlags", "FinishReason"]


def test_there_are_all_names() -> None:
    assert len(NAMES) > 30
    assert set(NAMES) <= {*dir(genai)}
    assert set(NAMES) <= {*genai.__all__}


@pytest.mark.parametrize("name", PRESENT)
def test_there_are_all_methods(name: str) -> None:
    theirs = [each for each in dir(getattr(onnxruntime_genai, name)) if not each.startswith("_")]
    ours = getattr(genai, name)
    assert [each for each in theirs if each not in ("name", "value") and not hasattr(ours, each)] == []


@pytest.mark.parametrize("name", [name for name in PRESENT if name not in ENUMERATIONS])
def test_arguments_have_their_names(name: str) -> None:
    """Those that have names there: pybind11 calls the others arg0, arg1, ..."""
    for method, value in vars(getattr(onnxruntime_genai, name)).items():
        text = re.search(r"^\w+\((.*)\) ->", value.__doc__ or "", re.MULTILINE) if callable(value) else None
        named = re.findall(r"(?:^|, )(\w+): ", text[1]) if text else []
        named = [each for each in named if not re.fullmatch(r"self|arg\d", each)]
        if named:
            parameters = inspect.signature(getattr(getattr(genai, name), method)).parameters
            assert set(named) <= set(parameters), method


@pytest.mark.parametrize("name", ABSENT)
def test_what_is_absent_says_why(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"^{name} is not implemented: ") as caught:
        getattr(genai, name)()
    assert isinstance(caught.value, NotImplemented)


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_numbers_are_theirs(name: str) -> None:
    theirs: Any = getattr(onnxruntime_genai, name).__members__
    assert {key: int(value) for key, value in theirs.items()} == dict(getattr(genai, name).__members__)


def test_functions() -> None:
    for name in ("cuda", "dml", "openvino", "qnn"):
        assert not getattr(genai, f"is_{name}_available")()
    assert genai.is_webgpu_available() in (True, False)
    assert genai.get_current_gpu_device_id() == 0
    genai.set_current_gpu_device_id(0)
    with pytest.raises(RuntimeError, match="GPU 3 cannot be chosen"):
        genai.set_current_gpu_device_id(3)
    genai.set_log_options(enabled=True, model_logits=True)
    genai.set_log_callback(None)
    genai.disable_telemetry_events()
    with pytest.raises(NotImplementedError):
        genai.Config.from_package_ep("folder", "")


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import sys

    from sardonyx.genai import chat_template
    from tests.genai.tiny import Tiny

    folder = Tiny().save(tmp_path / "model")
    (folder / "tokenizer.json").write_text("{}")
    for package in ("tokenizers", "jinja2", "jinja2.ext", "llguidance"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotImplementedError, match="tokenizers is not installed; pip install tokenizers jinja2"):
        genai.Tokenizer(folder)
    chat_template._environment.cache_clear()
    with pytest.raises(NotImplementedError, match="jinja2 is not installed; pip install jinja2 llguidance"):
        chat_template.render("", {})
    model = genai.Model(folder)
    params = genai.GeneratorParams(model)
    params.set_guidance("regex", "a")
    with pytest.raises(NotImplementedError, match="llguidance is not installed; pip install llguidance"):
        genai.Generator(model, params)
