"""However a text is edited, what is known of its next version is what a fresh analysis of that text finds."""

import gc
import weakref
from array import array
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import oracle, same
from revision_samples import CALLS, KINDS, PROGRAMS, SHAPES, edited, flat
from thorough import most_examples

from distir.analysis.revision import change
from distir.cost import load
from distir.ide.diagnostics import findings
from distir.ide.document import Document, Setup, open_document
from distir.ir import Apply, Return

SETUP = Setup(load("dgx-a100"), max_latency_s=1e-6, max_memory_bytes=500)

numbers = st.integers(0, 10_000)
edits = st.lists(
    st.tuples(st.one_of(st.sampled_from(KINDS), st.just("back")), numbers, numbers, st.sampled_from("lllldn")),
    min_size=1,
    max_size=12,
)
"""Each: what is done, where, and whether the document is then looked at (wholly, its types alone, or not)."""


def types_of(document):
    analysis = document.program.analysis
    return {name: (dict(state), state.returned) for name, state in analysis.states.items()}


def simulated(document):
    """All that can be seen of a simulation."""
    simulation = document.simulation
    if simulation is None:
        return str(document.unsimulated), document.findings
    timeline, memory = simulation.timeline(), simulation.memory()
    return (
        (simulation.latency_s, simulation.ops, simulation.devices, simulation.peaks, document.findings),
        [(e.index, e.start, e.end, [(f.name, i) for f, i in e.path]) for e in timeline.events()],
        (timeline.critical_path(), timeline.waits, list(timeline.slack)),
        [(p.time, p.memory, p.nbytes, p.event) for p in memory.points()],
        [
            (memory.peak(m), memory.first_over(m, peak // 2), memory.first_over(m, peak - 1))
            for m, peak in simulation.peaks.items()
        ],
        bodies(simulation.body),
        {name: (shown.first_event, shown.instance.args) for name, shown in document.shown.items()},
    )


def bodies(entry):
    """What each distinct body holds in all, callers first."""
    found = {id(entry): entry}
    for body in list(found.values()):
        found.update({id(step): step for step in body.steps if isinstance(step, type(entry))})
    return [(b.instance.function.name, b.events, b.ops, list(b.first_events), b.memory) for b in found.values()]


def assert_same(document, fresh):
    assert document.program.diagnostics == fresh.program.diagnostics
    assert types_of(document) == types_of(fresh)


@pytest.mark.parametrize("program", range(len(PROGRAMS)))
@settings(max_examples=most_examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edits)
def test_every_version_is_as_if_read_again(program, steps):
    text = good = PROGRAMS[program]
    document = open_document(text, "x", SETUP)
    for version, (kind, a, b, looked_at) in enumerate(steps):
        text = good if kind == "back" else edited(text, kind, a, b)
        document = document.edited(text, version)
        if looked_at == "n":
            continue
        fresh = open_document(text, "x", SETUP)
        assert_same(document, fresh)
        if looked_at == "l":
            assert simulated(document) == simulated(fresh)
            if document.simulation is not None:
                same(document.simulation, oracle(document.program.module, SETUP.hardware))
            good = text if fresh.simulation is not None else good


def test_the_name_that_may_have_been_meant_follows_the_order_of_definitions():
    """A definition moves behind a use of a name that nothing defines, by two hunks that define the same names."""
    text = PROGRAMS[3]
    document = open_document(text, "x", SETUP)
    edits = [("copy", 3, 1), ("replace", 0, 0), ("delete", 4291, 0), ("replace", 0, 0), ("swap", 677, 7002)]
    for version, edit in enumerate(edits):
        text = edited(text, *edit)
        document = document.edited(text, version)
        assert_same(document, open_document(text, "x", SETUP))


@pytest.mark.parametrize("bind", [{"B": 4}, {"B": 8, "unknown": 1}])
def test_bound_sizes_are_kept_through_errors(bind):
    text = "func @main(%x: Tensor[Float32, (B, 8), 1]) {\n  %y = Relu(%x)\n  %z = Exp(%y)\n  return %z\n}\n"
    setup = Setup(load("dgx-a100"), bind=bind)
    document = open_document(text, "x", setup)
    assert document.simulation is not None
    for version, new in enumerate([text.replace("Exp", "Ex("), text.replace("Exp", "Tanh"), text.replace("8", "16")]):
        document = document.edited(new, version)
        assert simulated(document) == simulated(open_document(new, "x", setup))


def test_an_edit_leaves_what_it_does_not_reach():
    """The point of it all: other statements keep their effects, other functions their instances and bodies."""
    document = open_document(CALLS, "x", SETUP)
    before = document.simulation
    after = document.edited(CALLS.replace("Mul(%z, 2.0)", "Mul(%z, 3.0)"), 1).simulation
    assert before is not None
    assert after is not None
    assert after.body is not before.body
    assert after.body.steps[0] is before.body.steps[0]
    kept = [step is old for step, old in zip(after.body.steps, before.body.steps, strict=True)]
    assert kept.count(False) <= 1


def test_a_change_of_a_callee_reaches_its_callers():
    document = open_document(SHAPES, "x", SETUP)
    assert document.simulation is not None
    text = SHAPES.replace("%h = Relu(%x)", "%g = Relu(%x)\n  %h = Exp(%g)")
    assert simulated(document.edited(text, 1)) == simulated(open_document(text, "x", SETUP))


def test_the_machine_can_be_changed_and_changed_back():
    document = open_document(CALLS, "x", SETUP)
    other = Setup(load("dgx2-v100"))
    slow = document.under(other)
    assert slow.simulation.latency_s != document.simulation.latency_s
    text = CALLS.replace("2.0", "4.0")
    assert simulated(slow.edited(text, 1)) == simulated(open_document(text, "x", other))
    assert simulated(slow.under(SETUP)) == simulated(document)


def test_old_versions_are_let_go_of_at_once():
    """Without the help of the garbage collector, which the server seldom calls."""
    text = flat(100, 3)
    document = open_document(text, "x", SETUP)
    seen = []
    gc.collect()
    gc.disable()
    try:
        for version in range(20):
            if version % 3 == 1:
                document = document.edited(text.replace("Relu(%a", "Relu((%a", 1), version)
                assert document.program.errors
            text = text.replace("1.", "1.0", 1) if version % 2 else text.replace("1.0", "1.", 1)
            document = document.edited(text, version)
            assert document.simulation is not None
            assert document.findings is not None
            seen += [weakref.ref(document), weakref.ref(document.program.analysis.domain)]
            seen += [weakref.ref(document.simulation)]
        assert sum(reference() is not None for reference in seen) == 3
    finally:
        gc.enable()


def statements(numbers):
    """Statements that are equal where the numbers are; some define the same name, some none."""
    return tuple(Return((str(n),)) if n > 6 else Apply((f"v{n % 5}",), "Relu", (f"x{n}",)) for n in numbers)


@given(st.lists(st.integers(0, 7)), st.lists(st.integers(0, 7)))
def test_a_change_takes_one_body_to_another(old, new):
    old, new = statements(old), statements(new)
    edit = change(old, new)
    gone, fresh = set(edit.gone()), set(edit.fresh())
    assert [new[n] if i is None else old[i] for n, i in enumerate(map(edit.old_index, range(len(new))))] == [*new]
    assert [edit.old_index(n) is None for n in range(len(new))] == [n in fresh for n in range(len(new))]
    assert len(new) - len(fresh) == len(old) - len(gone)
    numbers = [edit.new_index(index) for index in range(len(old))]
    for index, moved in enumerate(numbers):
        assert (moved is None) == (index in gone)
        assert moved is None or (new[moved] == old[index] and edit.old_index(moved) == index)
    kept = array("q", [-1, *(index for index in range(len(old)) if index not in gone)])
    assert list(edit.renumbered(kept)) == [-1, *(n for n in numbers if n is not None)]
    ends = [edit.new_boundary(boundary) for boundary in range(len(old) + 1)]
    assert ends == sorted(ends)
    for start, end in combinations(range(len(old) + 1), 2):
        inside = range(ends[start], ends[end])
        assert edit.changes(start, end) or len(inside) != end - start or not fresh & {*inside}


@given(st.lists(st.integers(0, 7), min_size=1), st.lists(st.tuples(st.integers(0), st.integers(0, 6)), max_size=5))
def test_what_lies_between_changes_in_place_is_the_same(numbers, replaced):
    after = list(numbers)
    for place, number in replaced:
        after[place % len(after)] = number
    edit = change(statements(numbers), statements(after))
    assert {*edit.fresh()} == {i for i, (a, b) in enumerate(zip(numbers, after, strict=True)) if a != b}


def levels(found):
    return [(f.diagnostic.code.number, str(f.level), f.faded) for f in found]


def test_findings_of_simulation_stay_until_new_ones_come():
    setup = Setup(load("dgx-a100"), max_memory_bytes=500)
    document = open_document(CALLS, "x", setup)
    document.simulate()
    first = levels(findings(document))
    assert ("DIR507", "error", False) in first
    typing = document.edited("// a comment\n" + CALLS.replace("2.0", "3.0"), 1)
    kept = findings(typing, document)
    assert levels(kept) == first
    typing.simulate()
    assert [f.span for f in findings(typing)] == [f.span for f in kept]


def test_findings_of_simulation_say_that_they_are_old_once_errors_keep_new_ones_away():
    document = open_document(CALLS, "x", Setup(load("dgx-a100"), max_memory_bytes=500))
    document.simulate()
    broken = document.edited(CALLS + "\nfunc @broken(%x {\n}\n", 1)
    kept, *_ = (f.diagnostic for f in findings(broken, document) if f.diagnostic.code.number == "DIR507")
    assert kept.notes[-1].message.startswith("this finding is stale, simulated 1 edit ago: the program has errors")
    typing = document.edited("// a comment\n" + CALLS, 1)
    kept, *_ = (f.diagnostic for f in findings(typing, document) if f.diagnostic.code.number == "DIR507")
    assert "stale" not in "".join(note.message for note in kept.notes)


def test_findings_go_with_their_statements():
    big = "  %big = Concat[axis = 0]([%x, %x])\n"
    text = f"func @main(%x: Tensor[Float32, (8, 8), 1]) {{\n{big}  %y = Exp(%x)\n  return %y\n}}\n"
    document = open_document(text, "x", Setup(load("dgx-a100"), max_memory_bytes=700))
    document.simulate()
    assert "DIR507" in {number for number, _, _ in levels(findings(document))}
    without = document.edited(text.replace(big, ""), 1)
    assert levels(findings(without, document)) == []


def test_what_is_unused_is_faded_and_what_idles_is_reported():
    text = (
        "func @main(%x: Tensor[Float32, (2048, 2048), 1], %y: Tensor[Float32, (4, 4), 2]) {\n"
        "  %a = MatMul(%x, %x)\n  %b = Relu(%y)\n  %c = Exp(%a)\n  return %a, %b\n}\n"
    )
    document = open_document(text, "x", Setup(load("dgx-a100")))
    document.simulate()
    assert levels(findings(document)) == [("DIR509", "information", False), ("DIR901", "warning", True)]


def test_what_cannot_be_simulated_alone_is_no_error():
    text = "func @main(%x: Tensor[Float32, (B, 4), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n"
    document = open_document(text, "x", Setup(load("dgx-a100")))
    document.simulate()
    assert levels(findings(document)) == [("DIR508", "information", False)]


def test_a_document_is_a_document_whatever_the_text():
    for text in ("", "}", "func @", "\ufeff", "func @main(", "\0", "%x = "):
        document = open_document(text, "x", SETUP)
        assert isinstance(document, Document)
        assert document.simulation is None
        assert document.unsimulated is not None


class GivenUp(Exception):  # noqa: N818 - what a caller may raise
    pass


@pytest.mark.parametrize("pauses", [0, 1, 3])
def test_a_simulation_that_is_given_up_leaves_all_as_it_was(pauses):
    first = open_document(CALLS, "x", SETUP)
    first.simulate()
    text = CALLS.replace("%d = Relu(%c)", "%d = Exp(%c)").replace("%r = Relu(%h)", "%r = Tanh(%h)")
    document = first.edited(text, 1)
    left = iter([None] * pauses)

    def pause():
        try:
            next(left)
        except StopIteration:
            raise GivenUp from None

    with pytest.raises(GivenUp):
        document.under(Setup(load("dgx2-v100"))).simulate(pause)
    assert not document.is_simulated
    again = text.replace("Mul(%z, 2.0)", "Mul(%z, 3.0)")
    assert simulated(document.edited(again, 2)) == simulated(open_document(again, "x", SETUP))
    assert simulated(document) == simulated(open_document(text, "x", SETUP))
