"""`sardonyx run`, and the inputs that it makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from PIL import Image

from sardonyx import dtypes
from sardonyx.cli import feeds, main
from sardonyx.cli.run import file_names, summary
from sardonyx.demo import assets, picture
from sardonyx.errors import InvalidArgument
from sardonyx.options import NodeArg

Save = Callable[..., Path]
FLOAT = TensorProto.FLOAT
NUMPY = ("--provider", "numpy")


def test_arrays_in_and_out(relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([[-1, 2, 3], [4, -5, 6]])
    np.save(tmp_path / "x.npy", x.astype(np.float64))
    arguments = ["run", str(relu), "--input", f"x={tmp_path / 'x.npy'}", "--output", str(tmp_path / "out"), *NUMPY]
    assert main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (output,) = data["outputs"]
    assert output["file"] == str(tmp_path / "out" / "y.npy")
    assert (output["name"], output["type"], output["shape"]) == ("y", "tensor(float)", [2, 3])
    assert (output["min"], output["max"], output["mean"]) == (0, 6, 2.5)
    assert data["placement"] == {"NumpyExecutionProvider": 1}
    assert data["times"] == []
    y = np.load(tmp_path / "out" / "y.npy")
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_repeat(relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(relu), "--shape", "4x3", "--repeat", "5", "--json", *NUMPY]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["times"]) == 5
    assert data["outputs"][0]["shape"] == [4, 3]
    assert data["outputs"][0]["file"] is None


@pytest.mark.usefixtures("screen")
def test_a_picture_for_a_person(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["run", str(assets() / "digits.onnx"), "--input", str(picture("4_heldout.png")), "--repeat", "2"]
    assert main([*arguments, "--output", str(tmp_path), *NUMPY]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= max(80, len(str(tmp_path)) + 20)
    assert "1x10" in text
    top = text[text.index("Most probable") :].split()
    assert top[top.index("Probability") + 1 :][:2][-1].startswith(("4", "─", "-"))
    assert (tmp_path / "probabilities.npy").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "input 'x' (tensor(float) [N, 3]) has no value; give --input x=FILE, or --shape x=1x3 for random numbers"),
        (["--input", "z=a.npy"], "--input z=a.npy: there is no input 'z'; there are x"),
        (["--input", "x=absent.npy"], "absent.npy does not exist"),
        (["--input", "x=absent.png"], "absent.png cannot be read: No such file or directory"),
        (["--shape", "2x4"], "--shape x=2x4: the model declares Nx3"),
        (["--shape", "2x3", "--repeat", "0"], "--repeat 0: run it at least once"),
        (["--shape", "2x3", "--provider", "nobody"], "no execution provider is called 'nobody'"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(relu), *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"sardonyx: {message}")


def port(dtype: str, *shape: int | str | None) -> NodeArg:
    return NodeArg("x", f"tensor({dtype})", list(shape))


def of_picture(path: Path, dtype: str, *shape: int | str | None) -> np.ndarray:
    return feeds.feeds([port(dtype, *shape)], [f"x={path}"], None)["x"]


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        (["N", 3, "H", "W"], (2, 0, 1)),
        ([1, None, None, 3], (0, 1, 2)),
        ([3, 6, 8], (2, 0, 1)),
        ([6, 8, 3], (0, 1, 2)),
        ([1, "C", "H", "W"], (2, 0, 1)),
    ],
)
def test_layouts_of_pictures(picture: Path, shape: list[Any], axes: tuple[int, ...]) -> None:
    pixels = np.asarray(Image.open(picture))
    expected = pixels.transpose(axes) / 255
    found = of_picture(picture, "float", *shape)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected if len(shape) == 3 else expected[None], atol=1e-7)


def test_grey_pictures(picture: Path) -> None:
    gray = np.asarray(Image.open(picture).convert("L"))
    np.testing.assert_array_equal(of_picture(picture, "uint8", 6, 8), gray)
    np.testing.assert_allclose(of_picture(picture, "double", 1, 1, 6, 8)[0, 0], gray / 255, atol=1e-12)


def test_pictures_shrink_by_area(picture: Path) -> None:
    reduced = np.asarray(Image.open(picture).convert("RGB")).reshape(2, 3, 4, 2, 3).mean(axis=(1, 3))
    found = of_picture(picture, "double", 1, 2, 4, 3)
    np.testing.assert_allclose(found[0], reduced / 255, atol=1e-12)


def test_transparent_is_white(tmp_path: Path) -> None:
    Image.new("RGBA", (2, 2), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert of_picture(tmp_path / "clear.png", "float", 1, 3, 2, 2).min() == 1


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        ("float", [1, 5, 6, 8], "not shaped like a picture"),
        ("float", [10], "not shaped like a picture"),
        ("int64", [1, 3, 6, 8], "is int64; pictures become floats or uint8"),
        ("float", [4, 3, 6, 8], "wants 4 pictures at once"),
    ],
)
def test_inputs_that_are_no_pictures(picture: Path, dtype: str, shape: list[int], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        of_picture(picture, dtype, *shape)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.ones(3))
    np.savez(tmp_path / "z.npz", a=np.ones(3))
    (tmp_path / "z.npz").rename(tmp_path / "z.npy")
    (tmp_path / "t.npy").write_text("text")
    for name, message in {
        "f": "holds float64, and input 'x' wants int64",
        "z": "several arrays",
        "t": "no array",
    }.items():
        with pytest.raises(InvalidArgument, match=message):
            feeds.feeds([port("int64", 3)], [f"x={tmp_path / name}.npy"], None)


def test_strings(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.array(["a", "bc"]))
    found = feeds.feeds([port("string", 2)], [f"x={tmp_path / 's.npy'}"], None)["x"]
    assert found.dtype == object
    assert found.tolist() == ["a", "bc"]


@pytest.mark.parametrize("dtype", [dtype for dtype in dtypes.ALL if dtype.kind != "string"], ids=str)
def test_random_numbers(dtype: dtypes.DType) -> None:
    x = feeds.random(dtype, (4, 5), np.random.default_rng(0))
    assert x.dtype == dtype.storage
    assert x.shape == (4, 5)
    assert x.min() >= 0
    assert 0 < x.max() <= 9
    if dtype.is_float and dtype.is_native:
        assert x.max() < 1.01


def test_random_numbers_are_repeatable() -> None:
    first, second = (feeds.feeds([port("float", "N")], None, ["9"])["x"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_a_container_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="which the command line cannot give"):
        feeds.feeds([NodeArg("x", "seq(tensor(float))", [])], None, ["1"])


def test_two_inputs_need_names() -> None:
    with pytest.raises(InvalidArgument, match="say for which input, as in --shape a=3"):
        feeds.named("--shape", ["3"], ["a", "b"])


def test_summary(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    facts = summary(x.astype(np.float32))
    assert facts["shape"] == [3, 4]
    np.testing.assert_allclose([facts["min"], facts["max"], facts["mean"]], [x.min(), x.max(), x.mean()], rtol=1e-5)
    assert facts["top"] == []
    assert summary(np.array([np.nan, 1.0]))["max"] == "nan"
    assert summary(np.empty((0, 3)))["min"] is None
    assert summary(np.array(2))["mean"] == 2
    assert summary(np.array(["a"], object))["min"] is None


def test_top_five() -> None:
    row = np.array([[0.05, 0.4, 0.1, 0.2, 0.05, 0.2]], np.float32)
    assert [top["index"] for top in summary(row)["top"]] == [1, 3, 5, 2, 0]
    assert summary(row, list("abcdef"))["top"][0]["label"] == "b"
    assert summary(row, ["too", "few"])["top"][0]["label"] is None
    assert summary(row * 2)["top"] == []
    assert summary(np.concatenate([row, row]))["top"] == []
    assert summary(np.array([0.25, 0.75]))["top"][0]["index"] == 1


def test_file_names_are_safe() -> None:
    names = ["/etc/passwd", "..", "a b", "A B", "y.1", "數", "x" * 300, ".hidden", "C:\\x"]
    found = file_names(names)
    assert len({name.lower() for name in found}) == len(names)
    for name in found:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
        assert 0 < len(name) <= 110
        assert not name.startswith(".")
