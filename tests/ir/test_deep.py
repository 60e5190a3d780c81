"""Computations that wait for one another: results, errors and clean-up as with calls, at any depth, in any thread."""

import threading

import pytest

import distir
from distir.ir.calls import callees_first, inlined_sizes
from distir.ir.deep import finish

DEEP = 100_000


def countdown(number, log):
    try:
        return 1 + (yield countdown(number - 1, log)) if number else 0
    finally:
        log.append(number)


def test_results_come_back_through_any_depth_in_a_thread():
    log, found = [], []
    thread = threading.Thread(target=lambda: found.append(finish(countdown(DEEP, log))))
    thread.start()
    thread.join()
    assert found == [DEEP]
    assert log == list(range(DEEP + 1)), "the innermost ends first"


def test_what_is_raised_passes_all_that_wait():
    left = []

    def failing(number):
        try:
            if number:
                yield failing(number - 1)
            raise ValueError("inside")
        finally:
            left.append(number)

    with pytest.raises(ValueError, match="inside"):
        finish(failing(DEEP))
    assert left == list(range(DEEP + 1))


def test_an_error_may_be_caught_on_the_way():
    def wrong():
        raise KeyError("x")
        yield

    def outer():
        try:
            yield wrong()
        except KeyError:
            return "caught"

    assert finish(outer()) == "caught"


def test_results_need_not_be_waited_for():
    def outer():
        return (yield 3) + 1

    assert finish(outer()) == 4
    assert finish(5) == 5


TEXT = """\
func @a(%x) {
  %y = @b(%x)
  %z = @c(%y)
  return %z
}
func @c(%x) {
  %y = @b(%x)
  %z = @b(%y)
  return %z
}
func @b(%x) {
  %y = Relu(%x)
  return %y
}
"""


def test_functions_come_after_those_that_they_call():
    module = distir.parse(TEXT)
    assert [function.name for function in callees_first(module)] == ["b", "c", "a"]
    assert inlined_sizes(module) == {"b": 1, "c": 2, "a": 3}
    assert inlined_sizes(module, {"c"})["a"] == 3
    assert inlined_sizes(module, {"b"})["a"] == 2


def test_cycles_of_calls_come_once():
    module = distir.parse(TEXT.replace("Relu", "@a"))
    assert sorted(function.name for function in callees_first(module)) == ["a", "b", "c"]
