"""Maxima over parts, joined: of each that is side by side with others, the greatest is that of the whole."""

from functools import cache
from random import Random

import pytest
from program_mutations import OF_REPRESENTATIVES, _pick, _with, mutants
from proof_samples import is_proved, sequential
from represented import written_out
from thorough import ALL

import distir
from distir.analysis import check
from distir.ir import Apply, Attributes
from distir.prove import prove
from distir.transform import transform, verify

WHOLE = """\
func @main(%x: Tensor[Float32, (4, 2), 1], %y: Tensor[Float32, (6,), 1]) {
  %a = Greatest(%x)
  %b = Greatest(%y)
  %c = MET(%a, %b)
  return %c
}
"""
HALVES = """\
func @main(
  %x_1: Tensor[Float32, (2, 2), 1], %x_2: Tensor[Float32, (2, 2), 2],
  %y_1: Tensor[Float32, (3,), 1], %y_2: Tensor[Float32, (3,), 2]
) {
  %a_1 = Greatest(%x_1)
  %a_2 = Greatest(%x_2)
  %b_1 = Greatest(%y_1)
  %b_2 = Greatest(%y_2)
  %c_1 = MET(%a_1, %b_1)
  %c_2 = MET(%a_2, %b_2)
  %u_1 = Unsqueeze(%c_1, [0])
  %u_2 = Unsqueeze(%c_2, [0])
  %e_1, %e_2 = MPIAllgather[axis = 0](%u_1, %u_2)
  %m_1 = ReduceMax[keepdims = false](%e_1, [0])
  %m_2 = ReduceMax[keepdims = false](%e_2, [0])
  return %m_1, %m_2
}
func @main.scatter(%x: Tensor[Float32, (4, 2), 1], %y: Tensor[Float32, (6,), 1]) {
  %x_1, %p = Split[axis = 0, num_outputs = 2](%x)
  %y_1, %q = Split[axis = 0, num_outputs = 2](%y)
  %x_2 = Send[device = 2](%p)
  %y_2 = Send[device = 2](%q)
  return %x_1, %x_2, %y_1, %y_2
}
func @main.gather(%m_1: Tensor[Float32, LENGTH, 1], %m_2: Tensor[Float32, LENGTH, 2]) {
  return %m_1
}
"""


def joined_halves(met="Concat[axis = 0]", length="(2,)", *changes):
    text = HALVES.replace("MET", met).replace("LENGTH", length)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    module, whole = distir.parse(text), distir.parse(WHOLE.replace("MET", met))
    assert not check(module).errors
    return prove(module, whole).proved, verify(whole, module).equal


def test_maxima_side_by_side():
    assert joined_halves() == (True, True)


@pytest.mark.parametrize(
    "change",
    [
        ("%c_2 = Concat[axis = 0](%a_2, %b_2)", "%c_2 = Concat[axis = 0](%b_2, %a_2)"),
        ("%b_2 = Greatest(%y_2)", "%b_2 = Greatest(%x_2)"),
        ("%m_1 = ReduceMax", "%m_1 = ReduceMin"),
        ("%m_1 = ReduceMax", "%m_1 = ReduceSum"),
        ("%a_2 = Greatest(%x_2)", "%n = Neg(%x_2)\n  %a_2 = Greatest(%n)"),
        ("%c_2 = Concat[axis = 0](%a_2, %b_2)", "%n = Mul(%a_2, 2.0)\n  %c_2 = Concat[axis = 0](%n, %b_2)"),
    ],
)
def test_other_maxima_are_not_those_of_the_whole(change):
    assert joined_halves("Concat[axis = 0]", "(2,)", change)[0] is False


def test_the_greatest_of_sums_is_not_the_sum_of_the_greatest():
    assert joined_halves("Add", "(1,)")[0] is False


def test_one_that_all_have_may_be_added():
    same = (
        ("%y_1: Tensor[Float32, (3,), 1], %y_2: Tensor[Float32, (3,), 2]",
         "%y_1: Tensor[Float32, (6,), 1], %y_2: Tensor[Float32, (6,), 2]"),
        ("%y_1, %q = Split[axis = 0, num_outputs = 2](%y)", "%y_1 = Identity(%y)"),
        ("%y_2 = Send[device = 2](%q)", "%y_2 = Send[device = 2](%y)"),
    )  # fmt: skip
    assert joined_halves("Add", "(1,)", *same) == (True, True)


def test_the_greatest_of_negatives_is_not_the_negative_of_the_greatest():
    assert joined_halves("Sub", "(1,)")[0] is False


def test_the_greatest_of_two():
    met = (
        ("%e_1, %e_2 = MPIAllgather[axis = 0](%u_1, %u_2)", "%s = Send[device = 1](%c_2)"),
        ("%m_1 = ReduceMax[keepdims = false](%e_1, [0])", "%m_1 = Max(%c_1, %s)"),
        ("%m_2 = ReduceMax[keepdims = false](%e_2, [0])", "%m_2 = Send[device = 2](%m_1)"),
    )
    assert joined_halves("Concat[axis = 0]", "(2,)", *met) == (True, True)
    assert joined_halves("Concat[axis = 0]", "(2,)", *met, ("Max(", "Min("))[0] is False
    assert joined_halves("Concat[axis = 0]", "(2,)", *met, ("Max(%c_1, %s)", "Max(%c_1, %c_1)"))[0] is False


SPLIT = {
    "llama": (
        "dp=2",
        "tp=2 sequence=true",
        "tp=2 dp=2 zero=3",
        "pp=2 microbatches=4 schedule=zb-h1",
        "accumulate=2 dp=2 zero=1",
        "dtp=2,2,2 microbatches=2",
        "checkpoint=full dp=2",
        "cp=2",
        "cp=2 cp_kind=ring",
        "dtp=2,2,2 microbatches=2 sequence=true representative=true",
    ),
    "gpt2": ("dtp=2,2,2 microbatches=2",),
    "experts": ("ep=2", "tp=2 ep=2", "dtp=2,2,1 experts=2 representative=true"),
    "mlp": ("dtp=2,2,2 microbatches=2 representative=true",),
}


@cache
def delayed(name, *training):
    """A model whose scales follow from the greatest magnitudes of the last steps."""
    return transform(sequential(name), "fp8=delayed", "history=4", *training)


@cache
def in_parts(name, words, *training):
    return transform(delayed(name, *training), *words.split())


@pytest.mark.by_turns
@pytest.mark.parametrize(("name", "words"), [(name, words) for name, several in SPLIT.items() for words in several])
def test_a_step_of_delayed_scaling_is_proved(name, words):
    assert prove(in_parts(name, words, "grad"), delayed(name, "grad")).proved


@pytest.mark.parametrize(("name", "words"), [("llama", "tp=2"), ("llama", "pp=2 microbatches=2"), ("experts", "ep=2")])
def test_so_is_the_model_alone(name, words):
    assert prove(in_parts(name, words), delayed(name)).proved


def maximum_replaced(function, random, module):
    """The greatest is something else, or of something else."""
    index = _pick(function, random, lambda s: isinstance(s, Apply) and s.op in ("ReduceMax", "Greatest"), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    if old.op == "ReduceMax":
        return _with(
            function, index, Apply(old.results, random.choice(("ReduceMin", "ReduceSum")), old.args, old.attrs)
        )
    others = [s.args[0] for s in function.body[:index] if isinstance(s, Apply) and s.op == "Greatest"]
    return _with(function, index, Apply(old.results, old.op, (random.choice(others),))) if others else None


def slots_changed(function, random, module):
    """What is greatest is recorded of another tensor."""
    index = _pick(function, random, lambda s: isinstance(s, Apply) and s.op in ("RecordGreatest", "Concat"), (Apply,))
    if index is None:
        return None
    old = function.body[index]
    args = list(old.args)
    if old.op == "RecordGreatest":
        slots = list(old.attrs["slots"])
        i, j = random.sample(range(len(slots)), 2)
        slots[i], slots[j] = slots[j], slots[i]
        return _with(function, index, Apply(old.results, old.op, old.args, Attributes({"slots": tuple(slots)})))
    i, j = random.sample(range(len(args)), 2)
    args[i], args[j] = (args[j], args[i]) if random.random() < 0.5 else (args[j], args[j])
    return _with(function, index, Apply(old.results, old.op, tuple(args), old.attrs))


MISTAKES = (*OF_REPRESENTATIVES, *(maximum_replaced, slots_changed) * 6)
CASES = [("mlp", "dtp=2,2,2 microbatches=2 representative=true"), ("mlp", "tp=2"), ("mlp", "dtp=2,2,1")]
COUNT = 1000 if ALL else 12


def test_no_wrong_program_is_proved():
    random, tried, refused, slipped = Random(22), 0, 0, []
    while tried < COUNT:
        name, words = random.choice(CASES)
        original = delayed(name, "grad")
        ((kind, mutant),) = mutants(in_parts(name, words, "grad"), random, 1, MISTAKES)
        if check(mutant).errors:
            continue
        tried += 1
        if not is_proved(mutant, original):
            refused += 1
            continue
        every = [written_out(mutant, device) for device in (0, -1)] if "representative" in words else [mutant]
        if any(check(module).errors or not verify(original, module).equal for module in every):
            slipped.append((name, words, kind))
    assert slipped == []
    assert refused > COUNT / 2
