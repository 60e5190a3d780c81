"""Use-def chains: kept of the functions last asked for, within a number of statements."""

from distir.ir import Apply, Function, Return, dataflow


def function(name, count):
    body = [Apply((f"{name}{i}",), "Relu", (f"{name}{i - 1}" if i else "x",)) for i in range(count)]
    return Function(name, (), (*body, Return((f"{name}{count - 1}",))))


def test_chains_are_kept_of_so_many_statements_and_of_the_last_function_always(monkeypatch):
    monkeypatch.setattr(dataflow, "KEPT", 12)
    one, other, third, long = function("a", 3), function("b", 3), function("c", 4), function("d", 40)
    first, second = dataflow.uses(one), dataflow.uses(other)
    assert first == {"x": [0], "a0": [1], "a1": [2], "a2": [3]}
    assert dataflow.uses(function("a", 3)) is first
    dataflow.uses(third)
    assert dataflow.uses(one) is first
    assert dataflow.uses(other) is not second
    found = dataflow.uses(long)
    assert dataflow.uses(long) is found
    assert dataflow.uses(one) is not first


def test_equal_functions_are_compared_once(monkeypatch):
    dataflow.uses(function("e", 3))
    other = function("e", 3)
    dataflow.uses(other)
    compared, equal = [], Apply.__eq__
    monkeypatch.setattr(Apply, "__eq__", lambda a, b: compared.append(a) or equal(a, b))
    dataflow.uses(other)
    assert not compared
