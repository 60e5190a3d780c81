"""Programs whose names are defined twice, values and functions, and functions that call each other in a circle.

Everybody types them: `%a = Relu(%x)`, then `%a = Relu(%a)`. Every query ends, and is about the function at the cursor.
"""

import random
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from reading_samples import MACHINE, marked, opened
from thorough import also

from distir.diagnostics import Span
from distir.ide.calls import incoming, outgoing, prepare_calls
from distir.ide.completion import completions
from distir.ide.document import Setup, open_document
from distir.ide.hints import Hints, hints
from distir.ide.hover import hover
from distir.ide.instances import View
from distir.ide.lenses import lenses
from distir.ide.navigation import definition, highlights, type_definition
from distir.ide.selection import selections
from distir.ide.signature_help import signature_help
from distir.ide.tokens import pieces

sys.path.insert(0, str(Path(__file__).parents[1] / "hardening"))
from fuzz_targets import every_query

MOST_CPU_S = 60
"""What takes longer does not end: each of these takes milliseconds."""


class Hang(BaseException):
    """No Exception, so that nothing on the way takes it for a refusal."""


@contextmanager
def ending():
    """Fails for what does not end, on however slow a machine."""

    def ring(*_):
        raise Hang

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def written(spans, text):
    return [(text.count("\n", 0, span.start) + 1, text[span.start : span.end]) for span in spans]


# ---- values


TWICE = """func @main(%x: Tensor[Float32, (2, 3), 1]) {
  %⟪a⟫ = Relu(%x)
  %⟪a⟫ = Relu(%⟪a⟫)
  return %⟪a⟫
}
"""


@pytest.mark.parametrize("number", range(4))
def test_a_value_made_of_one_of_its_own_name_is_traced_back_to_the_first(number):
    text, places = marked(TWICE)
    with ending():
        found = type_definition(opened(text), places[number])
    assert written(found, text) == [(1, "Tensor[Float32, (2, 3), 1]")]


def test_hover_tells_the_definitions_of_one_name_apart():
    text, places = marked(
        """func @main(%x: Tensor[Float32, (2, 3), 1], %y: Tensor[Float32, (2, 3), 1]) {
  %⟪a⟫ = Relu(%x)
  %⟪a⟫ = Add(%⟪a⟫, %y)
  return %⟪a⟫
}
"""
    )
    view = View(opened(text), None)
    made = [hover(view, start).markdown.partition("made by ")[2].partition("\n")[0] for start in places]
    assert [said.partition(" ·")[0] for said in made] == [
        "`Relu`, [line 2](#L2)",
        "`Add`, [line 3](#L3)",
        "`Relu`, [line 2](#L2)",
        "`Add`, [line 3](#L3)",
    ]


@pytest.mark.parametrize(
    "body",
    [
        "%a = Relu(%b)\n  %b = Relu(%a)",
        "%a = Relu(%a)",
        "%x = Relu(%x)\n  %a = Relu(%x)",
        "%a = Relu(%x)\n  %a = Relu(%a)\n  %a, %a = @g(%a)",
        "%a, %a = @f(%a, %a)\n  %a = @f(%a)",
        "(%a, %a) = UnpackTuple(%a)\n  %a = MakeTuple(%a, %a)\n  %a, %b = UnpackTuple(%a)",
    ],
)
def test_names_used_before_they_are_defined(body):
    typed = "%x: Tensor[Float32, (2, 3), 1]"
    text = f"func @f({typed}) {{\n  {body}\n  return %a\n}}\nfunc @g({typed}) {{\n  return %x, %x\n}}\n"
    document = opened(text)
    with ending():
        for offset in range(len(text) + 1):
            type_definition(document, offset)
            hover(View(document, None), offset)


# ---- functions


OTHERS = """func @other(%x: Tensor[Float32, (8, 9), 2], %y: Tensor[Float32, (8, 9), 2]) {
  %a = Add(%x, %y)
  %b = Neg(%a)
  return %b
}
"""
MEANT = """func @same(%x: Tensor[Float32, (2, 3), 1]) {
  %a = Relu(%x)
  %b = Transpose(%a)
  %c, %d = Split[num_outputs = 3, axis = 0](%b)
  return %b
}

func @main(%x: Tensor[Float32, (2, 3), 1]) {
  %v = Send[device = 2](%x)
  %y = @other(%v, %v)
  %z = @same(%x)
  %w = Nonsense(%z)
  return %z, %y
}
"""


def answers(document, span):
    """What is asked of one place, without what two programs that differ in a name say differently."""
    view, offset = View(document, None), span.start
    yield from (query(document, offset) for query in (definition, highlights, type_definition, selections))
    yield [item for item in completions(document, offset).items if item.label != "@other"]
    yield signature_help(document, offset)
    yield hover(view, offset)


def test_a_second_function_of_a_name_is_answered_for_as_if_it_had_it_alone():
    alone, twice = OTHERS + MEANT, (OTHERS + MEANT).replace("@other(%x: ", "@same(%x:  ")
    assert len(alone) == len(twice)
    second = range(twice.rindex("func @same"), twice.index("func @main"))
    first, then = opened(twice), opened(alone)
    for offset in second:
        if twice.startswith("@same", offset) or twice[offset - 5 : offset].rpartition("@")[1]:
            continue  # the name itself has two definitions now
        span = Span(offset, offset)
        assert list(answers(first, span)) == list(answers(then, span)), twice[offset - 20 : offset + 20]


def test_calls_of_a_second_function_of_a_name_are_its_own():
    text = (
        "func @a(%x) {\n  return %x\n}\nfunc @b(%x) {\n  return %x\n}\n"
        "func @f(%x) {\n  %y = @a(%x)\n  return %y\n}\nfunc @f(%x) {\n  %y = @b(%x)\n  return %y\n}\n"
    )
    document = opened(text)
    for name, callee in (("f", "a"), ("f", "b")):
        offset = text.index(f"@{callee}(", text.index("func @f"))
        start = text.rindex("func @f", 0, offset)
        item = prepare_calls(document, start + 1)
        assert item.name == name
        assert [e.item.name for e in outgoing(document, item.name, item.selection.start)] == [callee]
        (edge,) = incoming(document, callee)
        assert edge.sites == (Span(offset, offset + 2),)


def test_what_is_shown_of_whole_texts_is_not_taken_from_another_function():
    """Hints, lenses and colours of devices, of a function that was typed again below."""
    first = "func @f(%x: Tensor[Float32, (2, 3), 1]) {\n  %a = Relu(%x)\n  return %a\n}\n"
    text = first + "func @f(%x, %y) {\n  %a = Add(%x, %y)\n  return %a\n}\n"
    before, document = opened(first), opened(text)
    before.simulate()
    view = View(document, before)
    assert all(hint.offset < len(first) for hint in hints(view, Span(0, len(text)), Hints()))
    assert all(lens.span.start < len(first) for lens in lenses(document))
    alone = View(opened("\n" * first.count("\n") + text[len(first) :]), None)
    words = [(p.first, p.rest) for p in pieces(view, 0, len(text), len) if p.offset >= len(first)]
    assert words == [(p.first, p.rest) for p in pieces(alone, 0, len(alone.document.text), len)]


# ---- all queries, anywhere


OPS = ("Relu({})", "Neg({})", "Add({}, {})", "MatMul({}, {})", "Transpose({})", "Send[device = 1]({})")
UNPACKED = ("UnpackTuple({})", "Split[num_outputs = 2, axis = 0]({})")


def program(dice):
    """Functions whose names, and those of their values, are mostly taken; they call each other, and themselves."""
    names = [dice.choice("fgh") for _ in range(dice.randint(1, 4))]
    return "\n".join(function(dice, name) for name in names)


def function(dice, name):
    def value():
        return "%" + dice.choice("aaabbxy")

    def values(most):
        return ", ".join(value() for _ in range(dice.randint(1, most)))

    type_ = dice.choice(
        [": Tensor[Float32, (2, 2), 1]", ": Tensor[Float32, (2, 2), 1]", ": Tensor[Float32, (N, 2), D]"]
    )
    params = ", ".join(f"%{p}{type_}" for p in dice.choice(["xy", "xy", "yx", "xa", "xx"]))
    lines = [f"func @{name}({params}) {{", "  %a = Relu(%x)", "  %b = Neg(%a)"]
    for _ in range(dice.randint(1, 5)):
        match dice.randrange(12):
            case 0 | 1:
                lines.append(f"  {values(2)} = @{dice.choice('fghi')}({values(2)})")
            case 2:
                lines.append(f"  {value()}, {value()} = {dice.choice(UNPACKED).format(value())}")
            case 3:
                lines.append(f"  {value()} = MakeTuple({value()}, {value()})")
            case _:
                lines.append(f"  {value()} = {dice.choice(OPS).format(value(), value())}")
    return "\n".join([*lines, f"  return {values(2)}", "}"]) + "\n"


@pytest.mark.parametrize("seed", [*range(4), *also(*range(4, 12))])
def test_every_query_ends_at_every_place_of_random_programs(seed):
    dice = random.Random(seed)
    text, before = program(dice), open_document(program(dice), "program.dir", Setup(MACHINE))
    document = open_document(text, "program.dir", Setup(MACHINE))
    with ending():
        for offset in range(len(text) + 1):
            every_query(document, Span(offset, min(len(text), offset + dice.choice((0, 30)))), offset, before)
