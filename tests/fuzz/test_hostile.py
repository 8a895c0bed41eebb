"""Models that are out to do harm: each gives an error of our own that names the place, soon and in little memory."""

import os
import time
import tracemalloc
from contextlib import suppress

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession
from sardonyx.errors import InvalidGraph, InvalidProtobuf, NoSuchFile, RuntimeException, SardonyxError
from sardonyx.model.serde.wire import varint

HEAD = '<ir_version: 10, opset_import: ["" : 21, "f" : 1]> '
SECONDS = 1.0
BYTES = 64 << 20


def modest(act):
    """What `act()` gives or raises: twice, since counting memory makes everything up to eight times slower.

    Fails where the first call takes more than a second of computing, or the second more than 64 MB.
    """
    started = time.process_time()
    with suppress(SardonyxError):
        act()
    spent = time.process_time() - started
    assert spent < SECONDS, f"{spent:.2f} s"
    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SARDONYX_CACHE", "0")  # the first call's plan is not what is to be counted
            return act()
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < BYTES, f"{peak:,} bytes"


def attempt(model, feeds=None, provider="NumpyExecutionProvider"):
    """Load a model (bytes, a path, or the text of one) and run it once."""
    if isinstance(model, str):
        model = onnx.parser.parse_model(HEAD + model).SerializeToString()
    modest(lambda: InferenceSession(model, providers=[provider]).run(None, feeds or {}))


def refused(model, reason, kind=SardonyxError, feeds=None):
    with pytest.raises(kind, match=reason) as caught:
        attempt(model, feeds)
    assert str(caught.value).replace("\n", "").isprintable()


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


class TestFiles:
    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"", "no bytes at all"),
            (b"not a model, but a note\n", "a text that begins with 'not a model"),
            (b"\xef\xbb\xbf# Title\n", "a text that begins with"),
            (b"<!DOCTYPE html><html></html>", "a page of HTML"),
            (b"\x18\x00\x00\x00ORTM", "onnxruntime's own format"),
            (b"\x10\x00\x00\x00\x00\x00\x00\x00" + b'{"w":{}}', "a safetensors file"),
            (b"\x80\x02}q\x00.", "a pickle"),
            (b"\x08" + b"\xff" * 10 + b"\x01", "ModelProto, byte 2: a number has more than ten bytes"),
            (b"\x3a\xff\xff\xff\xff\x0f", "'graph' claims 4294967295 bytes where 0 are left"),
            (b"\x3a\x05\x0a\x00", "'graph' claims 5 bytes where 2 are left"),
            (b"\x38\x05", "'graph' has wire type 0"),
            (b"\x3a\x02\x0b\x0b", "'node' has wire type 3"),
            (b"\x3a\x04\x12\x02\xff\xfe", "'name' is not UTF-8"),
        ],
    )
    def test_what_is_no_model(self, data, reason):
        refused(data, reason, InvalidProtobuf)

    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "a.onnx")
        with pytest.raises(NoSuchFile, match="is a pipe or a device"):
            modest(lambda: InferenceSession(tmp_path / "a.onnx"))

    def test_a_device_is_not_read_for_ever(self):
        with pytest.raises(NoSuchFile, match="is a pipe or a device"):
            modest(lambda: InferenceSession("/dev/zero"))


class TestExternalData:
    @pytest.fixture
    def model(self, tmp_path):
        """A function that saves a model with one external tensor of four bytes, and gives the path."""

        def make(location="w", **entries):
            tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
            for key, value in {"location": location, **entries}.items():
                tensor.external_data.add(key=key, value=str(value))
            output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
            graph = helper.make_graph([helper.make_node("Neg", ["w"], ["y"])], "g", [], [output], [tensor])
            path = tmp_path / "folder" / "a.onnx"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
            return path

        make().with_name("w").write_bytes(np.float32(3).tobytes())
        (tmp_path / "secret").write_bytes(b"1234")
        return make

    def test_what_is_well(self, model):
        assert InferenceSession(model(checksum="0")).run(None, {})[0].tolist() == [-3]

    @pytest.mark.parametrize(
        ("location", "entries", "reason"),
        [
            ("../secret", {}, "'../secret' does not"),
            ("sub/../../secret", {}, "does not"),
            ("/etc/passwd", {}, "'/etc/passwd' does not"),
            ("", {}, "'' does not"),
            ("w\0", {}, r"'w\\x00' does not"),
            ("w\n", {}, r"does not exist"),
            ("none", {}, "none does not exist"),
            ("w", {"offset": -4}, "bytes -4 to 0 of 'w'"),
            ("w", {"offset": 1 << 63}, "asked for, which has 4 bytes"),
            ("w", {"offset": "9" * 5000}, "Tensor 'w'"),
            ("w", {"offset": "four"}, "'four'"),
            ("w", {"length": -4}, "needs 4 bytes"),
            ("w", {"length": 1 << 62}, "asked for, which has 4 bytes"),
            ("w", {"offset": 2}, "bytes 2 to 6 of 'w' are asked for, which has 4 bytes"),
        ],
    )
    def test_places_that_are_none(self, model, location, entries, reason):
        with pytest.raises(SardonyxError, match=reason):
            modest(lambda: InferenceSession(model(location, **entries)))

    @pytest.mark.parametrize("kind", ["file", "folder", "loop", "proc"])
    def test_links_that_lead_away(self, model, kind, tmp_path):
        path = model({"file": "link", "folder": "link/secret", "loop": "link", "proc": "link/root/etc/passwd"}[kind])
        targets = {
            "file": tmp_path / "secret",
            "folder": tmp_path,
            "loop": path.with_name("link"),
            "proc": "/proc/self",
        }
        path.with_name("link").symlink_to(targets[kind])
        with pytest.raises(SardonyxError, match=r"is a link to|does not exist"):
            modest(lambda: InferenceSession(path))

    @pytest.mark.parametrize("kind", ["folder", "pipe"])
    def test_what_is_no_file(self, model, kind):
        path = model("odd")
        os.mkfifo(path.with_name("odd")) if kind == "pipe" else path.with_name("odd").mkdir()
        with pytest.raises(NoSuchFile, match="is a folder, a pipe or a device"):
            modest(lambda: InferenceSession(path))


class TestGraphs:
    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("g (float[1] x) => (float[1] y) { y = Neg(z) z = Neg(y) }", "nodes wait for each other: Neg 'y' needs"),
            ("g (float[1] x) => (float[1] y) { y = Neg(y) }", "Neg 'y' needs Neg 'y'"),
            ("g (float[1] x) => (float[1] y) { y = Neg(x) y = Abs(x) }", "'y' is defined already, by Neg 'y'"),
            ("g (float[1] x, float[1] x) => (float[1] x) { }", "'x' is defined already"),
            ("g (float[1] x) => (float[1] y) { y = Neg(w) }", "Neg 'y': input 'w' is not defined"),
            ("g (float[1] x) => (float[1] y) { y = Neg(x) }", "input 'x'"),
            ("g () => (float[1] y) { y = Nothing() }", "Nothing 'y': no operator 'Nothing' is known"),
            ("g () => (float[1] y) { y = Constant() }", "Constant 'y': none of the attributes"),
            ("g (float[1] x) => (float[1] y) { y = Softmax<axis = 1.5>(x) }", "'axis' is float, not int"),
            ("g (float[2, 3] x) => (y) { y = Transpose<perm = [0.5, 1.5]>(x) }", "'perm' is floats, not ints"),
            ("g (float[2] x) => (y, z) { y, z = Softsign(x) }", "output 'z'"),
        ],
    )
    def test_what_breaks_a_rule(self, text, reason):
        refused(text, reason)

    def test_an_attribute_that_is_no_text(self):
        node = helper.make_node("Pad", ["x", "p"], ["y"], mode=b"\xff\xfe")
        inputs = [helper.make_tensor_value_info("x", 1, [1])]
        pads = numpy_helper.from_array(np.ones(2, np.int64), "p")
        output = helper.make_tensor_value_info("y", 1, [3])
        model = helper.make_model(
            helper.make_graph([node], "g", inputs, [output], [pads]), opset_imports=[helper.make_opsetid("", 21)]
        )
        refused(model.SerializeToString(), "Pad 'y': the attribute 'mode' is no UTF-8", InvalidGraph)

    def test_an_attribute_that_holds_something_else(self):
        model = onnx.parser.parse_model(HEAD + "g (float[1] x) => (float[1] y) { y = Softmax<axis = 0>(x) }")
        model.graph.node[0].attribute[0].type = 7
        refused(model.SerializeToString(), "Softmax 'y': attribute 'axis' calls itself ints, yet it holds int")

    def test_names_are_shown_escaped(self):
        name = "a\nb\0\x1b[31m" + "c" * 5000
        node = helper.make_node("Neg", [name], ["y"], name="n\r")
        output = helper.make_tensor_value_info("y", 1, [1])
        model = helper.make_model(helper.make_graph([node], "g", [], [output]))
        refused(model.SerializeToString(), r"Neg 'n\\r': input 'a\\nb\\x00\\x1b\[31m.* \.\.\. ", InvalidGraph)

    def test_sizes_that_are_only_claimed(self):
        for dims in ([1 << 60], [1 << 40, 1 << 40], [-5], [0, 1 << 62, 9]):
            tensor = TensorProto(name="w", data_type=1, dims=dims, raw_data=b"1234")
            output = helper.make_tensor_value_info("y", 1, None)
            graph = helper.make_graph([helper.make_node("Neg", ["w"], ["y"])], "g", [], [output], [tensor])
            refused(helper.make_model(graph).SerializeToString(), "'w'")

    @pytest.mark.parametrize(("size", "index"), [(1 << 40, 0), (4, 9), (4, -9), (4, -1)])
    def test_sparse_tensors(self, size, index):
        values, indices = helper.make_tensor("w", 1, [1], [2.0]), helper.make_tensor("", 7, [1], [index])
        output = helper.make_tensor_value_info("y", 1, None)
        graph = helper.make_graph([helper.make_node("Neg", ["w"], ["y"])], "g", [], [output])
        graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [size]))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        refused(model.SerializeToString(), "Constant 'w': .*(wants [0-9,]+ bytes|out of bounds)", RuntimeException)

    def test_declared_sizes_of_inputs(self):
        for size in (1 << 40, (1 << 63) - 1):
            refused(f"g (float[{size},{size}] x) => (float[1] y) {{ y = Neg(x) }}", "wants [0-9,]+ bytes|more than")
        refused("g (float[-3] x) => (y) { y = Neg(x) }", "rank", feeds={"x": np.ones((2, 2), np.float32)})

    def test_more_axes_than_arrays_have(self):
        refused(f"g (float[{','.join('1' * 65)}] x) => (y) {{ y = Neg(x) }}", "input 'x' wants 65 axes, and 64 is")
        shape = f"s = Constant<value_ints = [{','.join('1' * 65)}]>()"
        text = f"g (float[1] x) => (y) {{ {shape} r = Reshape(x, s) y = Neg(r) }}"
        refused(text, "Reshape 'r': reshape wants 65 axes", RuntimeException, {"x": np.ones(1, np.float32)})


class TestDepth:
    def test_messages(self):
        graph = b""
        for _ in range(10_000 // 3):  # a graph in an attribute of a node of a graph
            graph = field(1, field(5, field(6, graph)))
        refused(field(7, graph), "messages nest more than 200 deep", InvalidProtobuf)

    def test_branches(self):
        feeds = {"c": np.array(True), "x": np.ones(2, np.float32)}
        attempt(nested(30), feeds)
        refused(nested(60), "graphs nest more than 32 deep", InvalidGraph, feeds)

    def test_functions_that_nest_graphs(self):
        functions = [chain(k) for k in range(1000)] + [leaf("f1000")]
        refused(with_functions(functions), "graphs nest more than", InvalidGraph, {"x": np.ones(1, np.float32)})


def nested(levels):
    """An If in an If in an If: written from the inside, since protobuf does not go so deep."""
    bare = helper.make_graph([helper.make_node("Neg", ["x"], ["v0"])], "g0", [], [info("v0")]).SerializeToString()
    for level in range(1, levels + 1):
        other = helper.make_graph([helper.make_node("Abs", ["x"], [f"w{level}"])], "e", [], [info(f"w{level}")])
        node = helper.make_node("If", ["c"], [f"v{level}"], else_branch=other).SerializeToString()
        then = field(1, b"then_branch") + field(6, bare) + b"\xa0\x01\x05"
        bare = field(1, node + field(5, then)) + field(2, b"g") + field(12, info(f"v{level}").SerializeToString())
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), info("x")]
    imports = helper.make_opsetid("", 21).SerializeToString()
    return field(7, bare + b"".join(field(11, each.SerializeToString()) for each in inputs)) + field(8, imports)


def info(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [None])


def function(name, nodes):
    return helper.make_function(
        "f", name, ["x"], ["y"], nodes, [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    )


def leaf(name):
    return function(name, [helper.make_node("Neg", ["x"], ["y"])])


def chain(number):
    """A function that calls the next one inside an If."""
    call = helper.make_node(f"f{number + 1}", ["x"], ["z"], domain="f")
    branch = helper.make_graph([call], "t", [], [info("z")])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "e", [], [info("n")])
    condition = helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    return function(
        f"f{number}", [condition, helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)]
    )


def with_functions(functions):
    graph = helper.make_graph(
        [helper.make_node(functions[0].name, ["x"], ["y"], domain="f")], "g", [info("x")], [info("y")]
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, functions=functions, opset_imports=imports).SerializeToString()


class TestFunctions:
    def test_calls_that_double(self):
        doubles = [
            function(
                f"f{k}",
                [
                    helper.make_node(f"f{k + 1}", ["x"], ["t"], domain="f"),
                    helper.make_node(f"f{k + 1}", ["t"], ["y"], domain="f"),
                ],
            )
            for k in range(64)
        ]
        model = with_functions([*doubles, leaf("f64")])
        refused(model, "inlining f0 .* makes more than .* nodes", InvalidGraph)

    def test_calls_in_a_circle(self):
        one = function("f0", [helper.make_node("f1", ["x"], ["y"], domain="f")])
        two = function("f1", [helper.make_node("f0", ["x"], ["y"], domain="f")])
        refused(with_functions([one, two]), "a function calls itself: f0 -> f1 -> f0", InvalidGraph)

    def test_a_long_chain(self):
        calls = [function(f"f{k}", [helper.make_node(f"f{k + 1}", ["x"], ["y"], domain="f")]) for k in range(5000)]
        attempt(with_functions([*calls, leaf("f5000")]), {"x": np.ones(1, np.float32)})


BIG = 1 << 40
GIANTS = {
    "ConstantOfShape": f"s = Constant<value_ints = [{BIG}]>() y = ConstantOfShape(s)",
    "Expand": f"o = Constant<value_float = 1.0>() s = Constant<value_ints = [{BIG}]>() y = Expand(o, s)",
    "Range": f"a = Constant<value_int = 0>() b = Constant<value_int = {BIG}>() d = Constant<value_int = 1>()"
    " y = Range(a, b, d)",
    "Tile": f"o = Constant<value_floats = [1.0]>() s = Constant<value_ints = [{BIG}]>() y = Tile(o, s)",
    "Pad": f"o = Constant<value_floats = [1.0]>() s = Constant<value_ints = [0, {BIG}]>() y = Pad(o, s)",
    "OneHot": f"i = Constant<value_ints = [1]>() n = Constant<value_int = {BIG}>()"
    " v = Constant<value_floats = [0.0, 1.0]>() y = OneHot(i, n, v)",
    "Resize": f'o = Constant<value = float[1] {{1}}>() s = Constant<value_ints = [{BIG}]>() y = Resize(o, "", "", s)',
    "EyeLike": f"s = Constant<value_ints = [{1 << 20}, {1 << 20}]>() z = ConstantOfShape(s) y = EyeLike(z)",
}
LOOP = f"""n = Constant<value_int = {BIG}>() c = Constant<value = bool {{1}}>() o = Constant<value_floats = [1.0]>()
    y = Loop(n, c, o) <body = b (int64 i, bool d, float v) => (bool e, float w) {{ e = Identity(d) w = Neg(v) }}>"""


class TestGiants:
    @pytest.mark.parametrize("name", GIANTS)
    @pytest.mark.parametrize("after", ["", "sum"])
    def test_sizes_are_refused_before_anything_is_allocated(self, name, after):
        body = GIANTS[name]
        if after:
            body = body.replace("y =", "big =") + " y = ReduceSum<keepdims = 0>(big)"
        refused(f"g () => (y) {{ {body} }}", rf"{name} .*wants [\d,]+ bytes", RuntimeException)

    def test_a_size_that_only_the_run_tells(self):
        text = "g (int64[1] s) => (y) { y = ConstantOfShape(s) }"
        refused(text, r"ConstantOfShape 'y'.* wants [\d,]+ bytes", RuntimeException, {"s": np.array([BIG])})

    def test_a_size_that_is_negative(self):
        text = "g (int64[1] s) => (y) { y = ConstantOfShape(s) }"
        refused(text, "-5|negative", SardonyxError, {"s": np.array([-5])})

    def test_folding_runs_no_loop(self):
        model = onnx.parser.parse_model(f"{HEAD} g () => (y) {{ {LOOP} }}").SerializeToString()
        modest(lambda: InferenceSession(model, providers=["NumpyExecutionProvider"]))
