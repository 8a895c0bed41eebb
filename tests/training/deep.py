"""Deep networks, whose values between the passes are most of what a step needs."""

from __future__ import annotations

import numpy as np

from tests.training.networks import Network, floats

LAYERS = 32
WIDTH = 8


def mlp(layers: int = LAYERS, width: int = WIDTH, rows: int = 1024) -> Network:
    """Layers that are all alike: a product, a bias and a tanh."""
    shapes: dict[str, tuple[int, ...]] = {}
    text, given = "", "x"
    for k in range(layers):
        text += f"p{k} = Gemm <transB = 1> ({given}, w{k}, b{k}) h{k} = Tanh (p{k}) "
        shapes |= {f"w{k}": (width, width), f"b{k}": (width,)}
        given = f"h{k}"
    return Network(
        f"mlp (float[N,{width}] x) => (float[N,{width}] y) {{ {text} y = Identity ({given}) }}",
        shapes,
        "MSELoss",
        lambda random: (floats(random, rows, width), floats(random, rows, width)),
    )


def cnn(layers: int = 6, channels: int = 4, side: int = 12) -> Network:
    """Convolutions with their normalizations, and a way round every second one."""
    shapes: dict[str, tuple[int, ...]] = {}
    text, given, before = "", "x", "x"
    statistics: list[str] = []
    for k in range(layers):
        made = f"(c{k}, bn{k}_scale, bn{k}_bias, bn{k}_mean, bn{k}_var)"
        text += f"c{k} = Conv <pads = [1,1,1,1]> ({given}, conv{k}) r{k} = Relu (n{k}) "
        text = text.replace(f"r{k} =", f"n{k}, m{k}, v{k} = BatchNormalization <training_mode = 1> {made} r{k} =")
        shapes[f"conv{k}"] = (channels, channels, 3, 3)
        shapes |= {f"bn{k}_{name}": (channels,) for name in ("scale", "bias", "mean", "var")}
        statistics += [f"bn{k}_mean", f"bn{k}_var"]
        given = f"r{k}"
        if k % 2:
            text += f"h{k} = Add ({before}, r{k}) "
            given = before = f"h{k}"
    return Network(
        f"cnn (float[N,{channels},{side},{side}] x) => (float[N,{channels}] y) "
        f"{{ {text} g = GlobalAveragePool ({given}) y = Flatten (g) }}",
        shapes,
        "MSELoss",
        lambda random: (floats(random, 6, channels, side, side), floats(random, 6, channels)),
        tuple(statistics),
    )


def transformer(layers: int = 3, width: int = 16, words: int = 12) -> Network:
    """Attention of two heads and a wide layer, each beside a way round and behind a Dropout, which draws."""
    shapes: dict[str, tuple[int, ...]] = {}
    text, given = "", "x"
    for k in range(layers):
        split = "".join(f"{each}{k} = Transpose <perm = [0,2,1,3]> ({each}r{k}) " for each in "qv")
        text += (
            f"n{k} = LayerNormalization <axis = -1> ({given}, ln{k}_scale, ln{k}_bias) "
            + "".join(f"{each}p{k} = MatMul (n{k}, w{each}{k}) " for each in "qkv")
            + "".join(f"{each}r{k} = Reshape ({each}p{k}, heads) " for each in "qkv")
            + f"{split} k{k} = Transpose <perm = [0,2,3,1]> (kr{k}) s{k} = MatMul (q{k}, k{k}) "
            f"a{k} = Softmax <axis = -1> (s{k}) o{k} = MatMul (a{k}, v{k}) t{k} = Transpose <perm = [0,2,1,3]> (o{k}) "
            f"j{k} = Reshape (t{k}, joined) d{k} = Dropout (j{k}, share, on) z{k} = Add ({given}, d{k}) "
            f"f{k} = MatMul (z{k}, wide{k}) g{k} = Sigmoid (f{k}) e{k} = Mul (f{k}, g{k}) "
            f"u{k} = MatMul (e{k}, thin{k}) h{k} = Add (z{k}, u{k}) "
        )
        shapes |= {f"ln{k}_scale": (width,), f"ln{k}_bias": (width,)}
        shapes |= {f"w{each}{k}": (width, width) for each in "qkv"}
        shapes |= {f"wide{k}": (width, 4 * width), f"thin{k}": (4 * width, width)}
        given = f"h{k}"
    return Network(
        f"transformer (float[N,{words},{width}] x) => (float[N,{width}] y) <int64[4] heads = {{0, {words}, 2, -1}}, "
        f"int64[3] joined = {{0, {words}, {width}}}, float share = {{0.25}}, bool on = {{1}}> "
        f"{{ {text} y = ReduceMean <axes = [1], keepdims = 0> ({given}) }}",
        shapes,
        "MSELoss",
        lambda random: (floats(random, 8, words, width), floats(random, 8, width)),
    )


def parts(layers: int = 8, width: int = 8, rows: int = 256) -> Network:
    """Layers that put what they make of a part beside that part, where it lies."""
    shapes: dict[str, tuple[int, ...]] = {}
    text, given = "", "x"
    for k in range(layers):
        text += (
            f"a{k} = Tanh ({given}) s{k} = ReduceSum <keepdims = 1> (a{k}, last) b{k} = Sub (a{k}, s{k}) "
            f"c{k} = Concat <axis = 0> (a{k}, b{k}) e{k} = Sin (c{k}) p{k} = MatMul (w{k}, e{k}) "
        )
        shapes[f"w{k}"] = (width, 2 * width)
        given = f"p{k}"
    return Network(
        f"parts (float[{width},{rows}] x) => (float[{width},{rows}] y) <int64[1] last = {{-1}}> "
        f"{{ {text} y = Identity ({given}) }}",
        shapes,
        "MSELoss",
        lambda random: (floats(random, width, rows), floats(random, width, rows)),
    )


NETWORKS = {"mlp": mlp(), "cnn": cnn(), "transformer": transformer(), "parts": parts()}


def gradients_of_the_mlp(
    parameters: dict[str, np.ndarray], x: np.ndarray, target: np.ndarray, layers: int = LAYERS
) -> dict[str, np.ndarray]:
    """Those of the mean square of `mlp`'s error, in float64."""
    wide = {name: array.astype(np.float64) for name, array in parameters.items()}
    values = [x.astype(np.float64)]
    for k in range(layers):
        values.append(np.tanh(values[-1] @ wide[f"w{k}"].T + wide[f"b{k}"]))
    found: dict[str, np.ndarray] = {}
    own = 2 * (values[-1] - target) / target.size
    for k in reversed(range(layers)):
        own = own * (1 - values[k + 1] ** 2)
        found |= {f"w{k}": own.T @ values[k], f"b{k}": own.sum(0)}
        own = own @ wide[f"w{k}"]
    return found
