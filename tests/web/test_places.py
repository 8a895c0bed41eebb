"""The demonstration's pages in each browser: do they work there, and what do they say to people?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest

from sardonyx.web import folder as web_folder
from tests import models
from tests.support import require
from tests.support.browsers import BROWSERS, Page, open_page
from tests.support.cache import CACHE, cached
from tests.support.npm import package
from tests.web.serving import serving
from web.demo import app, demos

TICKET = [
    *("Museum of Stones", "Sardonyx, banded chalcedony", "cut in Dresden, 1874"),
    *("Open daily from 10:00 to 18:00", "Ticket 20418", "12.50 EUR"),
]
QUERY = "a pet that is scared of noise"
LETTER = """async (text) => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 200 });
    const brush = canvas.getContext("2d");
    brush.font = "48px sans-serif";
    brush.fillText(text, 40, 110); // on nothing, which is white
    const blob = await new Promise((resolve) => canvas.toBlob(resolve));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([blob], "letter.png", { type: "image/png" }));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
}"""
REFUSE = """(name) => {
    navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("no", name));
    document.querySelector("#microphone").click();
}"""
TEXTS = "(selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent)"
SHOWN = "(selector) => document.querySelector(selector)?.checkVisibility() ?? false"
WRITTEN = "() => document.querySelector('#send').textContent === 'Send'"
CLICK = "(selector) => document.querySelector(selector).click()"


@pytest.fixture(scope="module", params=BROWSERS)
def page(request: pytest.FixtureRequest) -> Iterator[Page]:
    require("browser" if request.param == "chromium" else request.param)
    with open_page(request.param) as opened:
        yield opened


in_chromium = pytest.mark.parametrize("page", ["chromium"], indirect=True)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of pages that have all that they load."""

    def fetch(scratch: Path) -> None:
        for demo in demos.ALL.values():
            for archive in demo.archives:
                archive.fetch(scratch / "demos")

    sources = cached(CACHE / "demos", fetch)
    folder = tmp_path_factory.mktemp("demos")
    web_folder.write(folder, compiler=False)
    for name in demos.ALL:
        demos.prepare(name, folder, sources)
    with serving(folder) as served:
        yield served


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of the page with digits and models."""
    from tests.pyodide.assemble import assemble

    require("pyodide")
    folder = tmp_path_factory.mktemp("first")
    app.prepare(folder, assemble())
    with serving(folder) as served:
        yield served


def load(page: Page, address: str) -> None:
    """Go to a page, and have it load what it offers to."""
    page.open(address)
    page.wait(SHOWN, "#start button")
    assert page.evaluate("() => document.querySelector('#stage').inert")
    page.evaluate(CLICK, "#start button")
    page.wait("() => !document.querySelector('#stage').inert || document.querySelector('#start .error').textContent")
    assert page.evaluate(TEXTS, "#start .error") == [""]
    assert not page.evaluate(SHOWN, "#start")


@pytest.mark.slow
@pytest.mark.parametrize("name", demos.ALL)
def test_what_is_missing_is_said(page: Page, name: str, tmp_path: Path) -> None:
    """Nothing is loaded before it is asked for; then each failure has its words, and a way on."""
    web_folder.write(tmp_path, compiler=False)
    with serving(tmp_path) as served:
        page.open(f"{served}{name}.html")
        page.wait(SHOWN, "#start button")
        (words,) = page.evaluate(TEXTS, ".offer > p:first-child")
        assert "In a clone of Sardonyx, make demos fetches and compiles it" in words
        assert page.evaluate(TEXTS, "#start button") == ["Look again"]
        about = tmp_path / "demos" / name / "about.json"
        about.parent.mkdir(parents=True)
        about.write_text(json.dumps({"bytes": 12_345_678}))
        page.evaluate(CLICK, "#start button")
        page.wait("() => document.querySelector('#start button').textContent.startsWith('Load')")
        page.wait(SHOWN, "#start button")
        assert page.evaluate(TEXTS, ".offer > p:first-child") == [
            "Nothing is loaded yet. It will be 12.3\xa0MB, from this page’s own server."
        ]
        page.evaluate(CLICK, "#start button")
        page.wait(SHOWN, "#start .error")
        assert page.evaluate(TEXTS, "#start button") == ["Try again"]
        page.evaluate("() => { globalThis.fetch = () => Promise.reject(new TypeError('Failed to fetch')); }")
        page.evaluate(CLICK, "#start button")
        page.wait("() => document.querySelector('#start .error').textContent.includes('you are offline')")
        assert page.evaluate("() => document.querySelector('#stage').inert")


@pytest.mark.nightly
def test_digits_are_read_and_models_compiled(page: Page, first: str) -> None:
    page.open(first)
    page.wait("() => document.querySelectorAll('#digits-facts dd').length")
    page.evaluate(CLICK, "#show")
    page.wait("() => document.querySelector('.answer').dataset.state === 'sure'")
    page.evaluate(CLICK, "#sample")
    page.wait("() => document.querySelectorAll('#model form button').length")
    page.evaluate(CLICK, "#model form button")
    page.wait("() => document.querySelectorAll('#model .found *, #model .error:not([hidden])').length", limit=300)
    assert "float32 [1, 10]" in page.evaluate("() => document.querySelector('#model').textContent")


@pytest.mark.nightly
def test_a_picture_is_read(page: Page, address: str) -> None:
    load(page, f"{address}reading.html")
    page.wait("() => !document.querySelector('#copy').disabled")
    assert page.evaluate(TEXTS, "#lines button span:first-child") == TICKET
    assert page.evaluate(TEXTS, "#status") == ["6 lines of text in the sample"]
    boxes = page.evaluate("() => [...document.querySelectorAll('#marks rect')].map((each) => each.getBBox().height)")
    assert len(boxes) == len(TICKET)
    assert all(20 < height < 80 for height in boxes)
    page.evaluate("() => document.querySelector('#lines button').dispatchEvent(new PointerEvent('pointerenter'))")
    assert page.evaluate("() => document.querySelectorAll('#marks .on').length") == 1
    page.evaluate(LETTER, "Hello World 2026")
    page.wait("() => document.querySelector('#status').textContent.includes('letter.png')")
    assert page.evaluate(TEXTS, "#lines button span:first-child") == ["Hello World 2026"]


@pytest.mark.nightly
def test_sentences_are_ranked_by_meaning(page: Page, address: str) -> None:
    load(page, f"{address}meaning.html")
    page.wait("() => document.querySelectorAll('#ranks li').length")
    assert page.evaluate("() => document.querySelector('#query').value") == QUERY
    sentences = (Path(demos.__file__).parent / "sentences.txt").read_text("utf-8").splitlines()
    likeness = vectors(sentences) @ vectors([QUERY])[0]
    best = np.argsort(-likeness)[:8]
    assert page.evaluate(TEXTS, "#ranks li > span:first-child") == [sentences[k] for k in best]
    shares = [float(share) for share in page.evaluate(TEXTS, "#ranks .share")]
    np.testing.assert_allclose(shares, likeness[best], atol=0.006)
    page.evaluate("() => { query.value = 'money'; query.dispatchEvent(new Event('input', { bubbles: true })); }")
    page.wait("(before) => document.querySelector('#ranks li > span').textContent !== before", sentences[best[0]])
    assert page.evaluate("() => document.querySelector('#facts').textContent").count("ms") == 1


@pytest.mark.nightly
def test_a_model_is_talked_with(page: Page, address: str) -> None:
    load(page, f"{address}chat.html?temperature=0")
    say(page, "What is the capital of France?")
    page.wait(WRITTEN)
    assert page.evaluate(TEXTS, "#log .asked") == ["You: What is the capital of France?"]
    (answer,) = page.evaluate(TEXTS, "#log .answered")
    assert "Paris" in answer
    assert page.evaluate(TEXTS, "#status") == [answer]
    names = ["Tokens read", "To the first one written", "Tokens a second", "This chat"]
    assert page.evaluate(TEXTS, "#facts dt") == names
    assert page.evaluate(TEXTS, "#facts dd")[-1].endswith(" of 2,048 tokens")
    page.evaluate(CLICK, "#renew")
    assert page.evaluate(TEXTS, "#log > *") == page.evaluate(TEXTS, "#facts > *") == []
    assert page.evaluate(SHOWN, "#empty")


@pytest.mark.nightly
@in_chromium
def test_an_answer_is_stopped(page: Page, address: str) -> None:
    """What was written until then is the beginning of what is written the next time."""
    question = "Why is the sky <b>blue</b>?\nTell me more."
    load(page, f"{address}chat.html?temperature=0")
    say(page, question)
    page.wait("() => document.querySelector('.writing').textContent.length > 20")
    assert page.evaluate(TEXTS, "#send") == ["Stop"]
    page.evaluate(CLICK, "#send")
    page.wait(WRITTEN)
    assert page.evaluate(TEXTS, "#log .asked") == [f"You: {question}"]
    (stopped,) = page.evaluate(TEXTS, "#log .answered")
    page.evaluate(CLICK, "#renew")
    say(page, question)
    page.wait("(length) => document.querySelector('.writing').textContent.length > length", len(stopped))
    assert page.evaluate(TEXTS, "#log .answered")[0].startswith(stopped)
    page.evaluate(CLICK, "#send")
    page.wait(WRITTEN)


@pytest.mark.nightly
@in_chromium
def test_a_chat_that_is_too_long(page: Page, address: str) -> None:
    """It is said, the question stays with who asked, and a new chat can begin."""
    question = "stone " * 2100
    load(page, f"{address}chat.html?temperature=0")
    say(page, question)
    page.wait(WRITTEN)
    assert page.evaluate(TEXTS, ".notice > *") == [
        "This chat has become too long: the model knows no more than 2,048 tokens.",
        "New chat",
    ]
    assert page.evaluate("() => document.querySelector('#question').value") == question.strip()
    assert page.evaluate(TEXTS, "#log .asked") == []
    page.evaluate(CLICK, ".notice button")
    assert page.evaluate(TEXTS, "#log > *") == []


def say(page: Page, words: str) -> None:
    """Type a question, and press Enter."""
    page.evaluate(
        """(words) => {
            question.value = words;
            question.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
        }""",
        words,
    )


def vectors(texts: Sequence[str]) -> npt.NDArray[Any]:
    """What the model makes of texts in onnxruntime, each by itself."""
    import zipfile

    with zipfile.ZipFile(CACHE / "demos" / "minilm.zip") as words:
        vocabulary = json.loads(words.read("tokenizer.json"))["model"]["vocab"]
    session = onnxruntime.InferenceSession(models.path("minilm-l6-int8"))
    found = []
    for text in texts:
        ids = np.array([[vocabulary["[CLS]"], *pieces(text, vocabulary), vocabulary["[SEP]"]]])
        (hidden,) = session.run(
            None, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        )
        mean = hidden[0].mean(0)
        found.append(mean / np.linalg.norm(mean))
    return np.array(found)


def pieces(text: str, vocabulary: dict[str, int]) -> list[int]:
    """The numbers of a text's word pieces: of each word the longest that is known, again and again."""
    import re

    found = []
    for word in re.findall(r"\w+|[^\w\s]", text.lower()):
        start = 0
        while start < len(word):
            mark = "##" if start else ""
            end = next(end for end in range(len(word), start, -1) if mark + word[start:end] in vocabulary)
            found.append(vocabulary[mark + word[start:end]])
            start = end
    return found


@pytest.mark.nightly
def test_voices_are_heard(page: Page, address: str) -> None:
    """Where a browser finds nothing to play on, as Firefox and WebKit on servers, that is said."""
    load(page, f"{address}voice.html")
    page.evaluate(CLICK, "#speech")
    page.wait("() => problem.checkVisibility() || document.querySelector('#verdict').dataset.state === 'voice'")
    if page.evaluate(SHOWN, "#problem"):
        assert type(page).__name__ != "Chromium"
        assert page.evaluate(TEXTS, "#problem")[0].startswith("This browser starts no sound")
        return
    assert page.evaluate(TEXTS, "[aria-pressed=true]") == ["Play a voice"]
    page.wait("() => document.querySelector('#spoken').textContent === 'A voice'")

    def share() -> float:
        """The percentage of what was heard that was a voice."""
        return float(page.evaluate(TEXTS, "#facts dd")[2].split("\xa0")[0])

    page.wait(r"() => /^[3-9]\.\d+\ss$/.test(document.querySelectorAll('#facts dd')[1]?.textContent)")
    assert share() > 50
    page.evaluate(CLICK, "#melody")
    page.wait("() => document.querySelector('#verdict').dataset.state === 'not'")
    page.wait("() => document.querySelector('#verdict').dataset.state === 'rest'")
    assert share() < 20  # where the machine is busy, sound breaks off, and may end in what is like a voice
    for button in ("#speech", "#melody", "#speech"):  # whoever is in a hurry gets the last
        page.evaluate(CLICK, button)
    page.wait("() => document.querySelector('#verdict').dataset.state === 'voice'")
    assert page.evaluate(TEXTS, "[aria-pressed=true]") == ["Play a voice"]
    assert not page.evaluate(SHOWN, "#problem")
    page.evaluate(CLICK, "#stop")
    page.wait("() => document.querySelector('#verdict').dataset.state === 'rest'")
    assert page.evaluate(TEXTS, "[aria-pressed=true]") == []


@pytest.mark.nightly
@in_chromium
def test_a_refused_microphone_is_said(page: Page, address: str) -> None:
    load(page, f"{address}voice.html")
    for name, words in (
        ("NotAllowedError", "The microphone was refused. Allow it"),
        ("NotFoundError", "No microphone"),
    ):
        page.evaluate(REFUSE, name)
        page.wait("(words) => problem.textContent.startsWith(words)", words)
        assert page.evaluate(TEXTS, "[aria-pressed=true]") == []


@pytest.mark.nightly
@in_chromium
@pytest.mark.parametrize("name", demos.ALL)
def test_everybody_can_use_them(page: Page, address: str, name: str) -> None:
    """axe-core finds nothing, before they load and after, by day and by night."""
    from tests.support.browsers.chromium import Chromium

    assert isinstance(page, Chromium)
    axe = (package("axe-core") / "axe.min.js").read_text("utf-8")
    script = (
        f"async () => {{ {axe}; return (await axe.run()).violations.map(({{ id, nodes }}) => [id, nodes[0].html]); }}"
    )
    page.open(f"{address}{name}.html")
    page.wait(SHOWN, "#start button")
    assert page.evaluate(script) == []
    load(page, f"{address}{name}.html")
    page.wait("() => getComputedStyle(document.querySelector('#stage')).opacity === '1'")
    for scheme in ("light", "dark"):
        page.driven.emulate_media(color_scheme=scheme)
        assert page.evaluate(script) == [], scheme
