"""From a model as it was read to the one that is compiled."""

import pkgutil
from importlib import import_module

import numpy as np
import pytest

from sardonyx import passes
from sardonyx.api.options import SessionOptions
from sardonyx.model.ir.checker import check as check_model
from sardonyx.model.ir.compare import difference
from sardonyx.model.ir.model import Model
from sardonyx.model.ir.text import parse_model
from sardonyx.passes.levels import GraphOptimizationLevel as Level
from sardonyx.passes.names import OPTIMIZERS
from sardonyx.passes.optimize import FAMILIES, INTEGERS, names, rules_of
from sardonyx.passes.pipeline import prepare
from sardonyx.passes.rule import Rule
from tests.passes.checking import run

TEXT = """<ir_version: {ir}, opset_import: ["" : 11]>
main (float32[1,1,4] x, float32[1,1,2] w = {{1, 2}}) => (y) {{
  float32[1] b = {{3}}
  i = Identity(b)
  h = Conv(x, w, i)
  r = Relu(h)
  a = Squeeze<axes = [0, 1]>(r)
  bool c = 1
  y = If(c) <then_branch = t () => (p) {{ p = Exp(a) }}, else_branch = e () => (q) {{ q = Neg(a) }}>
}}"""


def model(ir: int = 10) -> Model:
    return parse_model(TEXT.format(ir=ir))


def prepared(given: Model, level: Level, *disabled: str) -> Model:
    result = prepare(given, SessionOptions(graph_optimization_level=level), disabled)
    check_model(result)
    return result


def operators(given: Model) -> list[str]:
    return [node.op_type for node in given.graph.all_nodes()]


def test_each_level_adds_to_the_one_below():
    everything = ["Identity", "Conv", "Relu", "Squeeze", "If", "Exp", "Neg"]
    assert operators(prepared(model(3), Level.ORT_DISABLE_ALL)) == everything
    assert operators(prepared(model(3), Level.ORT_ENABLE_BASIC)) == ["Conv", "Relu", "Squeeze", "Exp"]
    for level in (Level.ORT_ENABLE_EXTENDED, Level.ORT_ENABLE_LAYOUT, Level.ORT_ENABLE_ALL):
        result = prepared(model(3), level)
        assert operators(result) == ["FusedConv", "Squeeze", "Exp"]
        assert result.opset_imports["com.microsoft"] == 1


@pytest.mark.parametrize("level", Level)
def test_the_given_model_stays_as_it_is(level):
    given = model(3)
    result = prepared(given, level)
    assert difference(given, model(3)) == ""
    assert next(v.constant for v in result.graph.initializers if v.name == "w") is given.graph.inputs[1].constant


def test_an_initializer_can_be_fed_from_ir_version_4_on():
    assert [value.name for value in prepared(model(3), Level.ORT_ENABLE_ALL).graph.inputs] == ["x"]
    given = prepared(model(4), Level.ORT_ENABLE_ALL)
    assert [value.name for value in given.graph.inputs] == ["x", "w"]
    arrays = [np.ones((1, 1, 4), np.float32), np.array([[[1, 1]]], np.float32)]
    np.testing.assert_allclose(run(given.graph, arrays)[0], np.exp([5, 5, 5]), rtol=1e-6)


def test_rules_are_switched_off_by_name():
    assert "Relu" in operators(prepared(model(3), Level.ORT_ENABLE_ALL, "conv_activation"))
    options = SessionOptions()
    options.add_session_config_entry("optimization.disable_specified_optimizers", "conv_activation;if_of_constant")
    assert {"Relu", "If"} <= set(operators(prepare(model(3), options)))


def test_optimizers_are_switched_off_by_onnxruntimes_names():
    assert "Relu" in operators(prepared(model(3), Level.ORT_ENABLE_ALL, "ConvActivationFusion"))
    assert "Identity" in operators(prepared(model(3), Level.ORT_ENABLE_ALL, "EliminateIdentity", "ConstantFolding"))
    assert operators(prepared(model(3), Level.ORT_ENABLE_ALL, "NchwcTransformer")) == ["FusedConv", "Squeeze", "Exp"]


def test_optimizers_stand_for_rules_that_there_are():
    assert {name for each in OPTIMIZERS.values() for name in each} <= names()


def test_an_unknown_name_is_warned_of_once():
    with pytest.warns(UserWarning, match="no optimizer is called 'ConvRelu'; the rules are .*conv_activation"):
        prepared(model(3), Level.ORT_ENABLE_ALL, "ConvRelu")
    prepared(model(3), Level.ORT_ENABLE_ALL, "ConvRelu")


def test_functions_are_inlined_and_sparse_constants_become_dense():
    given = parse_model(
        """<ir_version: 10, opset_import: ["" : 21, "l" : 1]>
        main (float32[4] x) => (y) {
          sparse_tensor(float32[4]) z = float32[1] {2} @ int64[1] {1}
          h = Add(x, z)  y = l.twice(h)
        }
        <domain: "l", opset_import: ["" : 21]> twice (x) => (y) { y = Add(x, x) }"""
    )
    for level in Level:
        result = prepared(given, level)
        assert run(result.graph, [np.ones(4, np.float32)])[0].tolist() == [2, 6, 2, 2]
    assert operators(result) == ["Add", "Add"]


def test_the_names_of_rules_differ():
    rules = [rule.name for level in FAMILIES for rule in rules_of(level)]
    assert len(set(rules)) == len(rules)


def test_families_that_a_graph_does_not_need_are_left_out():
    families = [family for level in FAMILIES.values() for family in level if family.needs]
    assert len(families) == 3
    for family in families:
        (level,) = (level for level, listed in FAMILIES.items() if family in listed)
        others = {rule.name for rule in rules_of(level)} - {rule.name for rule in family.rules()}
        assert others >= {rule.name for rule in rules_of(level, {"Conv"})}
        for needed in family.needs:
            assert {rule.name for rule in rules_of(level, {needed})} >= {rule.name for rule in family.rules()}
    for family in families:
        for pattern in (pattern for rule in family.rules() for pattern in rule.patterns):
            assert pattern.op_type in ("MatMul", *family.needs)
    assert (INTEGERS.module, INTEGERS.needs) == ("quantization", {"QuantizeLinear"})


def test_every_rule_is_listed():
    modules = [import_module(f"{passes.__name__}.{module.name}") for module in pkgutil.iter_modules(passes.__path__)]
    made = {rule.name for module in modules for rule in vars(module).values() if isinstance(rule, Rule)}
    assert made <= names(), "add it to the list RULES of its file"
