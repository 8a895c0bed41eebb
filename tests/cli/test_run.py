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

from sardonyx.cli import feeds, main
from sardonyx.cli.files import Reader, file_names
from sardonyx.cli.results import labels, summary
from sardonyx.common import dtypes
from sardonyx.demo import assets, picture
from sardonyx.errors import InvalidArgument
from sardonyx.model.ir import Graph, Model, SequenceType, TensorType, Value

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
    assert data["files"] == [str(tmp_path / "out" / "y.npy")]
    assert data["inputs"] == [{"name": "x", "shape": [2, 3], "source": str(tmp_path / "x.npy")}]
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
    assert data["files"] == []
    assert data["inputs"][0]["source"] == "random"


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
        (["--output", "y.txt"], "--output y.txt: give a folder, or a file that ends in .npz, .json, .npy"),
        (["--shape", "N=2x2"], "--shape N=2x2: 'N' is a dimension, and takes one size"),
        (
            ["--output", __file__ + "/y.npy"],
            f"--output {__file__}/y.npy cannot be written: {__file__} is a file, not a",
        ),
        (["--output", __file__ + "/y"], f"--output {__file__}/y cannot be written: {__file__} is a file, not a folder"),
        (["--output", "/proc/y.npy"], "--output /proc/y.npy cannot be written: "),
        (["--profile", "."], "--profile . is a folder; name a file in it"),
        (["--input", "."], ". is a folder; name a file in it"),
        (["--input", __file__], f"{__file__}: this is no picture, and none of .npz, .json, .npy, .wav"),
        (["--mean", "0.5"], "--mean is for pictures, and no input is one"),
        (["--std", "0"], "--std 0: standard deviations are above 0"),
        (["--mean", "1;2"], "--mean 1;2: write numbers with commas between them, as in 0.485,0.456,0.406"),
        (["--mean", "nan"], "--mean nan: write finite numbers"),
        (["--std", "imagenet"], "--std imagenet: write numbers, or --normalize imagenet for both"),
        (["--normalize", "clip", "--mean", "1"], "--normalize clip has a mean and a standard deviation; leave out"),
        (["--top", "0"], "--top 0: show at least 1"),
        (["--labels", "absent.txt"], "absent.txt does not exist"),
        (["--input", "z=a.npy"], "--input z=a.npy: there is no input 'z'; the model has x"),
        (["--input", "x=absent.npy"], "absent.npy does not exist"),
        (["--input", "x=absent.png"], "absent.png does not exist"),
        (["--shape", f"{10**20}x3"], f"input 'x' of {10**20}x3 wants 2,400,000,000,000,000,000,000 bytes, and "),
        (["--shape", "2x4"], "--shape x=2x4: the model declares Nx3"),
        (["--shape", "2x3", "--repeat", "0"], "--repeat 0: run it at least once"),
        (["--shape", "2x3", "--provider", "nobody"], "no execution provider is called 'nobody'"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, relu: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(relu), *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"sardonyx: {message}")


def port(dtype: str, *shape: int | str | None) -> Value:
    return Value("x", TensorType(dtypes.by_name(dtype), shape))


def fed(value: Value, path: Path) -> Any:
    """What is fed to the only input of a model from a file."""
    return feeds.feeds(Model(Graph([value])), [f"x={path}"]).values["x"]


def of_picture(path: Path, dtype: str, *shape: int | str | None) -> np.ndarray:
    array = fed(port(dtype, *shape), path)
    assert isinstance(array, np.ndarray)
    return array


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


POOL = "g (float[N,3,H,W] image) => (float[N,3] {name}) {{ p = GlobalAveragePool (image)  {name} = Flatten (p) }}"


@pytest.mark.parametrize("given", [["image=1x3x2x4"], ["H=2", "W=4"], ["H=2"]])
def test_pictures_have_the_shape_that_is_asked_for(
    given: list[str], graph: Save, picture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the model declares it, as --shape says, and else as the picture is: 6 high and 8 wide."""
    shapes = [part for text in given for part in ("--shape", text)]
    model = graph(POOL.format(name="y"))
    assert main(["run", str(model), "--input", str(picture), *shapes, *NUMPY, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["inputs"]
    assert found["shape"] == [1, 3, 2, 8 if given == ["H=2"] else 4]


def test_an_array_of_another_shape_is_refused(relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones((2, 3), np.float32))
    for option in ("4x3", "N=4"):
        assert main(["run", str(relu), "--input", str(path), "--shape", option, *NUMPY]) == 1
        assert f"{path} is 2x3, and --shape says 4x3 for 'x'" in capsys.readouterr().err
    assert main(["run", str(relu), "--input", str(path), "--shape", "N=2", *NUMPY]) == 0


@pytest.mark.parametrize(
    ("options", "mean", "std"),
    [
        (["--normalize", "imagenet"], [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        (["--mean", "0.5", "--std", "0.25"], [0.5] * 3, [0.25] * 3),
        (["--mean", "0.1,0.2,0.3"], [0.1, 0.2, 0.3], [1] * 3),
        (["--std", "0.5,0.25,0.125"], [0] * 3, [0.5, 0.25, 0.125]),
        (["--mean", "123,117,104", "--std", "58"], [123 / 255, 117 / 255, 104 / 255], [58 / 255] * 3),
    ],
)
def test_normalized_pictures(
    options: list[str], mean: list[float], std: list[float], graph: Save, picture: Path, tmp_path: Path
) -> None:
    model = graph("g (float[1,3,6,8] x) => (float[1,3,6,8] y) { y = Identity (x) }")
    out = tmp_path / "y.npy"
    assert main(["run", str(model), "--input", str(picture), *options, "--output", str(out), *NUMPY]) == 0
    expected = (np.asarray(Image.open(picture)) / 255 - mean) / std
    np.testing.assert_allclose(np.load(out)[0], expected.transpose(2, 0, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "shape", "options", "message"),
    [
        ("uint8", "1,3,6,8", ["--mean", "1"], "--mean: input 'x' is uint8, and takes pixels as they are"),
        ("float", "1,1,6,8", ["--normalize", "imagenet"], "the mean has 3 values, and input 'x' 1 channel"),
        ("float", "1,3,6,8", ["--std", "1,2"], "--std: the std has 2 values, and input 'x' 3 channels"),
    ],
)
def test_pictures_that_cannot_be_normalized(
    dtype: str,
    shape: str,
    options: list[str],
    message: str,
    graph: Save,
    picture: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = graph(f"g ({dtype}[{shape}] x) => ({dtype}[{shape}] y) {{ y = Identity (x) }}")
    assert main(["run", str(model), "--input", str(picture), *options, *NUMPY]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.txt", "\ufeffcat\r\ndog\r\nbird\r\n"),
        ("labels.json", '["cat", "dog", "bird"]'),
        ("labels.json", '{"2": ["n3", "bird"], "0": ["n1", "cat"], "1": ["n2", "dog"]}'),
    ],
)
def test_labels_of_a_file(
    name: str, text: str, graph: Save, picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(text.encode())
    run = ["run", str(graph(POOL.format(name="y"))), "--input", str(picture), *NUMPY, "--json"]
    assert main([*run, "--labels", str(tmp_path / name)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [top["label"] for top in data["outputs"][0]["top"]] == ["bird", "dog", "cat"]
    assert main([*run, "--labels", str(tmp_path / name), "--top", "1"]) == 0
    (top,) = json.loads(capsys.readouterr().out)["outputs"][0]["top"]
    assert (top["index"], top["label"]) == (2, "bird")
    assert main(run) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["top"] == []
    assert main([*run, "--top", "2"]) == 0
    assert [top["index"] for top in json.loads(capsys.readouterr().out)["outputs"][0]["top"]] == [2, 1]


@pytest.mark.parametrize("name", ["y", "scores"])
def test_labels_that_fit_no_output(
    name: str,
    graph: Save,
    picture: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("labels.txt").write_text("cat\ndog\n")
    run = ["run", str(graph(POOL.format(name=name))), "--input", str(picture), *NUMPY]
    assert main([*run, "--labels", "labels.txt"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"labels.txt has 2 names, which fit no output: {name} is 1x3" in said


@pytest.mark.parametrize(
    ("name", "data"),
    [("l.json", b"{"), ("l.json", b'{"a": 1}'), ("l.json", b"3"), ("l.json", b"[" * 100_000), ("l", b"\xff")],
)
def test_what_is_no_list_of_labels(
    name: str, data: bytes, relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(data)
    assert main(["run", str(relu), "--labels", str(tmp_path / name), *NUMPY]) == 1
    assert f"{name}: these are no names of classes" in capsys.readouterr().err


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
    np.save(tmp_path / "f.npy", np.ones(3) / 2)
    np.savez(tmp_path / "z.npz", a=np.ones(3))
    (tmp_path / "z.npz").rename(tmp_path / "z.npy")
    (tmp_path / "t.npy").write_text("text")
    for name, message in {
        "f": "holds float64, and input 'x' wants int64",
        "z": "several arrays",
        "t": "no array",
    }.items():
        with pytest.raises(InvalidArgument, match=message):
            fed(port("int64", 3), tmp_path / f"{name}.npy")


def test_numbers_that_are_written_otherwise(tmp_path: Path) -> None:
    """The other order of bytes, and complex numbers without an imaginary part; warnings are errors here."""
    for dtype in (">f4", "<f4", ">f8", "c8"):
        np.save(tmp_path / "x.npy", np.arange(3).astype(dtype))
        found = fed(port("float32", 3), tmp_path / "x.npy")
        assert found.dtype == np.float32
        assert found.dtype.isnative
        assert found.tolist() == [0, 1, 2]


def test_strings(tmp_path: Path) -> None:
    np.save(tmp_path / "s.npy", np.array(["a", "bc"]))
    found = fed(port("string", 2), tmp_path / "s.npy")
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
    model = Model(Graph([port("float", "N")]))
    first, second, other = (feeds.feeds(model, None, ["9"], seed).values["x"] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_what_is_open_is_one() -> None:
    model = Model(Graph([port("float", "N", None, 3)]))
    found = feeds.feeds(model)
    assert found.values["x"].shape == (1, 1, 3)
    assert found.assumed == ["N", "x.shape[1]"]
    assert feeds.feeds(model, None, ["N=4"]).values["x"].shape == (4, 1, 3)
    assert feeds.feeds(model, None, ["x=2x5x3"]).values["x"].shape == (2, 5, 3)


def test_random_tokens_are_in_the_vocabulary(graph: Save) -> None:
    path = graph("""g (int64[B,S] ids, int64[B,S] attention_mask, int64[B,S] position_ids) => (float[B,S,2] y, m, p)
        <float[4,2] table = {0, 1, 2, 3, 4, 5, 6, 7}>
        { i = Cast <to = 6> (ids)  y = Gather (table, i)  m = Neg (attention_mask)  p = Neg (position_ids) }""")
    values = feeds.feeds(feeds_model(path), None, ["B=50", "S=7"]).values
    assert set(values["ids"].reshape(-1).tolist()) == {0, 1, 2, 3}
    assert (values["attention_mask"] == 1).all()
    np.testing.assert_array_equal(values["position_ids"], np.broadcast_to(np.arange(7), (50, 7)))


def feeds_model(path: Path) -> Model:
    from sardonyx.model.serde.reader import read

    return read(path)


def test_random_words() -> None:
    assert set(feeds.feeds(Model(Graph([port("string", 9)]))).values["x"].tolist()) <= set(feeds.WORDS)


def test_a_sequence_comes_from_json(tmp_path: Path) -> None:
    value = Value("x", SequenceType(TensorType(dtypes.float32)))
    with pytest.raises(InvalidArgument, match=r"give --input x=FILE\.json"):
        feeds.feeds(Model(Graph([value])))
    (tmp_path / "x.json").write_text("[[1, 2], [3]]")
    first, second = fed(value, tmp_path / "x.json")
    np.testing.assert_array_equal(first, np.float32([1, 2]))
    np.testing.assert_array_equal(second, np.float32([3]))


def test_two_inputs_need_names() -> None:
    with pytest.raises(InvalidArgument, match="say for which input, as in --shape a=3"):
        feeds.named("--shape", ["3"], ["a", "b"])


def test_summary(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 4))
    facts = summary("y", x.astype(np.float32))
    assert facts["values"] is None
    assert facts["shape"] == [3, 4]
    np.testing.assert_allclose([facts["min"], facts["max"], facts["mean"]], [x.min(), x.max(), x.mean()], rtol=1e-5)
    assert facts["top"] == []
    assert summary("y", np.array([np.nan, 1.0]))["max"] == "nan"
    assert summary("y", np.empty((0, 3)))["min"] is None
    assert summary("y", np.array(2))["mean"] == 2
    assert summary("y", np.array(["a"], object))["values"] == ["a"]
    assert summary("y", np.array([3], np.int64))["values"] == [3]
    assert summary("y", None)["shape"] == []
    assert summary("y", [{"a": 0.25, "b": 0.75}])["top"][0] == {"index": None, "label": "b", "probability": 0.75}


def test_top_five() -> None:
    row = np.array([[0.05, 0.4, 0.1, 0.2, 0.05, 0.2]], np.float32)
    assert [top["index"] for top in summary("y", row)["top"]] == [1, 3, 5, 2, 0]
    assert summary("y", row, list("abcdef"))["top"][0]["label"] == "b"
    assert summary("y", row, ["too", "few"])["top"][0]["label"] is None
    assert summary("y", row * 2)["top"] == []
    assert summary("y", np.concatenate([row, row]))["top"] == []
    assert summary("y", np.array([0.25, 0.75]))["top"][0]["index"] == 1


def test_scores_are_no_probabilities() -> None:
    row = np.array([[-1, 5, 2]], np.float32)
    assert summary("embedding", row)["top"] == []
    assert summary("logits", row)["top"][0] == {"index": 1, "label": None, "score": 5}
    assert summary("y", row, ["a", "b", "c"])["top"][0] == {"index": 1, "label": "b", "score": 5}


@pytest.mark.parametrize("text", ["a, b", "['a', 'b']", "{0: 'a', 1: 'b'}"])
def test_labels(text: str) -> None:
    assert labels({"names": text}) == ["a", "b"]
    assert labels({"names": "{oops"}) == labels({}) == []


TWO = "g (float[N] a, int64[N] b) => (float[N] c, int64[N] d) { c = Neg (a)  d = Neg (b) }"


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_archives_hold_several_values(suffix: str, graph: Save, tmp_path: Path) -> None:
    model, given, written = graph(TWO), tmp_path / f"in{suffix}", tmp_path / "new" / f"out{suffix}"
    if suffix == ".json":
        given.write_text('{"a": [1.5, 2], "b": [3, 4]}')
    else:
        np.savez(given, a=np.float32([1.5, 2]), b=np.int64([3, 4]))
    assert main(["run", str(model), "--input", str(given), "--output", str(written), *NUMPY, "--json"]) == 0
    found = json.loads(written.read_text()) if suffix == ".json" else dict(np.load(written))
    assert list(found) == ["c", "d"]
    np.testing.assert_array_equal(found["c"], [-1.5, -2])
    np.testing.assert_array_equal(found["d"], [-3, -4])
    assert main(["run", str(model), "--input", f"b={given}", "--shape", "a=2", *NUMPY, "--json"]) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON file"),
        ("[" * 100_000, "is no JSON file"),
        ('{"a": ["x"], "b": [1]}', "holds text, and input 'a' wants float32"),
        ('{"a": [1], "b": [1.5]}', "holds float64, and input 'b' wants int64"),
        ('{"a": [[1], [2, 3]], "b": [1]}', "the rows of 'a' differ in length"),
        ('{"z": [1]}', "there is no input 'z'; the model has a, b"),
        ('{"a": [[1]], "b": [1]}', "input 'a' wants rank 1"),
        ("[1]", "holds no values by name"),
    ],
)
def test_json_that_does_not_fit(
    text: str, message: str, graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.json").write_text(text)
    assert main(["run", str(graph(TWO)), "--input", str(tmp_path / "in.json"), *NUMPY]) == 1
    assert message in capsys.readouterr().err


def test_two_outputs_need_an_archive(graph: Save, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(graph(TWO)), "--output", "out.npy"]) == 1
    assert "takes one output, and there are 2; give a folder, .npz or .json" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
@pytest.mark.parametrize(("shape", "mode"), [("[1,3,6,8]", "RGB"), ("[6,8,3]", "RGB"), ("[6,8]", "L")])
def test_pictures_out(suffix: str, shape: str, mode: str, graph: Save, picture: Path, tmp_path: Path) -> None:
    model = graph(f"g (float{shape} x) => (float{shape} y) {{ y = Identity (x) }}")
    out = tmp_path / f"out{suffix}"
    assert main(["run", str(model), "--input", str(picture), "--output", str(out), *NUMPY, "--json"]) == 0
    with Image.open(picture) as before, Image.open(out) as after:
        assert after.mode == mode
        distance = np.abs(np.asarray(before.convert(mode), np.int16) - np.asarray(after, np.int16))
    assert distance.max() <= (0 if suffix == ".png" else 40)


def test_what_is_no_picture(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = graph("g (float[2,6,8,5] x) => (float[2,6,8,5] y) { y = Identity (x) }")
    assert main(["run", str(model), "--output", str(tmp_path / "y.png"), *NUMPY]) == 1
    assert "output 'y' [2, 6, 8, 5] is not shaped like a picture" in capsys.readouterr().err
    assert main(["run", str(model), "--output", str(tmp_path / "y.wav"), *NUMPY]) == 1
    assert "output 'y' [2, 6, 8, 5] is not shaped like sound" in capsys.readouterr().err


def test_outputs_that_are_no_tensors(graph: Save, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = graph("g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct (x, x) }")
    (tmp_path / "x.json").write_text("[1, 2]")
    arguments = ["run", str(model), "--input", str(tmp_path / "x.json"), *NUMPY]
    assert main([*arguments, "--output", str(tmp_path / "out")]) == 0
    assert json.loads((tmp_path / "out" / "y.json").read_text()) == {"y": [[1, 2], [1, 2]]}
    assert "2 of them" in capsys.readouterr().out
    assert main([*arguments, "--output", str(tmp_path / "y.npy")]) == 1
    assert "output 'y' is no tensor; write a .json file" in capsys.readouterr().err


def test_a_profile(relu: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    assert main(["run", str(relu), "--profile", str(path), *NUMPY]) == 0
    assert "Kernels that took longest" in capsys.readouterr().out
    assert any(event["name"] == "model_run" for event in json.loads(path.read_text()))
    assert [item.name for item in tmp_path.iterdir() if item.suffix == ".json"] == ["trace.json"]


def test_an_error_tells_what_was_assumed(graph: Save, capsys: pytest.CaptureFixture[str]) -> None:
    model = graph("g (float[N] x) => (float[3] y) { s = Constant <value_ints = [3]> ()  y = Reshape (x, s) }")
    assert main(["run", str(model), *NUMPY]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sardonyx: Reshape")
    assert line.endswith("; this took N = 1, --shape says otherwise")


def test_a_missing_operator(model: Save, capsys: pytest.CaptureFixture[str]) -> None:
    path = model("Frobnicate", [("x", FLOAT, [3])], [("y", FLOAT, [3])], domain="acme")
    assert main(["run", str(path), *NUMPY]) == 1
    assert "no operator 'Frobnicate' is known in domain 'acme'" in capsys.readouterr().err


def test_what_is_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.onnx").write_bytes(b"\x00\x01junk")
    assert main(["run", str(tmp_path / "x.onnx")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sardonyx: ")


def test_reader_refuses_other_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "z.npz", a=np.ones(3), b=np.ones(3))
    with pytest.raises(InvalidArgument, match="holds a, b, none of which is 'x'"):
        Reader().read(port("float", 3), tmp_path / "z.npz")


def test_file_names_are_safe() -> None:
    names = ["/etc/passwd", "..", "a b", "A B", "y.1", "數", "x" * 300, ".hidden", "C:\\x"]
    found = file_names(names)
    assert len({name.lower() for name in found}) == len(names)
    for name in found:
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
        assert 0 < len(name) <= 110
        assert not name.startswith(".")
