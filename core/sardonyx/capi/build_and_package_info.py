"""The package's name and the release of onnxruntime whose interface it has."""

from sardonyx.compat import NAME, VERSION

package_name = NAME
__version__ = VERSION
