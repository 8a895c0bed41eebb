"""`sardonyx generate` and `sardonyx chat`, at a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from sardonyx import genai
from sardonyx.cli import main
from sardonyx.genai import gguf, gguf_tokenizer
from tests.genai.smollm2 import gguf_file
from tests.genai.tiny import Tiny

pytestmark = pytest.mark.slow
ADDED = "\n[{{ messages | length }}]{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny decoder with SmolLM2's tokenizer, and a short template."""
    made = Tiny(vocabulary=49152).save(tmp_path_factory.mktemp("cli") / "tiny")
    told = gguf.read(gguf_file())
    (made / "tokenizer.json").write_text(json.dumps(gguf_tokenizer.tokenizer(told)))
    (made / "tokenizer_config.json").write_text(json.dumps({"chat_template": ADDED}))
    return made


def expected(folder: Path, prompt: str, length: int) -> str:
    """What the model writes, by the interface."""
    model = genai.Model(folder)
    tokenizer = genai.Tokenizer(model)
    tokens = tokenizer.encode(prompt)
    params = genai.GeneratorParams(model)
    params.set_search_options(max_length=len(tokens) + length)
    made = genai.Generator(model, params)
    made.append_tokens(tokens)
    while not made.is_done():
        made.generate_next_token()
    return tokenizer.decode(made.get_sequence(0)[len(tokens) :])


def test_generate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(folder), "Hello", "--length", "9", "--raw", "--provider", "numpy"]) == 0
    out, err = capsys.readouterr()
    raw = expected(folder, "Hello", 9)
    assert (out, err) == (raw.rstrip("�") + "\n" if raw.endswith("�") else raw + "\n", "")
    assert main(["generate", str(folder), "Hello", "--length", "9"]) == 0
    assert capsys.readouterr().out.rstrip("\n") == expected(folder, "\n[1]user: Hello\n", 9).rstrip("\n")


def test_a_memory_limit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["generate", str(folder), "Hello", "--length", "9", "--raw", "--provider", "numpy", "--memory"]
    assert main([*asked, "30MB"]) == 0
    assert capsys.readouterr().out.rstrip("�\n") == expected(folder, "Hello", 9).rstrip("�\n")
    assert main([*asked, "10kB"]) != 0
    assert "raise SessionOptions.memory_limit" in capsys.readouterr().err
    assert main([*asked, "much"]) != 0
    assert "session.memory_limit: " in capsys.readouterr().err


def test_generate_prints_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--temperature", "3", "--top-k", "0", "--seed", "4", "--length", "20", "--json", "--raw"]
    found = []
    for seed in ("4", "4", "5"):
        arguments[5] = seed
        assert main(["generate", str(folder), "Hello", *arguments]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["text"] == found[1]["text"] != found[2]["text"]
    assert (found[0]["prompt_tokens"], found[0]["tokens"]) == (1, 20)
    assert found[0]["seconds"] > 0


def test_generate_follows_a_grammar(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(folder), "When?", "--regex", "[0-9]{4}", "--length", "30"]) == 0
    assert re.fullmatch("[0-9]{4}\n", capsys.readouterr().out)
    (tmp_path / "schema.json").write_text('{"enum": ["red", "green"]}')
    assert (
        main(["generate", str(folder), "Which?", "--schema", str(tmp_path / "schema.json"), "--temperature", "2"]) == 0
    )
    assert json.loads(capsys.readouterr().out) in ("red", "green")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "x"], "nowhere does not exist; a model is a folder"),
        (["FOLDER", "  "], "there is no prompt"),
        (["FOLDER", "x", "--length", "0"], "--length 0: write at least 1 token"),
        (["FOLDER", "x", "--schema", "a", "--regex", "b"], "--schema and --regex exclude each other"),
        (["FOLDER", "x", "--schema", "nowhere.json"], "nowhere.json does not exist"),
        (["FOLDER", "x", "--schema", __file__], f"--schema {__file__} is no JSON: "),
        (["FOLDER", "word " * 300, "--raw"], "and the model knows no more than 256"),
        (["FOLDER", "x", "--top-p", "7"], "top_p (7.0) must be in [0, 1]"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", *(str(folder) if each == "FOLDER" else each for each in arguments)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_model_without_a_template(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(Tiny(vocabulary=49152).model(), tmp_path / "decoder.onnx")
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    assert main(["chat", str(tmp_path / "decoder.onnx")]) == 1
    assert "has no template of chats; sardonyx generate --raw" in capsys.readouterr().err


def piped(folder: Path, text: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-m", "sardonyx", *arguments[:1], str(folder), *arguments[1:]]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, encoding="utf-8", check=True, timeout=500
    )
    assert done.stderr == ""
    return done.stdout


def test_generate_in_a_pipe(folder: Path) -> None:
    assert piped(folder, "Hello", "generate", "--raw", "--length", "5").strip() == expected(folder, "Hello", 5).strip()


def test_chat_in_a_pipe(folder: Path) -> None:
    """Each line is a question, and what was said before is part of it until /reset."""
    text = "One\n\nTwo\n/reset\nOne\n/quit\nThree\n"
    lines = [json.loads(line) for line in piped(folder, text, "chat", "--json", "--length", "6").splitlines()]
    assert [line["question"] for line in lines] == ["One", "Two", "One"]
    first = expected(folder, "\n[1]user: One\n", 6)
    assert lines[0]["answer"] == lines[2]["answer"] == first
    second = expected(folder, f"\n[3]user: One\nassistant: {first}\nuser: Two\n", 6)
    assert lines[1]["answer"] == second


class Terminal:
    """A program at a terminal of 80 columns, which ends with the block."""

    def __init__(self, *command: str) -> None:
        import pty

        self.parent, child = pty.openpty()
        environment = {**os.environ, "COLUMNS": "80", "TERM": "dumb"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONTROL, *command],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            start_new_session=True,
        )
        os.close(child)
        self.seen = ""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(60)
        os.close(self.parent)

    def wait(self, text: str, seconds: float = 60, again: str = "") -> str:
        """What is printed until this text comes, which it must; `again` is typed after each second of silence."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.parent], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.parent, 65536).decode("utf-8", "replace")
                except OSError:
                    break
            elif again:
                self.type(again)
        before, found, self.seen = self.seen.partition(text)
        assert found, before
        return before

    def type(self, text: str) -> None:
        os.write(self.parent, text.encode())


CONTROL = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Has Ctrl+C of the terminal reach what is run, and end it; a shell has what it starts behind `&` ignore that. In a
process of its own: code between fork and exec may wait for threads of the tests, which that child does not have."""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals of this kind")
def test_chat_at_a_terminal(folder: Path) -> None:
    """Ctrl+C ends the answer, then the next question is answered; lines are broken between words."""
    with Terminal(sys.executable, "-m", "sardonyx", "chat", str(folder), "--length", "200") as terminal:
        terminal.wait("Loading tiny ...")
        terminal.wait("/reset begins anew, /quit ends, Ctrl+C ends an answer.")
        terminal.wait("> ")
        terminal.type("Hello\n")
        terminal.wait("Reading ...")
        time.sleep(0.3)
        terminal.type("\x03")
        assert int(terminal.wait(" written, ").rpartition(",")[2].split()[0]) <= 200
        terminal.wait("a second")
        terminal.wait("> ")
        terminal.type("/reset\n")
        terminal.wait("> ")
        terminal.type("Again\n")
        said = terminal.wait("read in")
        assert max(len(line.split("\r")[-1]) for line in said.split("\r\n")) <= 81
        terminal.wait("> ")
        terminal.wait("/quit ends the chat.", again="\x03")  # the prompt is there before readline listens
        terminal.type("/quit\n")
        assert terminal.process.wait(30) == 0
