"""Decoders that lie in several files, one behind the other, as one model: `pipeline` in `genai_config.json`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sardonyx.errors import InvalidValue, NotImplemented
from sardonyx.model.ir import Graph, Model, Value
from sardonyx.passes.copy import copy_graph

BY_TURNS = ("run_on_prompt", "run_on_token_gen")
"""Settings of a stage that runs for prompts alone, or for other tokens alone, where they are false."""


def filenames(pipeline: Any) -> list[str]:
    """The files of the stages, in their order. NotImplemented names a stage that does not run each time."""
    return [str(settings["filename"]) for _, settings in _stages(pipeline)]


def _stages(pipeline: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    parts: Sequence[Mapping[str, Any]] = pipeline if isinstance(pipeline, list) else [pipeline]
    for name, settings in (item for part in parts for item in part.items()):
        if "filename" not in settings:
            raise InvalidValue(f"stage {name!r} of the pipeline has no filename")
        if off := [each for each in BY_TURNS if settings.get(each) is False]:
            raise NotImplemented(
                f"stage {name!r} of the pipeline has {off[0]} = false; all stages run for each token here"
            )
        if settings.get("output_names_forwarder"):
            raise NotImplemented(f"stage {name!r} of the pipeline has an output_names_forwarder; name its outputs so")
        yield name, settings


def joined(stages: Sequence[Model]) -> Model:
    """One model of several: inputs are outputs of earlier ones of the same name, where there are any.

    What no later one takes are the outputs.
    """
    whole = Model(Graph(name="pipeline"), ir_version=max(each.ir_version for each in stages))
    known: dict[str, Value] = {}
    results: dict[str, Value] = {}
    for stage in stages:
        for domain, version in stage.opset_imports.items():
            if whole.opset_imports.setdefault(domain, version) != version:
                raise NotImplemented(
                    f"stages of the pipeline are of operator sets {whole.opset_imports[domain]} and {version}; "
                    "convert them to the same one"
                )
        fixed = {*stage.graph.initializers}
        given = [value for value in stage.graph.inputs if value not in fixed]
        copy = copy_graph(stage.graph, {value: known[value.name] for value in given if value.name in known})
        for value in given:
            results.pop(value.name, None)
        graph = whole.graph
        graph.inputs += [value for value in copy.inputs if known.get(value.name) is not value]
        graph.nodes += copy.nodes
        graph.initializers += copy.initializers
        graph.sparse_initializers += copy.sparse_initializers
        whole.functions.update(stage.functions)
        results |= {value.name: value for value in copy.outputs}
        known |= {value.name: value for value in (*copy.inputs, *copy.outputs)}
    whole.graph.outputs = [*results.values()]
    return whole
