"""Models compiled in a page, and what a page needs for that: `compile.js`, `sardonyx web`, `from_url`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, external_data_helper, helper, numpy_helper

from sardonyx.demo import assets
from sardonyx.web.folder import write
from tests.models import inputs, path
from tests.pyodide.assemble import assemble
from tests.support.browser import Chromium
from tests.support.npm import package
from tests.web.pages import HERE, bundled

pytestmark = pytest.mark.slow

POLICY = "script-src 'self' 'wasm-unsafe-eval'"
PAGE = "/web/visit.html"
WITHOUT = "Object.defineProperty(globalThis, 'caches', { value: undefined })"
REFUSED = """for (const each of ["open", "keys"]) {
  CacheStorage.prototype[each] = () => Promise.reject(new DOMException("", "SecurityError"));
}"""
FULL = """for (const each of ["put", "match"]) {
  Cache.prototype[each] = () => Promise.reject(new DOMException("", "QuotaExceededError"));
}"""
WORKER = """(given) => new Promise((resolve) => {
  const worker = new Worker("/web/visit.mjs", { type: "module" });
  worker.onmessage = ({ data }) => resolve(data);
  worker.postMessage(given);
})"""
SERVICE_WORKER = """async (given) => {
  const { installing, active } = await navigator.serviceWorker.register("/web/visit.mjs", { type: "module" });
  const channel = new MessageChannel();
  const answer = new Promise((resolve) => (channel.port1.onmessage = ({ data }) => resolve(data)));
  (installing ?? active).postMessage(given, [channel.port2]);
  return answer;
}"""
DAMAGE = """async (change) => {
  for (const name of await caches.keys()) {
    const cache = await caches.open(name);
    for (const request of await cache.keys()) {
      const kept = await cache.match(request);
      const bytes = new Uint8Array(await kept.arrayBuffer());
      if (change === "flip") bytes[bytes.length >> 1] ^= 1;
      const held = change === "cut" ? bytes.slice(0, bytes.length >> 1) : bytes;
      await cache.put(request, new Response(held, { headers: kept.headers }));
    }
  }
}"""
TRAINED = """async () => {
  const [{ loaded }, { TrainingSession }] = await Promise.all(
    ["compile", "training"].map((name) => import(`/site/sardonyx/${name}.js`)));
  let compiled = false;
  const progress = ({ stage }) => (compiled ||= stage === "compile");
  const training = { train: "head", classes: 3 };
  const session = await loaded("/data/digits.onnx", { training, progress }, (bundle) => TrainingSession.create(bundle));
  const { inputs, outputs } = session;
  session.release();
  return { compiled, inputs, outputs };
}"""
Arrays = Mapping[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def site_folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """What `sardonyx web` makes, and the page runtime nowhere else."""
    site = tmp_path_factory.mktemp("site")
    write(site, assemble())
    return {"site": site, "web": HERE, "common": package("onnxruntime-common")}


@pytest.fixture(autouse=True)
def _nothing_of_other_tests(chromium: Chromium) -> Iterator[None]:
    yield
    chromium.site.data.clear()
    chromium.site.policy = ""


def digits() -> tuple[bytes, Arrays]:
    return (assets() / "digits.onnx").read_bytes(), {
        "image": np.random.default_rng(0).random((2, 1, 28, 28), np.float32)
    }


def relu() -> tuple[bytes, Arrays]:
    return model_of("Relu", x=(TensorProto.FLOAT, ["N"]), y=(TensorProto.FLOAT, ["N"])), {"x": np.float32([-1, 0, 2])}


def model_of(operator: str, **ports: tuple[int, list[str | int] | None]) -> bytes:
    """A node of these inputs and, last, its output."""
    *given, result = (helper.make_tensor_value_info(name, *kind) for name, kind in ports.items())
    node = helper.make_node(operator, [value.name for value in given], [result.name])
    graph = helper.make_graph([node], "g", given, [result])
    opset = helper.make_opsetid("", 20)
    return bytes(helper.make_model(graph, ir_version=10, opset_imports=[opset]).SerializeToString())


def sizes(feeds: Arrays) -> dict[str, Any]:
    return {"shapes": {name: list(array.shape) for name, array in feeds.items()}}


def visit(where: Any, source: str, feeds: Arrays | None = None, script: str = "visit", **more: Any) -> dict[str, Any]:
    """What `visit.mjs` answers in a page, or by a script in a page."""
    where.goto(PAGE)
    given = json.dumps({"source": source, "feeds": told(feeds or {}), **more})
    expression = f"ready.then(() => ({script})({given}))"
    session = where.context.new_cdp_session(where)  # Playwright's own way needs eval, which a policy may forbid
    said = session.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
    assert "exceptionDetails" not in said, said
    found: dict[str, Any] = said["result"]["value"]
    return found


def told(feeds: Arrays) -> dict[str, list[Any]]:
    return {name: [x.dtype.name, x.ravel().tolist(), list(x.shape)] for name, x in feeds.items()}


def check(answer: dict[str, Any], model: bytes, feeds: Arrays) -> None:
    assert "error" not in answer, answer["error"]
    session = onnxruntime.InferenceSession(model)
    for output, wanted in zip(session.get_outputs(), session.run(None, dict(feeds)), strict=True):
        elements, dims = answer["outputs"][output.name]
        assert dims == list(wanted.shape)
        np.testing.assert_allclose(elements, wanted.ravel(), atol=1e-4 * max(1, np.abs(wanted).max()))


def test_a_second_visit_loads_no_python(chromium: Chromium) -> None:
    site = chromium.site
    models = {"/data/digits.onnx": digits(), "/data/cls.onnx": (path("ppocr2-cls").read_bytes(), inputs("ppocr2-cls"))}
    site.data |= {address.removeprefix("/data/"): model for address, (model, _) in models.items()}
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        for address, (model, feeds) in models.items():
            answer = visit(page, address, feeds, options=sizes(feeds))
            check(answer, model, feeds)
            stages = answer["stages"]
            assert stages["model"] == [len(model), len(model)]
            assert stages["pyodide"][0] == stages["pyodide"][1]
            assert stages["compile"] == [1, 1]
            assert stages["weights"][0] == stages["weights"][1] > 0
        page.close()
        page = visitor.new_page()
        for address, (model, feeds) in models.items():
            site.requests.clear()
            answer = visit(page, address, feeds, options=sizes(feeds))
            check(answer, model, feeds)
            assert set(answer["stages"]) == {"weights"}  # the model was not sent
            assert address in site.requests
            assert not [each for each in site.requests if "pyodide" in each or "compiler" in each]
        # what is dropped is known by its bytes, and so is what lies at another address
        model, feeds = models["/data/digits.onnx"]
        site.requests.clear()
        answer = visit(page, "/data/digits.onnx", feeds, file="mine.onnx", options=sizes(feeds))
        check(answer, model, feeds)
        assert set(answer["stages"]) == {"model", "weights"}
        assert not [each for each in site.requests if "pyodide" in each or "compiler" in each]
        site.data["new.onnx"] = model
        answer = visit(page, "/data/new.onnx", feeds, options=sizes(feeds))
        check(answer, model, feeds)
        assert not {"compile"} & set(answer["stages"])
        # another origin's dates and lengths are as good as ETags
        headers = {"access-control-allow-origin": "*", "last-modified": "Sat, 21 Nov 2026 00:00:00 GMT"}
        page.route("https://models.test/*", lambda route: route.fulfill(body=model, headers=headers))
        for date, stages in [("00", None), ("00", {"weights"}), ("01", {"model", "weights"})]:
            headers["last-modified"] = f"Sat, 21 Nov 2026 {date}:00:00 GMT"
            answer = visit(page, "https://models.test/digits.onnx", feeds, options=sizes(feeds))
            check(answer, model, feeds)
            assert stages is None or set(answer["stages"]) == stages
        # where nobody answers, what is there is used
        page.route("**/data/*", lambda route: route.abort())
        check(visit(page, "/data/new.onnx", feeds, options=sizes(feeds)), model, feeds)
        page.close()
        page = visitor.new_page()
        check(visit(page, "/data/new.onnx", feeds, options=sizes(feeds)), model, feeds)
        visitor.set_offline(True)
        given = {"source": "/data/new.onnx", "options": sizes(feeds), "feeds": told(feeds)}
        check(page.evaluate("(given) => visit(given)", given), model, feeds)


@pytest.mark.parametrize("change", ["flip", "cut"])
def test_what_was_kept_and_is_damaged_is_compiled_again(chromium: Chromium, change: str) -> None:
    model, feeds = digits()
    chromium.site.data["digits.onnx"] = model
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        check(visit(page, "/data/digits.onnx", feeds), model, feeds)
        page.evaluate(DAMAGE, change)
        answer = visit(page, "/data/digits.onnx", feeds)
        check(answer, model, feeds)
        assert answer["stages"]["compile"] == [1, 1]
        answer = visit(page, "/data/digits.onnx", feeds)
        check(answer, model, feeds)
        assert set(answer["stages"]) == {"weights"}
        page.evaluate(DAMAGE, change)
        page.route("**/pyodide/**", lambda route: route.abort())
        told = visit(page, "/data/digits.onnx", feeds)["error"]  # of what was kept, since no other can be made
        assert "is damaged" in told or "is cut off" in told


def test_what_was_kept_for_training_and_is_damaged_is_compiled_again(chromium: Chromium) -> None:
    chromium.site.data["digits.onnx"] = digits()[0]
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        page.goto(PAGE)
        first = page.evaluate(TRAINED)
        assert first["compiled"]
        page.evaluate(DAMAGE, "flip")
        assert page.evaluate(TRAINED) == first
        assert page.evaluate(TRAINED) == {**first, "compiled": False}


@pytest.mark.parametrize("storage", [WITHOUT, REFUSED, FULL], ids=["none", "refused", "full"])
def test_a_file_where_nothing_is_kept(chromium: Chromium, storage: str) -> None:
    model, feeds = relu()
    chromium.site.data["relu.onnx"] = model
    with chromium.visitor() as visitor:
        visitor.add_init_script(storage)
        answer = visit(visitor.new_page(), "/data/relu.onnx", feeds, file="relu.onnx", options={"shapes": {"x": [3]}})
        check(answer, model, feeds)
        assert set(answer["stages"]) == {"model", "pyodide", "compile", "weights"}


def test_python_is_kept_and_completed(chromium: Chromium) -> None:
    """A second model finds Python as the first left it; what lean archives lack, such as numpy.fft, is fetched."""
    site = chromium.site
    first, feeds = relu()
    kind, signal = TensorProto.FLOAT, np.arange(8, dtype=np.float32).reshape(1, 8, 1)
    ports = [helper.make_tensor_value_info(name, kind, [1, 8, 2]) for name in "xy"]
    nodes = [helper.make_node("DFT", ["signal"], ["spectrum"]), helper.make_node("Add", ["x", "spectrum"], ["y"])]
    constants = [helper.make_tensor("signal", kind, signal.shape, signal.ravel())]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], constants)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)])
    site.data |= {"relu.onnx": first, "dft.onnx": bytes(model.SerializeToString())}
    second = {"x": np.ones((1, 8, 2), np.float32)}
    tensors = {"x": ["float32", second["x"].ravel().tolist(), [1, 8, 2]]}
    script = "async (given) => (await visit(given), visit({ ...given, ...given.next }))"
    site.requests.clear()
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        answer = visit(page, "/data/relu.onnx", feeds, script, next={"source": "/data/dft.onnx", "feeds": tensors})
    check(answer, site.data["dft.onnx"], second)
    asked = Counter(path.rpartition("/")[0] for path in site.requests if path.endswith((".whl", ".zip", ".packed")))
    assert asked == {"/site/pyodide/lean": 3, "/site/pyodide": 1}
    assert site.requests.count("/site/pyodide/pyodide.asm.wasm") == 1
    wheel = next(path for path in site.requests if path.endswith(".whl.packed"))
    assert site.requests.index("/data/relu.onnx") < site.requests.index(wheel)


def test_values_that_decide_on_shapes(chromium: Chromium) -> None:
    number, integer = TensorProto.FLOAT, TensorProto.INT64
    made = model_of("Reshape", x=(number, ["N"]), shape=(integer, [2]), y=(number, ["A", "B"]))
    feeds = {"x": np.arange(6, dtype=np.float32), "shape": np.array([2, 3], np.int64)}
    chromium.site.data["reshape.onnx"] = made
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        answer = visit(page, "/data/reshape.onnx", feeds, options={"typical": True, "until": "compile"})
        assert answer["error"] == "enough"
        options = {"typical": True, "target": ["webgpu", "wasm"]}
        for _ in range(2):
            answer = visit(page, "/data/reshape.onnx", feeds, options=options)
            check(answer, made, feeds)
        assert set(answer["stages"]) == {"weights"}
        # what another release made counts no more
        engine = chromium.site.folders["site"] / "sardonyx" / "engine.json"
        engine.write_text(json.dumps({**json.loads(engine.read_bytes()), "digest": "another"}))
        assert visit(page, "/data/reshape.onnx", feeds, options={**options, "until": "pyodide"})["error"] == "enough"
        assert visit(page, "", script="async () => ({ count: (await caches.keys()).length })") == {"count": 1}


def test_errors_are_those_of_python(chromium: Chromium, monkeypatch: pytest.MonkeyPatch) -> None:
    site = chromium.site
    model, feeds = relu()
    site.data |= {"relu.onnx": model, "note.txt": b"nothing but words", "bad.onnx": model[:-9]}
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        error = visit(page, "/data/note.txt", file="note.onnx")["error"]
        assert "it is a text that begins with 'nothing but words'" in error
        assert "Traceback" not in error
        error = visit(page, "/data/relu.onnx", feeds, options={"shapes": {"x": [2, 2]}})["error"]
        assert error == "input 'x' is float32[N], and cannot be 2x2"
        assert "the server answers 404" in visit(page, "/data/absent.onnx")["error"]
        error = visit(page, "/data/relu.onnx", options={"pyodide": "/nowhere"})["error"]
        assert f"there is no Pyodide at {site.address}/nowhere/" in error
        assert "`sardonyx web DIR` puts it there" in error
        page.route("**/lean/python_stdlib.zip.packed", lambda route: route.fulfill(status=404))
        error = visit(page, "/data/relu.onnx", feeds)["error"]
        assert error == f"{site.address}/site/pyodide/lean/python_stdlib.zip.packed: the server answers 404"
        page.unroute("**/lean/python_stdlib.zip.packed")
        content = site.content
        monkeypatch.setattr(site, "content", lambda path: None if "compiler.js" in path else content(path))
        error = visit(page, "/data/relu.onnx", feeds)["error"]
        assert error == "compiler.js cannot run: it is missing, or the page's policy refuses it"
        engine = f"{site.address}/site/sardonyx/engine.json"
        page.route(engine, lambda route: route.fulfill(body="<!doctype html><title>an app</title>"))
        error = visit(page, "/data/relu.onnx", feeds)["error"]
        assert error == f"{engine} is missing, so there is no compiler: `sardonyx web DIR` makes the whole folder"
        page.route(engine, lambda route: route.abort())
        error = visit(page, "/data/relu.onnx", feeds)["error"]
        assert error == f"{engine} cannot be fetched by this page: Failed to fetch"


@pytest.mark.parametrize("script", ["visit", WORKER, SERVICE_WORKER], ids=["page", "worker", "service worker"])
def test_bundles_run_under_a_policy_without_eval(chromium: Chromium, script: str) -> None:
    model, feeds = digits()
    chromium.site.data["digits.sdx"] = bundled(model, feeds, ["wasm"])
    chromium.site.policy = POLICY
    with chromium.visitor() as visitor:
        check(visit(visitor.new_page(), "/data/digits.sdx", feeds, script), model, feeds)


def test_workers_compile_what_lies_there_now(chromium: Chromium) -> None:
    model, feeds = relu()
    chromium.site.data["relu.onnx"] = model
    chromium.site.policy = POLICY
    with chromium.visitor() as visitor:
        page = visitor.new_page()
        check(visit(page, "/data/relu.onnx", feeds, WORKER), model, feeds)
        chromium.site.data["relu.onnx"] = b"what lies there now"
        assert "begins with 'what lies there now'" in visit(page, "/data/relu.onnx", feeds)["error"]
        assert "there are no workers here" in visit(page, "/data/new.onnx", feeds, SERVICE_WORKER)["error"]


def test_from_url(chromium: Chromium, tmp_path: Path) -> None:
    model, feeds = digits()
    chromium.site.data["digits.onnx"] = model
    code = """
        import numpy as np
        from js import caches
        from sardonyx import InferenceSession

        image = np.load("image.npy")
        for _ in range(2):
            told = []
            url = "../data/digits.onnx"
            session = await InferenceSession.from_url(url, progress=lambda *bytes: told.append(bytes))
            print(*session.run(None, {"image": image})[0].argmax(1), *told[-1])
        print(*[request.url for request in await (await caches.open("sardonyx models")).keys()])
        for url in ("/data/absent.onnx", "http://127.0.0.1:9/x.onnx"):
            try:
                await InferenceSession.from_url(url)
            except Exception as error:
                print(type(error).__name__, error)
    """
    np.save(tmp_path / "image.npy", feeds["image"])
    chromium.site.requests.clear()
    printed = chromium.run(code, {"image.npy": (tmp_path / "image.npy").read_bytes()}).splitlines()
    (wanted,) = onnxruntime.InferenceSession(model).run(None, dict(feeds))
    assert printed[0] == printed[1] == " ".join(map(str, [*wanted.argmax(1), len(model), len(model)]))
    assert printed[2] == f"{chromium.site.address}/data/digits.onnx"
    assert printed[3] == f"Fail {chromium.site.address}/data/absent.onnx: the server answers 404 Not Found"
    assert printed[4].startswith("Fail http://127.0.0.1:9/x.onnx cannot be fetched: ")
    assert printed[4].endswith("; a file of another site comes only if that site allows it (CORS)")


def test_onnxruntime_webs_interface_compiles_where_it_may(chromium: Chromium) -> None:
    chromium.site.data["plain.onnx"] = (assets() / "digits.onnx").read_bytes()
    with chromium.visitor() as context:
        page = context.new_page()
        page.goto("/web/ort/site.html")
        page.wait_for_function("globalThis.tasks")
        told = page.evaluate("tasks.compiled()")
    session = onnxruntime.InferenceSession((assets() / "digits.onnx").read_bytes())
    (wanted,) = session.run(None, {"image": np.full((1, 1, 28, 28), 0.5, np.float32)})
    np.testing.assert_allclose(told["answers"], np.broadcast_to(wanted, (2, 10)), rtol=1e-4, atol=1e-6)
    assert 'set env.sardonyx.compile = "page"' in told["refused"]


FEW = (TensorProto.INT64, ["K"])
LATER: dict[str, tuple[str, dict[str, tuple[int, list[str | int] | None]], list[list[Any]]]] = {
    "no shapes": (
        "Add",
        {"x": (TensorProto.FLOAT, None), "b": (TensorProto.FLOAT, None)},
        [[(2, 3), (3,)], [(4, 5), (5,)], [(2, 1, 3), (2, 1)], [(), (2,)], [(2, 3), (2,)]],
    ),
    "weights": (
        "Conv",
        {"x": (TensorProto.FLOAT, None), "w": (TensorProto.FLOAT, None)},
        [[(1, 2, 4, 4), (3, 2, 2, 2)]],
    ),
    "a shape": (
        "Reshape",
        {"x": (TensorProto.FLOAT, ["M", "N"]), "s": FEW},
        [[(2, 6), [3, 4]], [(2, 6), [3, 2, 2]], [(2, 6), [5]], [(4, 2), [8]]],
    ),
    "parts": (
        "Slice",
        {"x": (TensorProto.FLOAT, ["M", "N"]), "a": FEW, "b": FEW, "axes": FEW},
        [[(3, 5), [1, 2], [3, 4], [0, 1]], [(6, 5), [1], [4], [1]]],
    ),
}


WRONG = {("no shapes", 4), ("a shape", 2)}
"""The turns that no runtime takes."""


@pytest.mark.parametrize(("case", "target"), [*((case, "wasm") for case in LATER), ("no shapes", "webgpu")])
def test_what_runs_are_fed_decides_on_shapes(case: str, target: str, chromium: Chromium) -> None:
    """The page compiles again where a bundle is not for that, as onnxruntime-web takes whatever the operator does."""
    operator, ports, turns = LATER[case]
    y = (TensorProto.FLOAT, None)
    model = chromium.site.data["later.onnx"] = model_of(operator, **ports, y=y)
    told: list[dict[str, Any]] = []
    wanted: list[Any] = []
    session = onnxruntime.InferenceSession(model)
    for number, turn in enumerate(turns):
        arrays = [np.array(given) if isinstance(given, list) else noise(*given) for given in turn]
        feeds = dict(zip(ports, arrays))
        told.append({name: [x.dtype.name, x.ravel().tolist(), list(x.shape)] for name, x in feeds.items()})
        wanted.append(None if (case, number) in WRONG else session.run(None, feeds)[0])
    with chromium.visitor() as context:
        page = context.new_page()
        page.goto("/web/ort/site.html")
        page.wait_for_function("globalThis.tasks")
        given = ["/data/later.onnx", told, [target]]
        names, answers = page.evaluate("(given) => tasks.inTurn(...given)", given)
    assert names == [*ports]
    for answer, right in zip(answers, wanted, strict=True):
        if right is None:
            assert operator in answer
        else:
            data, dims = answer
            assert dims == list(right.shape)
            np.testing.assert_allclose(np.reshape(data, dims), right, rtol=1e-4, atol=1e-6)


def noise(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def test_the_data_of_a_model_may_lie_elsewhere(chromium: Chromium) -> None:
    numbers = np.array([1, 2, 3, 4], np.float32)
    weight = numpy_helper.from_array(numbers, "w")
    external_data_helper.set_external_data(weight, "outside.bin")
    weight.ClearField("raw_data")
    model = ModelProto.FromString(model_of("Mul", x=(1, [4]), w=(1, [4]), y=(1, [4])))
    model.graph.initializer.append(weight)
    del model.graph.input[1]
    chromium.site.data |= {"outside.onnx": model.SerializeToString(), "outside.bin": numbers.tobytes()}
    with chromium.visitor() as context:
        page = context.new_page()
        page.goto("/web/ort/site.html")
        page.wait_for_function("globalThis.tasks")
        told = page.evaluate("tasks.external()")
    assert told["answers"] == [[1, 2, 3, 4], [1, 2, 3, 4]]
    assert "outside.bin" in told["missing"]
