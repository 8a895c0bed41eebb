"""Weights for the topologies in `onnx/backend/test/data/light`, which generate each weight as a constant.

Equal weights would hide a wrong layout: every permutation of them gives the same result.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper


def randomize(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """Replace every `ConstantOfShape` over an initializer by a seeded random initializer, and return the model.

    Matrices and filters are normal with variance 2 / fan-in (He et al. 2015), so that activations keep their scale.
    """
    rng = np.random.default_rng(seed)
    graph = model.graph
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    roles = {name: (node.op_type, index) for node in reversed(graph.node) for index, name in enumerate(node.input)}
    kept = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        name, shape = node.output[0], tuple(shapes[node.input[0]].tolist())
        if roles.get(name) in {("BatchNormalization", 1), ("BatchNormalization", 4)}:  # scale, variance
            weight = rng.uniform(0.8, 1.2, shape)
        elif len(shape) > 1:
            weight = rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape)
        else:
            weight = rng.normal(0, 0.1, shape)
        graph.initializer.append(numpy_helper.from_array(weight.astype(np.float32), name))
    del graph.node[:]
    graph.node.extend(kept)
    return model
