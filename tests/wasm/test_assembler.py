"""Functions and modules, run by wasmtime."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import wasmtime
from numpy.testing import assert_array_equal

from sardonyx_wasm.assembler import Memory, Module, f32, f32x4, f64, i32, i64, op
from tests.wasm.programs import ENGINE, Program


class TestControlFlow:
    def test_counted_loops_are_pythons_ranges(self) -> None:
        for start, stop, step in [(0, 5, 1), (0, 0, 1), (3, -3, 1), (0, 10, 4), (9, -1, -3), (-5, 5, 2), (0, 5, -1)]:
            m = Module()
            with m.function("f", {"start": i32, "stop": i32}, [i32], export=True) as f:
                i, seen = f.local(i32), f.local(i32)
                with f.loop(i, f.start, f.stop + 0, step=step):
                    f.set(seen, seen * 31 + i)
                f.return_(seen)
            expected = 0
            for value in range(start, stop, step):
                expected = expected * 31 + value
            assert Program(m).call("f", start, stop) == expected

    def test_addresses_above_two_gibibytes_loop_unsigned(self) -> None:
        m = Module()
        with m.function("f", {"start": i32, "stop": i32}, [i32], export=True) as f:
            p, turns = f.local(i32), f.local(i32)
            with f.loop(p, f.start, f.stop, step=16, unsigned=True):
                f.set(turns, turns + 1)
            f.return_(turns)
        assert Program(m).call("f", 2**31 - 32, -(2**31) + 32) == 4

    def test_nested_loops_with_break(self) -> None:
        m = Module()
        with m.function("count", {"n": i32}, [i32], export=True) as f:
            i, j, count = f.local(i32), f.local(i32), f.local(i32)
            with f.loop(i, 0, f.n) as outer, f.loop(j, 0, f.n) as inner:
                f.br_if(inner, j > i)
                f.br_if(outer, count == 20)
                f.set(count, count + 1)
            f.return_(count)
        assert [Program(m).call("count", n) for n in (0, 1, 4, 100)] == [0, 1, 10, 20]

    def test_while_if_else(self) -> None:
        m = Module()
        with m.function("collatz", {"n": i32}, [i32], export=True) as f:
            turns = f.local(i32)
            with f.while_(f.n != 1):
                with f.if_(f.n & 1):
                    f.set(f.n, 3 * f.n + 1)
                with f.else_():
                    f.set(f.n, f.n >> 1)
                f.set(turns, turns + 1)
            f.return_(turns)
        assert [Program(m).call("collatz", n) for n in (1, 2, 27)] == [0, 1, 111]

    def test_repeat_block_and_table(self) -> None:
        m = Module()
        with m.function("f", {"which": i32}, [i32], export=True) as f:
            result = f.local(i32, init=100)
            with f.block() as end:
                with f.block() as one:
                    with f.block() as zero:
                        f.br_table(f.which, [zero, one], end)
                    f.set(result, 10)
                    f.br(end)
                f.set(result, 11)
            with f.repeat() as again:
                f.set(result, result * 2)
                f.br_if(again, result < 1000)
            f.return_(result)
        assert [Program(m).call("f", k) for k in (0, 1, 2, -1)] == [1280, 1408, 1600, 1600]

    def test_if_expr_is_lazy_and_select_is_not(self) -> None:
        m = Module()
        with m.function("lazy", {"a": i32, "b": i32}, [i32], export=True) as f:
            f.return_(f.if_expr(f.b == 0, -1, i32.div_s(f.a, f.b)))
        with m.function("eager", {"a": i32, "b": i32}, [i32], export=True) as f:
            f.return_(f.select(f.b == 0, -1, i32.div_s(f.a, f.b)))
        program = Program(m)
        assert (program.call("lazy", 6, 3), program.call("lazy", 6, 0), program.call("eager", 6, 3)) == (2, -1, 2)
        with pytest.raises(wasmtime.Trap, match="divide by zero"):
            program.call("eager", 6, 0)

    def test_vectors_are_selected_whole(self) -> None:
        m = Module()
        with m.function("f", {"which": i32}, export=True) as f:
            f.store(0, f.select(f.which, f32x4.load(64), 7.0))
            f.store(16, f.if_expr(f.which, 1.5, f32x4.load(64)))
        program = Program(m)
        for which, expected in ((1, [0.0, 1.5]), (0, [7.0, 0.0])):
            program.call("f", which)
            assert_array_equal(program.memory[:32].view("f4"), np.repeat(expected, 4))

    def test_let_evaluates_once_and_tee_assigns_within(self) -> None:
        m = Module()
        with m.function("f", {}, [i32], export=True) as f:
            now, later = f.let(i32.load(0)), i32.load(0)
            x = f.local(i32)
            f.store(0, f.tee(x, i32.const(40)) + 1)
            f.return_(now * 10000 + later * 100 + x)
        assert Program(m).call("f") == 4140


class TestFunctions:
    def test_calls_recursion_and_several_results(self) -> None:
        m = Module()
        with m.function("divmod", {"a": i32, "b": i32}, [i32, i32]) as divmod_:
            divmod_.return_(i32.div_u(divmod_.a, divmod_.b), i32.rem_u(divmod_.a, divmod_.b))
        with m.function("factorial", {"n": i64}, [i64], export=True) as f:
            f.return_(f.if_expr(f.n < 2, 1, f.n * f(f.n - 1)))
        with m.function("gcd", {"a": i32, "b": i32}, [i32], export=True) as f:
            quotient, rest = f.local(i32), f.local(i32)
            with f.while_(f.b != 0):
                f.call(divmod_, f.a, f.b, into=(quotient, rest))
                f.set(f.a, f.b)
                f.set(f.b, rest)
            f.call(divmod_, 1, 1)
            f.return_(f.a)
        program = Program(m)
        assert (program.call("factorial", 20), program.call("gcd", 462, 1071)) == (math.factorial(20), 21)

    def test_imports(self) -> None:
        store, seen = wasmtime.Store(ENGINE), []
        m = Module()
        log = m.import_function("host", "log", {"x": i32, "y": f64})
        start = m.import_global("host", "start", i32)
        total = m.global_("total", i32, 5)
        with m.function("f", {"x": i32}, [i32], export=True) as f:
            f.call(log, f.x, 1.5)
            f.do(log(start, 2.5))
            f.set(total, total + f.x)
            f.return_(total)
        types = [wasmtime.ValType.i32(), wasmtime.ValType.f64()]
        logged = wasmtime.Func(store, wasmtime.FuncType(types, []), lambda x, y: seen.append((x, y)))
        given = wasmtime.Global(store, wasmtime.GlobalType(types[0], False), wasmtime.Val.i32(9))
        assert m.imports == [("host", "log"), ("host", "start")]
        program = Program(m, [logged, given], store)
        assert [program.call("f", 2), program.call("f", 2)] == [7, 9]
        assert seen == [(2, 1.5), (9, 2.5)] * 2

    def test_pointers_and_data_are_relative_to_their_bases(self) -> None:
        store = wasmtime.Store(ENGINE)
        m = Module()
        hello, numbers = m.data(b"hello"), m.data(np.arange(4, dtype="i4").tobytes(), align=32)
        late = m.segment(b"late")
        binary = m.indirect({"a": i32, "b": i32}, [i32])
        callees = []
        for name in ("add", "sub", "mul"):
            with m.function(name, {"a": i32, "b": i32}, [i32]) as f:
                f.return_(getattr(i32, name)(f.a, f.b))
            callees.append(m.pointer(f))
        with m.function("f", {}, [i32], export=True) as f:
            f.do(op("memory.init", 500, 0, 4, index=late))
            f.do(op("memory.copy", 600, hello, 5))
            f.return_(binary(binary(7, 5, callees[2]), i32.load(numbers, offset=12), callees[1]))
        i32_type = wasmtime.GlobalType(wasmtime.ValType.i32(), False)
        bases = {"__memory_base": 64, "__table_base": 3}
        imports: list[Any] = [wasmtime.Global(store, i32_type, wasmtime.Val.i32(bases[name])) for _, name in m.imports]
        table = wasmtime.TableType(wasmtime.ValType.funcref(), wasmtime.Limits(6, None))
        program = Program(m, [*imports, wasmtime.Table(store, table, None)], store)
        assert program.call("f") == 7 * 5 - 3
        assert program.memory[500:504].tobytes() == b"late"
        assert program.memory[600:605].tobytes() == program.memory[64:69].tobytes() == b"hello"
        assert (m.data_size, m.data_align) == (48, 32)

    def test_traps_name_their_function(self) -> None:
        m = Module("kernels")
        with m.function("winograd", {}, export=True) as f:
            f.trap()
        with pytest.raises(wasmtime.Trap) as caught:
            Program(m).call("winograd")
        assert (caught.value.frames[0].func_name, caught.value.frames[0].module_name) == ("winograd", "kernels")

    def test_custom_sections_are_kept(self) -> None:
        m = Module()
        m.custom("notes", b"payload")
        assert m.to_bytes().endswith(b"\x05notespayload")
        wasmtime.Module.validate(ENGINE, m.to_bytes())

    def test_one_module_for_every_kind_of_memory(self) -> None:
        m = Module()
        with m.function("f", {}, export=True) as f:
            f.store(0, i32.const(1), bits=16)
        for memory in (None, Memory(2, 5), Memory(1, 65536, shared=True), Memory(import_from=None)):
            wasmtime.Module.validate(ENGINE, m.to_bytes(memory))
        with pytest.raises(ValueError, match="a shared memory needs a maximum"):
            m.to_bytes(Memory(shared=True))


class TestMisuse:
    def test_statements_check_their_types(self) -> None:
        m = Module()
        with m.function("f", {"x": i32}, [f32]) as f:
            y = f.local(f32, "y")
            with pytest.raises(TypeError, match="f: the value of 'y' has type i32, expected f32"):
                f.set(y, f.x)
            with pytest.raises(TypeError, match="f: if_ has type f32, expected i32"), f.if_(y):
                pass
            with pytest.raises(TypeError, match="f: result 1 has type i32, expected f32"):
                f.return_(f.x)
            with pytest.raises(TypeError, match="f returns 1 values, not 2"):
                f.return_(y, y)
            with pytest.raises(TypeError, match="f: operand 'x' has type f32, expected i32"):
                f(y)
            with pytest.raises(TypeError, match=r"f has results \(f32,\), not \(i32,\)"):
                f.call(f, 1, into=[f.x])
            with pytest.raises(TypeError, match=r"f: store needs a type; use f32.const\(1.0\)"):
                f.store(0, 1.0)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="if_expr: two Python numbers have no type"):
                f.if_expr(f.x, 1, 2)
            with pytest.raises(ValueError, match="step cannot be 0"), f.loop(f.x, 0, 4, step=0):
                pass

    def test_structure(self) -> None:
        m = Module()
        with m.function("f", {"x": i32}) as f:
            with f.block() as done:
                pass
            with pytest.raises(ValueError, match="the block of this label has ended"):
                f.br(done)
            with f.if_(f.x):
                f.set(f.x, 1)
            f.set(f.x, 2)
            with pytest.raises(ValueError, match="else_ must follow the block of an if_ directly"), f.else_():
                pass
            other = m.function("g", {"x": i32})
            with pytest.raises(ValueError, match="f: 'x' is a local of another function"):
                f.set(other.x, 1)
            with pytest.raises(AttributeError, match="function 'f' has no parameter 'y'"):
                _ = f.y
        with pytest.raises(ValueError, match="function 'f' is complete"):
            f.set(f.x, 1)
        with pytest.raises(ValueError, match="function 'g' is not complete"):
            m.to_bytes()

    def test_names_and_order(self) -> None:
        m = Module()
        with pytest.raises(ValueError, match="the parameter 'store' would hide a method"):
            m.function("f", {"store": i32})
        for _ in range(2):
            with m.function("f", {}) as f:
                pass
        m.export(f)
        with m.function("f", {}) as other, pytest.raises(ValueError, match="two functions are exported as 'f'"):
            m.export(other)
        with pytest.raises(ValueError, match="import 'late' earlier"):
            m.import_function("env", "late", {})
