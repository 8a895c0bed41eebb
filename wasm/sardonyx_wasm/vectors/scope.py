"""Where the vectors of one function are written."""

from __future__ import annotations

from sardonyx.code.approximation import Approximation, Beyond

from ..assembler import Callee, Expr, Function, Variable
from ..code import Unit
from ..scalars.values import Literal
from .lanes import Constant
from .lanewise import is_fused, write_beyond, write_vector


class FunctionScope:
    """The `VectorScope` of one function of a module."""

    predictable = False

    def __init__(self, unit: Unit, f: Function) -> None:
        self.unit = unit
        self.f = f
        self.fused = is_fused(unit.features)
        self.select, self.if_expr, self.helper, self.written = f.select, f.if_expr, unit.helper, unit.written
        self._constants: dict[tuple[str, bytes], Constant] = {}
        self._tables: dict[bytes, Variable] = {}

    def let(self, value: Expr) -> Expr:
        """The value, evaluated once; variables and constants are that anyway."""
        return value if isinstance(value, (Variable, Literal, Constant)) else self.f.let(value)

    def constant(self, value: Constant) -> Constant:
        """The constant, in a local that was set at the function's start."""
        if value.is_local:
            return value
        key = value.type.name, value.code
        if key not in self._constants:
            self._constants[key] = Constant(value.type, value.number, self.f.constant(value))
        return self._constants[key]

    def table(self, value: Expr) -> Expr:
        """The constant v128, in a local that was set at the function's start."""
        if value.code not in self._tables:
            self._tables[value.code] = self.f.constant(value)
        return self._tables[value.code]

    def written_vector(self, function: Approximation) -> Callee:
        unit = self.unit
        far = self.written_beyond(function.beyond) if function.beyond else None
        return unit.once("written vector", function.name, lambda: write_vector(unit, function, far))  # type: ignore[no-any-return]

    def written_beyond(self, beyond: Beyond) -> Callee:
        unit = self.unit
        return unit.once("written beyond", beyond.function.name, lambda: write_beyond(unit, beyond))  # type: ignore[no-any-return]
