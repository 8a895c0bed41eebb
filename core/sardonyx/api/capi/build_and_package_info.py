"""The package's name and the release of onnxruntime whose interface it has."""

from sardonyx.version import ONNXRUNTIME

package_name = "onnxruntime"
__version__ = ONNXRUNTIME
