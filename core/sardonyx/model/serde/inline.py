"""Model-local functions: every call replaced by the function's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sardonyx import errors
from sardonyx.common.record import record, replace
from sardonyx.errors import InvalidGraph
from sardonyx.model.ir.model import Attribute, Function, FunctionKey, Graph, Model, Node, Value

Lift = Callable[[Graph, Node, Mapping[str, int]], Iterable[Node]]
"""What stands in the newest operator sets for a node of others; new constants become initializers of the graph."""


def inline_functions(
    model: Model, limit: int = 100_000, lift: Lift | None = None, newest: Mapping[str, int] | None = None
) -> Model:
    """A model that calls no functions of its own: the given one where it has none, else a copy that shares its tensors.

    What comes from a function is named after the call. Where a function is written for another version of an operator
    set than the model, `lift` takes all nodes to the `newest` versions. InvalidGraph names the chain of calls where a
    function calls itself, or where more than `limit` nodes would arise; NotImplemented where versions differ and
    cannot be lifted.
    """
    if not model.functions:
        return model
    _check_size(model, limit)
    versions = newest or {}
    inliner = _Inliner(model)
    if lift and any(
        version != model.opset_imports.get(domain, version) and domain in versions
        for function in model.functions.values()
        for domain, version in function.opset_imports.items()
    ):
        inliner.lift, inliner.newest = lift, versions
    return inliner.run()


def _check_size(model: Model, limit: int) -> None:
    """Raises InvalidGraph where a function calls itself, or inlining makes more than `limit` nodes of functions."""
    sizes: dict[FunctionKey, int] = {}

    def calls(graph: Graph) -> dict[FunctionKey, int]:
        """The functions that a graph calls, with the nodes that they become in all, no more than are needed."""
        found: dict[FunctionKey, int] = {}
        for node in graph.all_nodes():
            if size := sizes.get(node.function_key):
                found[node.function_key] = found.get(node.function_key, 0) + size
        return found

    from sardonyx.model.ir.checker import called_first  # which few models need

    for key in called_first(model.functions):
        graph = model.functions[key].graph
        sizes[key] = min(sum(1 for _ in graph.all_nodes()) + sum(calls(graph).values()), limit + 1)
    chain, called = [], calls(model.graph)
    while sum(called.values()) > limit:
        largest = max(called, key=called.__getitem__)
        chain.append(model.functions[largest].name)
        called = calls(model.functions[largest].graph)
    if chain:
        raise InvalidGraph(f"inlining {' -> '.join(chain)} makes more than {limit:,} nodes")


@record
class _Expansion:
    """A graph or function whose nodes are copied into `target`. `values` maps its Values to their copies.

    In a function, `attributes` are those of the call. When all nodes are copied, `results` pairs the outputs of the
    function with those of the call.
    """

    nodes: Iterator[Node]
    target: list[Node]
    values: dict[Value, Value | None]
    function: Function | None
    attributes: dict[str, Attribute]
    prefix: str
    graph: tuple[Graph, Graph] | None = None
    results: Sequence[tuple[Value, Value]] = ()


class _Inliner:
    def __init__(self, model: Model) -> None:
        self.model = model
        self.imports = dict(model.opset_imports)
        self.domains: set[str] = set()
        self.counts: dict[str, int] = {}
        self.taken = {value.name for node in model.graph.all_nodes() for value in node.outputs}
        self.taken |= {value.name for value in (*model.graph.inputs, *model.graph.initializers)}
        self.frames: list[_Expansion] = []
        self.lift: Lift | None = None
        self.newest: Mapping[str, int] = {}

    def run(self) -> Model:
        self.graph = graph = self.open(self.model.graph, {}, None, {}, "")
        while self.frames:
            frame = self.frames[-1]
            node = next(frame.nodes, None)
            if node is None:
                self.close(self.frames.pop())
            else:
                self.node(node, frame)
        own = {domain for domain, _, _ in self.model.functions} - self.domains
        imports = {domain: version for domain, version in self.imports.items() if domain not in own}
        imports |= {domain: version for domain, version in self.newest.items() if domain in imports}
        return replace(self.model, graph=graph, opset_imports=imports, functions={})

    def open(
        self,
        graph: Graph,
        values: dict[Value, Value | None],
        function: Function | None,
        attributes: dict[str, Attribute],
        prefix: str,
    ) -> Graph:
        """An empty copy of a graph, whose nodes follow."""
        copy = replace(graph, nodes=[])
        frame = _Expansion(iter(graph.nodes), copy.nodes, values, function, attributes, prefix, (graph, copy))
        copy.inputs = [self.define(value, frame) for value in graph.inputs]
        copy.initializers = [self.define(value, frame) for value in graph.initializers]
        copy.sparse_initializers = [(self.define(value, frame), data) for value, data in graph.sparse_initializers]
        self.frames.append(frame)
        return copy

    def close(self, frame: _Expansion) -> None:
        if frame.graph:
            graph, copy = frame.graph
            copy.outputs = [frame.values.get(value) or value for value in graph.outputs]
        for result, wanted in frame.results:
            value = frame.values.get(result)
            if value is not wanted and wanted.name:  # an output that is an input, or the same as another output
                frame.target.append(Node("Identity", [value], [wanted]))
                self.domains.add("")

    def define(self, value: Value, frame: _Expansion) -> Value:
        """The copy of a Value that is defined here."""
        copy = frame.values.get(value)
        if copy is None:
            name = self.fresh(frame.prefix + value.name) if frame.prefix and value.name else value.name
            copy = replace(value, name=name, producer=None)
            frame.values[value] = copy
        return copy

    def fresh(self, name: str) -> str:
        candidate = name
        while candidate in self.taken:
            self.counts[name] = self.counts.get(name, 0) + 1
            candidate = f"{name}_{self.counts[name]}"
        self.taken.add(candidate)
        return candidate

    def node(self, node: Node, frame: _Expansion) -> None:
        inputs = [None if value is None else frame.values.get(value, value) for value in node.inputs]
        outputs = [self.define(value, frame) for value in node.outputs]
        attributes = {name: bound for name, each in node.attributes.items() if (bound := _bind(each, frame))}
        name = frame.prefix + node.name if node.name else ""
        copy = replace(node, inputs=inputs, outputs=outputs, attributes=attributes, name=name)
        function = self.model.functions.get(node.function_key)
        if function is not None:
            self.call(copy, function, frame)
            return
        self.require(node.domain, frame.function)
        opened = len(self.frames)
        for each in self.lifted(copy, frame.function):
            frame.target.append(each)
            for attribute in each.attributes.values():
                scope = (frame.values, frame.function, frame.attributes, frame.prefix)
                if attribute.kind == "graph":
                    attribute.value = self.open(attribute.value, *scope)
                elif attribute.kind == "graphs":
                    attribute.value = [self.open(graph, *scope) for graph in attribute.value]
        self.frames[opened:] = reversed(self.frames[opened:])  # the first to be filled lies on top

    def lifted(self, node: Node, function: Function | None) -> Iterable[Node]:
        if not self.lift:
            return [node]
        return self.lift(self.graph, node, self.model.opset_imports | (function.opset_imports if function else {}))

    def call(self, call: Node, function: Function, frame: _Expansion) -> None:
        parameters, outputs = function.graph.inputs, function.graph.outputs
        if len(call.inputs) > len(parameters) or len(call.outputs) > len(outputs):
            raise InvalidGraph(
                f"{call.label}: {len(call.inputs)} inputs and {len(call.outputs)} outputs, "
                f"where function '{function.name}' has {len(parameters)} and {len(outputs)}"
            )
        if any(attribute.kind in ("graph", "graphs") for attribute in call.attributes.values()):
            raise errors.NotImplemented(f"{call.label}: a function that is given a graph cannot be inlined")
        values = dict.fromkeys(parameters) | dict(zip(parameters, call.inputs))
        results = list(zip(outputs, call.outputs))
        for result, wanted in results:
            if wanted.name:
                values.setdefault(result, wanted)
                wanted.type = wanted.type or result.type
        name = call.name if call.name and len(call.name) < 100 else f"{frame.prefix[:100]}{call.op_type}"
        self.frames.append(
            _Expansion(
                iter(function.graph.nodes),
                frame.target,
                values,
                function,
                function.defaults | call.attributes,
                f"{self.fresh(name)}/",
                results=results,
            )
        )

    def require(self, domain: str, function: Function | None) -> None:
        """Imports what a node needs; a function's version must be the model's where nodes are not lifted."""
        self.domains.add(domain)
        if function is None or domain not in function.opset_imports:
            return
        if domain in self.newest:
            self.imports.setdefault(domain, self.newest[domain])
            return
        wanted = function.opset_imports[domain]
        if self.imports.setdefault(domain, wanted) != wanted:
            raise errors.NotImplemented(
                f"function '{function.name}' is written for {domain or 'ai.onnx'} {wanted}, "
                f"the model for {self.imports[domain]}; convert one of them"
            )


def _bind(attribute: Attribute, frame: _Expansion) -> Attribute | None:
    """A copy of an attribute, or what the call gives for the one that it refers to; None where it gives nothing."""
    if not attribute.reference or frame.function is None:
        return replace(attribute)
    bound = frame.attributes.get(attribute.reference)
    return bound and replace(bound, name=attribute.name)
