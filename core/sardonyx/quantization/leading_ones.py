"""The shape that MatMul gives where a weight had leading sizes of 1, after a product by the weight without them."""

from __future__ import annotations

import numpy as np

from sardonyx.common import dtypes
from sardonyx.model.ir import Graph, Node, Tensor, TensorType, Value
from sardonyx.model.ir.build import node as new_node


def restore_shape(node: Node, product: Node, shape: tuple[int, ...], home: Graph, prefix: str) -> list[Node]:
    """Nodes after the product that give `node`'s outputs, its weight having had this shape.

    None are needed where the other operand has the weight's rank or more; then the product takes the outputs over.
    Else the shape is ones, as many as the weight has dimensions more, the other operand's own, and N; `home` is the
    graph that gets the constants.
    """
    operand = node.inputs[0]
    rank = None if operand is None or operand.shape is None or operand.constant is not None else len(operand.shape)
    if len(shape) == 2 or (rank is not None and rank >= len(shape)):
        product.outputs = node.outputs
        product.outputs[0].producer = product
        return []
    output = node.outputs[0]
    product.outputs[0].name = f"{output.name}_pre_reshape"
    stem = f"{prefix}_{output.name}"
    nodes: list[Node] = []

    def number(value: int | list[int], name: str) -> Value:
        array = np.array(value, np.int64)
        made = Value(f"{stem}_{name}", TensorType(dtypes.int64, array.shape))
        made.constant = Tensor.of(array, dtypes.int64, made.name)
        home.initializers.append(made)
        return made

    def call(op_type: str, inputs: list[Value | None], output: str, name: str, **attributes: object) -> Value:
        nodes.append(new_node(op_type, inputs, [f"{stem}_{output}"], attributes, name=f"{stem}_{name}"))
        return nodes[-1].outputs[0]

    zero, one, two = number(0, "zero"), number(1, "one"), number(2, "two")
    one_vec, weight_rank = number([1], "one_vec"), number(len(shape), "rank_b")
    columns, zero_vec = number([shape[-1]], "n_vec"), number([0], "zero_vec")
    sizes = call("Shape", [operand], "a_shape", "shape_a")
    sizes_shape = call("Shape", [sizes], "a_shape_of_shape", "shape_of_a_shape")
    operand_rank = call("Gather", [sizes_shape, zero], "a_rank", "gather_rank")
    matrix_rank = call("Max", [operand_rank, two], "a_rank_eff", "max_rank_eff")  # MatMul makes a row of a vector
    difference = call("Sub", [weight_rank, matrix_rank], "extra_raw", "sub")
    count = call("Max", [difference, zero], "extra_count", "max")
    counts = call("Reshape", [count, one_vec], "extra_count_vec", "reshape_extra")
    value = Tensor.of(np.array([1], np.int64), dtypes.int64, f"{stem}_one_value")
    ones = call("ConstantOfShape", [counts], "extra_ones", "const_ones", value=value)
    last = call("Sub", [operand_rank, one], "a_rank_m1", "sub_one")
    ends = call("Reshape", [last, one_vec], "a_rank_m1_vec", "reshape_rank_m1")
    front = call("Slice", [sizes, zero_vec, ends, zero_vec], "a_prefix_shape", "slice_a_prefix")
    target = call("Concat", [ones, front, columns], "target_shape", "concat_target", axis=0)
    reshape = new_node("Reshape", [product.outputs[0], target], [""], name=f"{stem}_reshape_out")
    reshape.outputs = node.outputs
    output.producer = reshape
    return [*nodes, reshape]
