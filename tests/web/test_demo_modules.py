"""The modules of web/demo by themselves, in Node, against the engine and NumPy."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from sardonyx import ops
from sardonyx.cli.feeds import inputs_of
from sardonyx.demo import assets, digits, pictures, samples
from sardonyx.model.ir import TensorType
from sardonyx.model.serde.reader import read
from sardonyx.model.serde.source import STRANGERS
from sardonyx.web.known import known
from tests.models import path
from tests.support import require
from tests.web.pages import model_of
from web.demo import app as demo

DIGITS = assets() / "digits.onnx"
MODELS = ("ppocr2-cls", "silero-vad", "skl-logreg-digits")


def node(script: str, given: Any) -> Any:
    """What an expression of `given` and of web/demo's modules, `await load(name)`, is in Node."""
    require("node")
    place = Path(demo.__file__).parent.as_uri()
    code = f"""
        const given = JSON.parse(require("node:fs").readFileSync(0));
        const load = (name) => import("{place}/" + name);
        (async () => console.log(JSON.stringify(await ({script}))))();
    """
    done = subprocess.run(
        ["node", "-e", code], input=json.dumps(given), capture_output=True, text=True, check=True, timeout=500
    )
    return json.loads(done.stdout)


def test_drawings_become_inputs_as_in_python() -> None:
    grays = [pictures.gray(pictures.on_white(pictures.read(file))) for file in samples()]
    grays += [np.full((40, 30), 90, np.uint8)]
    given = [[gray.ravel().tolist(), gray.shape[1], gray.shape[0]] for gray in grays]
    script = 'load("preprocess.js").then(({ digitOf }) => given.map((each) => Array.from(digitOf(...each))))'
    for gray, found in zip(grays, node(script, given), strict=True):
        np.testing.assert_allclose(np.reshape(found, (1, 1, 28, 28)), digits.digit_from_gray(gray), atol=1e-6)


def test_the_outline_of_a_model_is_what_the_engine_reads() -> None:
    files = [str(DIGITS), *(str(path(name)) for name in MODELS)]
    script = """load("outline.js").then(({ outline }) =>
        given.map((file) => outline(new Uint8Array(require("node:fs").readFileSync(file)))))"""
    for file, found in zip(files, node(script, files), strict=True):
        model = read(file)
        nodes = Counter(".".join(filter(None, (each.domain, each.op_type))) for each in model.graph.all_nodes())
        assert dict(found["operators"]) == nodes
        assert found["nodes"] == nodes.total()
        for port, value in zip(found["inputs"], inputs_of(model), strict=True):
            assert isinstance(value.type, TensorType)
            dims = [None if size in (-1, "?", "") else size for size in value.shape or ()]
            assert port == {"name": value.name, "type": value.dtype and value.dtype.name, "dims": dims}


READ = """load("refusal.js").then(({ opened, refusal }) => given.files.map((file) => {
    const { known } = given;
    try { return refusal(opened(new Uint8Array(Buffer.from(file, "hex")), known), known); }
    catch (error) { return error.message; }
}))"""
"""Why files cannot run, "" for those that may."""


def refusals(files: Sequence[bytes]) -> list[str]:
    return list(node(READ, {"known": known(), "files": [file.hex() for file in files]}))


def test_a_file_that_is_no_model_is_refused_in_the_engine_s_words() -> None:
    files = [bytes(offset) + start + b"\x00\x01and more" for offset, start, _ in STRANGERS]
    for (_, _, words), found in zip(STRANGERS, refusals(files), strict=True):
        assert found == f"this is {words}."
    model = DIGITS.read_bytes()
    texts = ["nothing but words", "Grüße, und mehr als vierzig Buchstaben, also nicht alles"]
    found = refusals([b"", *(text.encode() for text in texts), model[:5000], b"\x08\x0a", b"\x0f" * 9, bytes(50)])
    assert found[:3] == [
        "there are no bytes in it, so no ONNX model.",
        "this is no ONNX model: it is a text that begins with “nothing but words”.",
        "this is no ONNX model: it is a text that begins with “Grüße, und mehr als vierzig Buchstaben, ”.",
    ]
    start = "this is no ONNX model, or not the whole of one: "
    assert found[3] == f"{start}field 7 claims 175801 bytes where 4984 are left."
    assert found[4] == f"{start}no graph is in it."
    assert found[5] == f"{start}field 1 has wire type 7, which ONNX does not use."
    assert found[6] == f"{start}a field has the number 0 at byte 1."
    assert refusals([model[:size] for size in range(1, 2000, 97)]).count("") == 0


def test_what_the_engine_does_not_know_is_said_from_the_outline() -> None:
    x = "g (float[N] x) => (float[N] y)"
    inner = "{ c = Constant <value = bool {1}> () y = If (c) <then_branch = t () => (float[N] a) { a = Snort (x) }, "
    inner += "else_branch = e () => (float[N] b) { b = Relu (x) }> }"
    call = '<domain: "my.domain", opset_import: ["" : 21, "my.domain" : 1]> '
    functions = f"{call} Twice (x) => (y) {{ z = Frobnicate (x)  y = Relu (z) }}"
    known_inside = f"{call} Twice (x) => (y) {{ y = Add (x, x) }}"
    pair = f"{x} {{ a = my.domain.Mish (x)  [second] y = my.domain.Mish (a) }}"
    files = [
        DIGITS.read_bytes(),
        model_of(f"{x} {{ y = com.microsoft.Gelu (x) }}"),
        model_of(f"{x} {{ y = ai.onnx.Relu (x) }}"),
        model_of(f"{x} {{ y = my.domain.Twice (x) }} {known_inside}"),
        model_of(pair),
        model_of(f"{x} {inner}"),
        model_of(f"{x} {{ y = my.domain.Twice (x) }} {functions}"),
        model_of(f"{x} {{ y = Relu (x) }}", 99),
        model_of("g (seq(float[N]) x) => (float[N] y) { y = ConcatFromSequence <axis = 0> (x) }"),
        elsewhere(),
    ]
    found = refusals(files)
    assert found[:4] == [""] * 4
    assert found[4].startswith(
        "Nothing here knows the operator my.domain.Mish (nodes a, second); export the model with"
    )
    assert "@sardonyx.custom_op" in found[4]
    assert found[5].startswith("Nothing here knows the operator Snort (node a); export the model for another operator")
    assert found[6].startswith("Nothing here knows the operator Frobnicate (node z)")
    assert found[7].startswith("It is written in operator set 99 of ai.onnx, and 28 is the newest")
    assert found[8] == "Its input x is a sequence, and pages give tensors; run it in Python."
    assert found[9].startswith("Its weights lie in another file (weights.bin), which a page does not get")


def elsewhere() -> bytes:
    """A model with a weight in another file."""
    model = onnx.load_from_string(model_of("g (float[2] x) => (float[2] y) { y = Add (x, w) }"))
    weight = onnx.TensorProto(name="w", dims=[2], data_type=onnx.TensorProto.FLOAT, data_location="EXTERNAL")
    weight.external_data.add(key="location", value="weights.bin")
    model.graph.initializer.append(weight)
    return bytes(model.SerializeToString())


def test_pages_know_the_operators_that_the_engine_has() -> None:
    told = known()["operators"]
    assert {"Conv", "Loop", "Upsample"} <= {*told["ai.onnx"]}
    assert "FusedMatMul" in told["com.microsoft"]
    for domain, names in told.items():
        assert all(ops.find(domain, name) for name in names)
    counted = sum(len(names) for names in told.values())
    assert counted == sum(each.__module__.startswith("sardonyx.ops.") for each in ops.load().values())


def test_arrays_of_numpy_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    types = [
        "<f2",
        ">f2",
        "<f4",
        ">f4",
        "<f8",
        ">f8",
        "|i1",
        "|u1",
        "<i2",
        ">i2",
        "<u2",
        "<i4",
        ">i4",
        "<u4",
        "<i8",
        ">i8",
        "<u8",
        ">u8",
        "|b1",
        "<U5",
        ">U5",
        "|S4",
    ]
    arrays: list[Any] = [(rng.normal(size=(2, 3, 4)) * 50).astype(kind) for kind in types]
    arrays += [np.asfortranarray(arrays[3]), np.array(7.5), np.zeros((0, 3)), np.array(["é€", "😀"]), np.int64([2**62])]
    files = []
    for number, array in enumerate(arrays):
        file = tmp_path / f"{number}.npy"
        with file.open("wb") as out:
            np.lib.format.write_array(out, array, version=[(1, 0), (2, 0), (3, 0)][number % 3])
        files.append(str(file))
    script = """load("npy.js").then(({ arrayOf }) => given.map((file) => {
        const { values, dims } = arrayOf(new Uint8Array(require("node:fs").readFileSync(file)));
        return [values.map(String), dims];
    }))"""
    for array, (values, dims) in zip(arrays, node(script, files), strict=True):
        assert tuple(dims) == array.shape
        if array.dtype.kind in "US":
            assert values == [each.decode() if isinstance(each, bytes) else str(each) for each in array.ravel()]
        elif array.dtype.kind in "iu":
            assert [*map(int, values)] == array.ravel().tolist()
        else:
            np.testing.assert_array_equal(np.array(values, np.float64), array.astype(np.float64).ravel())
    good = Path(files[2]).read_bytes()
    np.save(tmp_path / "c.npy", np.zeros(2, complex))
    np.save(tmp_path / "o.npy", np.array([None]), allow_pickle=True)
    np.save(tmp_path / "r.npy", np.zeros(2, [("a", "f4")]))
    bad = [b"PK", good[:9], good[:40], good[:-1], *((tmp_path / f"{name}.npy").read_bytes() for name in "cor")]
    script = """load("npy.js").then(({ arrayOf }) => given.map((file) => {
        try { arrayOf(new Uint8Array(Buffer.from(file, "hex"))); } catch (error) { return error.message; }
    }))"""
    told = node(script, [file.hex() for file in bad])
    assert told[:4] == [
        "it is no .npy file",
        *["it is cut off in its head"] * 2,
        "it is cut off: [2,3,4] takes 96 bytes, and 95 are there",
    ]
    assert told[4] == "it holds '<c16'; save an array of numbers or strings"
    assert told[5].startswith("it holds '|O") or told[5].startswith("it holds records or objects")
    assert told[6].startswith("it holds records or objects")


def test_what_is_typed_becomes_an_array() -> None:
    cases: list[tuple[str, str, Any, Any]] = [
        ("1 2,3;\n4", "float32", ["1", "2", "3", "4"], None),
        ("[[1. 2.]\n [3. -4e-1]]", "float64", ["1", "2", "3", "-0.4"], [2, 2]),
        ("(1, 2), (3, 4), (5, 6)", "int8", ["1", "2", "3", "4", "5", "6"], [3, 2]),
        ("[]", "int64", [], [0]),
        ("[[true, False], [0, 2]]", "bool", ["1", "0", "0", "1"], [2, 2]),
        ("inf -Infinity nan .5 5.", "float16", ["Infinity", "-Infinity", "NaN", "0.5", "5"], None),
        ("-9223372036854775808 9007199254740993", "int64", ["-9223372036854775808", "9007199254740993"], None),
        ("18446744073709551615", "uint64", ["18446744073709551615"], None),
        ("2.0 1e3", "int32", ["2", "1000"], None),
        ("255", "float8e4m3fn", ["255"], None),
        ("one, two\n[three", "string", ["one, two", "[three"], None),
        ('[["a, [b]", "\\"c\\""]]', "string", ["a, [b]", '"c"'], [1, 2]),
        ("1 2 x", "float32", "“x” is no number", None),
        ("1.5", "int64", "1.5 is no integer, and int64 is wanted", None),
        ("nan", "int8", "nan is no integer, and int8 is wanted", None),
        ("128", "int8", "128 does not fit into int8, which is -128 to 127", None),
        ("-1", "uint4", "-1 does not fit into uint4, which is 0 to 15", None),
        ("[1, [2]]", "float32", "the brackets have different numbers of elements", None),
        ("[[1, 2], [3]]", "float32", "the brackets have different numbers of elements", None),
        ("[1, 2", "float32", "a bracket is not closed", None),
        ("1]", "float32", "a bracket closes that was not opened", None),
        ("[" * 99, "float32", "brackets are nested more than 16 deep", None),
        ("[a]", "string", 'texts in brackets are written as JSON is: ["one", "two"]', None),
        ("[1]", "string", "1 is no text: put it in quotes", None),
    ]
    script = """load("typed.js").then(({ typed }) => given.map(([text, type]) => {
        try { const { values, dims } = typed(text, type); return [values.map(String), dims]; }
        catch (error) { return [error.message, null]; }
    }))"""
    found = node(script, [case[:2] for case in cases])
    for (text, _, values, dims), each in zip(cases, found, strict=True):
        assert each == [values, dims], text


def test_floats_of_16_bits_are_numpy_s() -> None:
    rng = np.random.default_rng(0)
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    halves = halves[np.isfinite(halves)]
    numbers = [*halves, *(halves[:-1] + halves[1:]) / 2, *rng.normal(size=2000) * 10.0 ** rng.integers(-9, 6, 2000)]
    single = np.array(numbers, np.float32)
    script = """load("halves.js").then(({ toHalf, fromHalf, toBrain, fromBrain }) => [
        given.map(toHalf), given.map(toHalf).map(fromHalf).map(String),
        given.map(toBrain), given.map(toBrain).map(fromBrain)])"""
    bits, back, brain, wide = node(script, single.tolist())
    with np.errstate(over="ignore"):
        wanted = single.astype(np.float16)
    np.testing.assert_array_equal(np.array(bits, np.uint16), wanted.view(np.uint16))
    np.testing.assert_array_equal(np.array(back, np.float64), wanted.astype(np.float64))
    rounded = single.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(np.array(brain, np.uint16), rounded.view(np.uint16))
    np.testing.assert_array_equal(np.array(wide, np.float64), rounded.astype(np.float64))


def test_only_scores_have_classes() -> None:
    shares = np.full(4, 0.25).tolist()
    spread = np.linspace(-3, 3, 384).tolist()
    logits = np.linspace(-9, 9, 1000).tolist()
    cases: list[tuple[dict[str, Any], str, list[int], list[float], list[str] | None]] = [
        ({}, "y", [1, 384], spread, None),
        ({}, "embedding", [384], spread, None),
        ({}, "y", [1, 2, 2], shares, None),
        ({}, "y", [1, 2], [0.5, 0.5], None),
        ({}, "y", [1, 4], shares, ["0", "1", "2", "3"]),
        ({}, "logits", [1, 384], spread, [str(k) for k in range(384)]),
        ({"makers": {"y": "LogSoftmax"}}, "y", [1, 384], spread, [str(k) for k in range(384)]),
        ({}, "y", [1, 1000, 1, 1], logits, [str(k) for k in range(1000)]),
        ({"metadata": {"classes": "a,b, c,d"}}, "y", [4], [1, 2, 3, -4], ["a", "b", "c", "d"]),
        (
            {"metadata": {"names": "{0: 'a, x', 1: 'b', 2: 'c', 3: \"d's\"}"}},
            "y",
            [4],
            [1, 2, 3, -4],
            ["a, x", "b", "c", "d's"],
        ),
        ({"metadata": {"labels": '["a", "b", "c", "d"]'}}, "y", [4], [1, 2, 3, -4], ["a", "b", "c", "d"]),
        ({"metadata": {"classes": "a,b"}}, "y", [4], [1, 2, 3, -4], None),
    ]
    script = """load("classes.js").then(({ classesOf }) => given.map(([outline, name, dims, values]) =>
        classesOf({ makers: {}, metadata: {}, ...outline }, name, { type: "float32", dims }, values)))"""
    for case, found in zip(cases, node(script, [case[:4] for case in cases]), strict=True):
        assert found == case[4], case


def test_the_lines_for_a_page_are_five() -> None:
    feeds = {
        "input.1": {"type": "int64", "data": [3, 4], "dims": [2]},
        "mask": {"type": "float32", "data": [1] * 9, "dims": [9]},
        "ids": {"type": "int32", "data": [*range(9)], "dims": [1, 9]},
        "x": {"type": "float32", "data": [0.5, *range(9)], "dims": [10]},
        "text": {"type": "string", "data": ["</script>", 'a "b"'], "dims": [2]},
    }
    lines = node('load("snippet.js").then(({ snippet }) => snippet("my model.sdx", given))', feeds).split("\n")
    assert len(lines) == 5
    assert lines[2] == '  const session = await load("my%20model.sdx");'
    assert lines[3] == (
        '  console.log(await session.run({ "input.1": new Tensor("int64", [3, 4], [2]), '
        'mask: new Tensor("float32", Array(9).fill(1), [9]), '
        'ids: new Tensor("int32", Array.from(Array(9).keys()), [1, 9]), '
        'x: new Tensor("float32", Array(10).fill(0), [10]), '
        'text: new Tensor("string", ["\\u003c/script>", "a \\"b\\""], [2]) }));'
    )


def test_lines_are_found_and_spelled_as_in_python() -> None:
    rng = np.random.default_rng(0)
    masks = [rng.random((20, 30)) < share for share in (0.2, 0.5, 0.8)]
    script = 'load("lines.js").then(({ regions }) => given.map((each) => regions(...each)))'
    for mask, found in zip(masks, node(script, [[mask.ravel().astype(int).tolist(), 30, 20] for mask in masks])):
        assert sorted(map(tuple, found)) == sorted(regions(mask))
    letters = ["", "a", "b", " "]
    shares = np.eye(4)[[0, 1, 1, 0, 1, 3, 2, 2, 3]] * 0.9
    script = 'load("lines.js").then(({ spelled }) => spelled(given[0], given[1]))'
    assert node(script, [shares.ravel().tolist(), letters]) == {"text": "aa b", "share": pytest.approx(0.9)}
    boxes = [[50, 0, 90, 10], [0, 21, 9, 31], [0, 1, 40, 11], [20, 20, 60, 30]]
    script = 'load("lines.js").then(({ inOrder }) => inOrder(given))'
    assert node(script, boxes) == [boxes[2], boxes[0], boxes[1], boxes[3]]


def regions(mask: np.ndarray[Any, Any]) -> list[tuple[int, int, int, int]]:
    """The boxes of connected pixels, by spreading the smallest number."""
    marks = np.where(mask, np.arange(1, mask.size + 1).reshape(mask.shape), 0)
    while True:
        around = np.pad(marks, 1)
        near = np.stack([marks, around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]])
        spread = np.where(mask, near.max(0), 0)
        if (spread == marks).all():
            break
        marks = spread
    places = [np.argwhere(marks == mark) for mark in np.unique(marks[mask])]
    return [(p[:, 1].min(), p[:, 0].min(), p[:, 1].max() + 1, p[:, 0].max() + 1) for p in places]
