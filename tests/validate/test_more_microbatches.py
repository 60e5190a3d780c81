"""Programs of more microbatches, of those for few: further calls of a round."""

from dataclasses import replace

import pytest

from distir import parse
from distir.ir import results
from distir.ir.rewrite import with_names
from distir.validate.microbatches import UnlikeMicrobatchesError, with_microbatches

ROUND = """\
func @round(%w: Tensor[Float32, (4, 4), 1], %x: Tensor[Float32, (B, 4), 1], %sum: Tensor[Float32, (B, 4), 1]) {
  %y = MatMul(%x, %w)
  %more = Add(%sum, %y)
  return %more
}
"""


def program(parts, rounds, end, results):
    names = ", ".join(f"%x_{i}" for i in range(1, parts + 1))
    lines = "\n".join(f"  {line}" for line in (*rounds, *end))
    return f"""\
{ROUND}
func @main(%w: Tensor[Float32, (4, 4), 1], %x: Tensor[Float32, (B, 4), 1] {{batch = 0}}) {{
  {names} = Split[axis = 0, num_outputs = {parts}](%x)
{lines}
  return {results}
}}
"""


def rounds(*numbers, weight="%w"):
    return [f"%sum_{i} = @round({weight}, %x_{i}, %sum_{i - 1})" for i in numbers]


FIRST = "%sum_1 = MatMul(%x_1, %w)"
LAST = "%last = Add(%sum_5, %x_6)"


def test_further_rounds_take_what_the_last_one_gives_and_the_next_part():
    few = program(6, [FIRST, *rounds(2, 3, 4, 5)], [LAST], "%last")
    many = program(9, [FIRST, *rounds(2, 3, 4, 5, 6, 7, 8)], ["%last = Add(%sum_8, %x_9)"], "%last")
    found = with_microbatches(parse(few), {"round": 3}, 6, 9)
    assert renamed(found) == renamed(parse(many))


def renamed(module):
    """The functions, with the entry function's values numbered in the order in which they are defined."""
    *others, entry = module
    defined = [p.name for p in entry.params] + [name for statement in entry.body for name in results(statement)]
    numbers = {name: f"v{number}" for number, name in enumerate(defined)}
    params = tuple(replace(param, name=numbers[param.name]) for param in entry.params)
    return others, replace(entry, params=params, body=tuple(with_names(s, numbers) for s in entry.body))


@pytest.mark.parametrize(
    ("lines", "results", "why"),
    [
        ([FIRST, *rounds(2, 3, 4), LAST.replace("5", "4")], "%last", "do not follow each other"),
        ([FIRST, *rounds(2, 3), "%b = Relu(%x_6)", *rounds(4, 5), LAST], "%last, %b", "do not follow each other"),
        ([FIRST, *rounds(2, 3, 4, 5), LAST], "%last, %sum_2", "`sum_2` is used behind"),
        ([FIRST, *rounds(2, 3, 4, 5), LAST], "%last, %x_2", "`x_2` is used behind"),
        ([FIRST, *rounds(2, 3, 4, 5), LAST], "%last, %sum_1", "`sum_1` is used behind"),
        (["%sum_1 = Relu(%x_1)", *rounds(2, 3), *rounds(4, 5, weight="%v")], "%sum_5", "in some rounds alone"),
    ],
)
def test_what_does_not_follow_is_refused(lines, results, why):
    text = program(6, lines, [], results)
    text = text.replace("  %x_1, %x_2", "  %v = Relu(%w)\n  %x_1, %x_2")
    with pytest.raises(UnlikeMicrobatchesError, match=why):
        with_microbatches(parse(text), {"round": 3}, 6, 9)


@pytest.mark.parametrize(("rounds_more", "count"), [({"round": 2}, 9), ({}, 9), ({"round": 3, "other": 3}, 9)])
def test_rounds_are_of_whole_microbatches_and_of_one_kind(rounds_more, count):
    text = program(6, [FIRST, *rounds(2, 3, 4, 5)], [LAST], "%last")
    with pytest.raises(UnlikeMicrobatchesError):
        with_microbatches(parse(text), rounds_more, 6, count)
