"""Python functions as operators: their parameters are inputs, those that only come by keyword are attributes."""

from __future__ import annotations

import inspect
import types as python
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_origin

from sardonyx import ops
from sardonyx.host import host_function
from sardonyx.model.ir import Graph, Tensor
from sardonyx.ops.custom.results import Infer, arrays_for, parsed, results_of, stored
from sardonyx.ops.operator import KINDS, Operator
from sardonyx.primitives.array import Array
from sardonyx.primitives.host_call import host as call_host
from sardonyx.primitives.shader import shader_map

F = TypeVar("F", bound=Callable[..., Any])

_LISTS = {"list": "tuple", "Sequence": "tuple"}


def custom_op(
    domain: str,
    name: str = "",
    *,
    host: bool = False,
    types: Sequence[str] | None = None,
    infer: Infer | None = None,
    pure: bool = True,
    wgsl: str | None = None,
) -> Callable[[F], F]:
    """Have a function be the operator of this domain and name, its own if none is given; an earlier one is replaced.

    Positional parameters are inputs, those with a default may be left out (None); keyword-only ones are attributes
    with their defaults. The function takes `primitives.Array`s and gives one or several.

    With `host` it takes and gives NumPy arrays. What it gives is told by `types`, such as `["float32[?,3]"]`, or by
    `infer(*arrays, **attributes)`, which gives a pair of dtype and shape for each result, None for sizes that only the
    run tells. Without either it is called once for that while a plan is made, on zeros where elements are not known
    yet. If it is not `pure`, it is called in each run even for constants.

    A function of the host that goes element by element may come with `wgsl`, by which GPUs compute the same: an
    expression, or statements that end with `return`, over parameters of the same names, of types f32, i32, u32 and
    bool. Inputs broadcast; the result has the type of the first one, if `types` or `infer` do not tell another.

    >>> import numpy as np
    >>> @custom_op("doc.example", "Snap", host=True, infer=lambda x, **_: (x.dtype, x.shape))
    ... def snap(x, *, step: float = 1.0):
    ...     return np.round(x / step) * step
    """

    def decorate(function: F) -> F:
        own = name or function.__name__
        if not host:
            if types is not None or infer is not None or wgsl is not None:
                raise TypeError(f"{own}: types, infer and wgsl are for host=True; primitives know what they give")
            expand: Callable[..., Any] = lambda operator, inputs, attributes: function(*inputs, **attributes)  # noqa: E731
        else:
            if wgsl is not None:
                _check_wgsl(own, function, pure)
            expand = host_expand(f"custom.{domain}.{own}", function, types, infer, pure, wgsl)
        declare(domain, own, function, expand, pure)
        return function

    return decorate


def _check_wgsl(name: str, function: Callable[..., Any], pure: bool) -> None:
    """Raises TypeError where a function cannot come with WGSL."""
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    positional = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    if not pure or inspect.Parameter.VAR_POSITIONAL in kinds or not any(kind in positional for kind in kinds):
        raise TypeError(f"{name}: what comes with wgsl is pure, and has inputs with names")


def declare(
    domain: str, name: str, function: Callable[..., Any], expand: Callable[..., Any], pure: bool = True
) -> None:
    """Register the operator whose inputs and attributes are a function's parameters.

    Raises TypeError for a parameter `**name`, and for an attribute of a type that ONNX does not have.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        raise TypeError(f"{name}: attributes are named one by one, not **{parameters[-1].name}")
    inputs = [each for each in parameters if each.kind is not each.KEYWORD_ONLY]
    attributes = {each.name: each for each in parameters if each.kind is each.KEYWORD_ONLY}

    def expand_node(self: Operator, *operands: Array | None) -> Any:
        return expand(self, operands, {each: _held(getattr(self, each)) for each in attributes})

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    expand_node.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [own, *(each.replace(kind=_positional(each)) for each in inputs)]
    )
    body = {
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__annotations__": {each: _kind(name, parameter) for each, parameter in attributes.items()},
        "expand": expand_node,
        "pure": pure,
        **{key: each.default for key, each in attributes.items() if each.default is not each.empty},
    }
    ops.find(domain, name)  # the operator that is replaced does not come later
    python.new_class(
        name,
        (Operator,),
        {"domain": "" if domain == "ai.onnx" else domain, "name": name},
        lambda space: space.update(body),
    )


def _positional(parameter: inspect.Parameter) -> Any:
    return parameter.kind if parameter.kind is parameter.VAR_POSITIONAL else parameter.POSITIONAL_ONLY


def _kind(operator: str, parameter: inspect.Parameter) -> str:
    """The annotation of an attribute as operators have it; what is not annotated has the type of its default."""
    hint, default = parameter.annotation, parameter.default
    if hint is parameter.empty:
        if default is None or default is parameter.empty:
            return "Any"
        element = f"[{type(default[0]).__name__}, ...]" if isinstance(default, (tuple, list)) and default else ""
        text = f"{type(default).__name__}{element}"
    else:
        text = hint if isinstance(hint, str) else hint.__name__ if get_origin(hint) is None else str(hint)
    text = text.removesuffix(" | None")
    head, bracket, rest = text.partition("[")
    if head.rpartition(".")[2] in _LISTS:
        text = f"tuple[{rest.removesuffix(']')}, ...]" if bracket else "tuple"
    text = {"bool": "int"}.get(text, text)
    if text not in (*KINDS, "Any", "tuple", "ndarray", "np.ndarray"):
        raise TypeError(f"{operator}: attribute {parameter.name!r} is {text}; ONNX has {', '.join(KINDS)}")
    return text


def _held(value: Any) -> Any:
    """What an attribute is for the function: tensors are arrays."""
    return value.array() if isinstance(value, Tensor) else value


def host_expand(
    key: str,
    function: Callable[..., Any],
    types: Sequence[str] | None,
    infer: Infer | None,
    pure: bool,
    wgsl: str | None = None,
) -> Callable[..., Any]:
    """The expansion of an operator whose function takes arrays and attributes: a call of the host."""

    declared = None if types is None else [parsed(text) for text in types]

    @host_function(key, pure=pure)
    def run(*arrays: Any, present: list[bool], taken: list[str], given: list[str], attributes: dict[str, Any]) -> Any:
        named = {each: tuple(value) if isinstance(value, list) else value for each, value in attributes.items()}
        return stored(function(*arrays_for(arrays, taken, present), **named), given)

    def expand(operator: Operator, inputs: Sequence[Array | None], attributes: dict[str, Any]) -> Any:
        for each, value in attributes.items():
            if isinstance(value, Graph) or hasattr(value, "__array__"):
                raise NotImplementedError(
                    f"the attribute {each!r} cannot be given to a function of the host; use an input"
                )
        present = [x for x in inputs if x is not None]
        if wgsl is None or len(present) < len(inputs) or infer or declared:
            results = results_of(function, inputs, attributes, declared, infer)
        else:
            results = [(present[0].dtype, ())]
        arguments = {
            "present": [x is not None for x in inputs],
            "taken": [x.dtype.name for x in present],
            "given": [dtype.name for dtype, _ in results],
            "attributes": {each: list(v) if isinstance(v, tuple) else v for each, v in attributes.items()},
        }
        if wgsl is None or len(present) < len(inputs):
            return call_host(key, *present, results=results, **arguments)
        names = list(inspect.signature(function).parameters)[: len(inputs)]
        values = {each: value for each, value in attributes.items() if isinstance(value, (bool, int, float))}
        dtype = results[0][0]
        return shader_map(present, dtype, body=wgsl, names=names, values=values, function=key, attributes=arguments)

    return expand
