"""A document beside the sequential program that its settings name: placements, what is not proved, repairs."""

import re
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distir import format, parse  # noqa: A004
from distir.analysis.program import read
from distir.config import Hints
from distir.cost import load
from distir.diagnostics import Span
from distir.ide.actions.collectives import collectives
from distir.ide.diagnostics import findings
from distir.ide.document import Setup, open_document
from distir.ide.edits import applied
from distir.ide.hints import hints, tooltip
from distir.ide.hover import hover
from distir.ide.instances import View, calls_shown
from distir.ide.proofs import Prover, SequentialFile
from distir.prove import prove
from distir.transform import transform

SEQUENTIAL = """
func @main(
  %x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 6), 1] {param},
  %v: Tensor[Float32, (6, 2), 1] {param}
) {
  %h = MatMul(%x, %w)
  %a = Relu(%h)
  %y = MatMul(%a, %v)
  %p = Relu(%y)
  return %p
}
"""

MODEL = SequentialFile("model.dir", read(SEQUENTIAL))
STEP = SequentialFile("step.dir", read(format(transform(parse(SEQUENTIAL), "grad", "loss=mse", "optimizer=sgd"))))


@cache
def text(words, of=MODEL):
    return format(transform(of.program.module, *words.split()))


def document(text):
    found = open_document(text, "shards.dir", Setup(load("dgx-a100")))
    found.simulate()
    return found


def proved(text, against=MODEL, prover=None):
    found = document(text)
    return (prover or Prover()).prove(found, against, calls_shown(found))


def placements(text, against=MODEL):
    """What the first value of each name is, in the entry function."""
    found = proved(text, against).placements
    return lambda name, function="main": found.of(function, name)


def repairs(text, line):
    """The programs that the repairs offered on a line give, by title."""
    found = proved(text)
    at = text.index(line)
    actions = list(collectives(found.document, found, Span(at, at)))
    assert [action.preferred for action in actions] == [True] + [False] * (len(actions) - 1)
    return {action.title: applied(text, action.edits) for action in actions}


def is_proved(text):
    return prove(parse(text), MODEL.program.module).proved


def test_parts_replicas_and_partial_sums():
    said = placements(text("dtp=2,2,1"))
    assert said("h_2_1") == "rows 0–3, columns 3–5 of `%h`, replica 1"
    assert said("y_1_2") == "a partial sum of rows 4–7 of `%y` over devices 3, 4 (0–2 of 6 addends), replica 2"
    assert said("y_sum_1_2") == "rows 4–7 of `%y`, replica 2"
    assert said("w_1_2") == "columns 0–2 of `%w`"


def test_microbatches_in_functions_and_out_of_them():
    said = placements(text("dtp=2,1,2 microbatches=2", of=STEP), STEP)
    main = text("dtp=2,1,2 microbatches=2", of=STEP)
    cut = re.search(r"%(\S+), %(\S+) = Split\[axis = 0, num_outputs = 2\]\(%x", main)
    assert said(cut[1]) == "rows 0–1 of `%x`, replica 1, microbatch 1"
    assert said(cut[2]) == "rows 4–5 of `%x`, replica 1, microbatch 2"
    assert said("h", "stage_1_forward") == "rows 0–1 of `%h`, replica 1, microbatch 1"


def test_hover_and_hints_say_it():
    shards = text("tp=2")
    found = proved(shards)
    view = View(found.document, found.document, proved=found)
    at = shards.index("%y_1 = ")
    assert "of the sequential program: a partial sum of `%y` over devices 1, 2" in hover(view, at + 1).markdown
    line = Span(at, at)
    wanted = Hints(types=False, values=False, times=False, waits=False, sequential=True, length=0)
    (hint,) = hints(view, line, wanted)
    assert hint.label == "≡ a partial sum of %y over devices 1, 2 (0–2 of 6 addends)"
    assert "of the sequential program" in tooltip(view, "main", hint.kind, hint.index, hint.part, hint.count)
    assert all(hint.kind != "placement" for hint in hints(view, line, Hints()))


def test_the_first_statement_that_goes_wrong_is_marked_until_it_is_proved_again():
    shards = text("tp=2")
    wrong = shards.replace("Relu(%y_sum_1)", "Relu(%y_1)")
    prover = Prover()
    found = proved(wrong, prover=prover)
    (finding,) = [f for f in findings(found.document, None, found) if f.diagnostic.code.number == "DIR801"]
    assert wrong[finding.span.start : finding.span.end] == "%p_1 = Relu(%y_1)"
    assert finding.level == "warning"
    typed = found.document.edited(wrong.replace("%x_1,", "%x_1 ,"), 2)
    assert [f.diagnostic.code.number for f in findings(typed, None, found)].count("DIR801") == 1
    gone = found.document.edited(shards, 3)
    assert [f.diagnostic.code.number for f in findings(gone, None, found)].count("DIR801") == 0


def test_a_program_that_has_nothing_to_do_with_it():
    found = proved("func @other(%x: Tensor[Float32, (8, 4), 1]) {\n  return %x\n}\n")
    (finding,) = [f for f in findings(found.document, None, found) if f.diagnostic.code.number.startswith("DIR8")]
    assert (finding.diagnostic.code.number, finding.level) == ("DIR802", "information")
    assert "cannot be compared with `model.dir`" in finding.diagnostic.message


def test_the_sum_that_is_there_is_used_or_one_is_inserted():
    shards = text("tp=2")
    wrong = shards.replace("Relu(%y_sum_1)", "Relu(%y_1)")
    found = repairs(wrong, "%p_1 =")
    assert list(found) == ["use `%y_sum_1`, the sum", "all-reduce `%y_1`, `%y_2`"]
    assert found["use `%y_sum_1`, the sum"] == shards
    assert all(is_proved(mended) for mended in found.values())


def test_one_all_reduce_mends_all_devices():
    wrong = re.sub(r".*MPIAllreduce.*\n", "", text("tp=2")).replace("%y_sum_", "%y_")
    (mended,) = repairs(wrong, "%p_1 =").values()
    assert mended.count("MPIAllreduce(%y_1, %y_2)") == 1
    assert is_proved(mended)


def test_an_all_gather_where_parts_are():
    head = SEQUENTIAL[: SEQUENTIAL.index("  %a =")]
    softmax = SequentialFile("softmax.dir", read(f"{head}  %p = Softmax(%h)\n  return %p\n}}\n"))
    wrong = """
    func @main(
      %x_1: Tensor[Float32, (8, 4), 1], %x_2: Tensor[Float32, (8, 4), 2],
      %w_1: Tensor[Float32, (4, 3), 1], %w_2: Tensor[Float32, (4, 3), 2]
    ) {
      %h_1 = MatMul(%x_1, %w_1)
      %h_2 = MatMul(%x_2, %w_2)
      %p_1 = Softmax(%h_1)
      return %p_1
    }

    func @main.scatter(
      %x: Tensor[Float32, (8, 4), 1], %w: Tensor[Float32, (4, 6), 1], %v: Tensor[Float32, (6, 2), 1]
    ) {
      %x_1, %x_2 = MPIBroadcast[devices = [1, 2]](%x)
      %w_1, %w_2 = MPIScatter[devices = [1, 2], axis = 1](%w)
      return %x_1, %x_2, %w_1, %w_2
    }
    """
    found = proved(wrong, softmax)
    at = wrong.index("%p_1 = ")
    (action,) = collectives(found.document, found, Span(at, at))
    assert action.title == "all-gather `%h_1`, `%h_2`"
    mended = applied(wrong, action.edits)
    assert "MPIAllgather[axis = 1](%h_1, %h_2)" in mended
    assert prove(parse(mended), softmax.program.module).proved


EDITS = (
    ("Relu(%y_sum_1_1)", "Relu(%y_1_1)"),
    ("MatMul(%a_1_2, %v_1_2)", "MatMul(%a_1_2, %v_2_2)"),
    ("%p_1_2 = Relu", "%q = Exp(%y_1_2)\n  %p_1_2 = Relu"),
    ("%a_2_1 = Relu(%h_2_1)", "%a_2_1 = Gelu(%h_2_1)"),
    ("MPIAllreduce(%y_1_1, %y_2_1)", "MPIAllreduce(%y_2_1, %y_1_1)"),
    ("%h_1_1 = MatMul", "%h_1_1 = Gemm"),
)


@given(st.lists(st.lists(st.sampled_from(range(len(EDITS))), max_size=3), min_size=1, max_size=4))
def test_what_earlier_versions_proved_makes_no_difference(versions):
    prover = Prover()
    for chosen in versions:
        version = text("dtp=2,2,1")
        for number in chosen:
            version = version.replace(*EDITS[number])
        found = document(version)
        if found.program.errors:
            continue
        again, anew = prover.prove(found, MODEL, {}), Prover().prove(found, MODEL, {})
        assert sorted(map(str, again.unlocated)) == sorted(map(str, anew.unlocated))
        if anew.placements is None:
            assert again.placements is None
            continue
        names = [name for name in anew.placements.states["main"] if name]
        assert [again.placements.of("main", n) for n in names] == [anew.placements.of("main", n) for n in names]


class GivenUpError(Exception):
    pass


def test_a_proof_that_was_given_up_goes_on_from_there():
    prover, found, steps = Prover(), document(text("dtp=2,2,1")), 0

    def pause():
        nonlocal steps
        steps += 1
        if steps == 30:
            raise GivenUpError

    with pytest.raises(GivenUpError):
        prover.prove(found, MODEL, {}, pause)
    assert prover.prove(found, MODEL, {}).unlocated == ()
