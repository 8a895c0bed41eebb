"""Models as text, in the manner of ONNX's text form: to read, to compare, and to write tests in one line.

    <ir_version: 10, opset_import: ["" : 21]>
    main (float32[N,4] x) => (float32[N,2] y) {
      float32[4,2] w = {0.5, -1.0, 0.0, 2.0, 1.0, 1.0, 3.0, 0.25}
      h = MatMul(x, w)
      y = LeakyRelu <alpha = 0.1> (h)
    }

What `onnx.parser` reads is read too, with two exceptions: elements of float16 are numbers here, not their bits, and a
backslash in a string starts one of JSON's escapes. Beyond that, initializers and types may stand among the nodes, types
go by NumPy's names as well, attributes may stand among the inputs (`Softmax(x, axis=1)`), and names may have
`/ . : @ -`.
"""

from sardonyx.model.ir.text.parser import parse_graph, parse_model
from sardonyx.model.ir.text.printer import format_graph, format_model
from sardonyx.model.ir.text.types import format_type

__all__ = ["format_graph", "format_model", "format_type", "parse_graph", "parse_model"]
