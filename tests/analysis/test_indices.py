"""Which whole numbers random inputs are: any of what a program chooses from by them, and no others."""

import numpy as np
import pytest

import distir
from distir.analysis import check, index_bounds, random_inputs
from distir.models import gpt2
from distir.syntax import parse
from distir.transform import transform, verify

TEXT = """\
func @main(
  %table: Tensor[Float32, (V, 4), 1],
  %small: Tensor[Float32, (4, 7), 1],
  %i: Tensor[Int64, (2, 50), 1],
  %j: Tensor[Int64, (50,), 1],
  %k: Tensor[Int64, (50,), 1],
  %n: Tensor[Int64, (50,), 1]
) {
  %flat = Reshape(%i, [-1])
  %a = Gather[axis = 0](%table, %flat)
  %b = Gather[axis = 1](%small, %flat)
  %c = Gather[axis = 0](%table, %j)
  %next = Add(%k, 1)
  %d = Gather[axis = 0](%table, %next)
  %square = Mul(%n, %n)
  %e = Gather[axis = 0](%table, %square)
  return %a, %b, %c, %d, %e
}
"""


def bounds(text, **sizes):
    """By parameter: its numbers."""
    program = parse(text).module
    analysis = check(program)
    assert not analysis.errors
    entry = program.entry()
    types = [distir.ir.types.substitute(p.type, sizes) for p in entry.params]
    found = index_bounds(analysis.domain, analysis.instance(entry, types))
    return {".".join((name, *map(str, path))): (s.low, s.high, set(s.also)) for (name, path), s in found.items()}


def test_the_smallest_of_what_an_index_chooses_from_counts():
    assert bounds(TEXT, V=30) == {"i": (0, 7, set()), "j": (0, 30, set()), "k": (0, 29, set())}


def test_random_indices_are_in_range_and_reach_all_of_it():
    found = random_inputs(parse(TEXT).module, 0, {"V": 30})
    assert set(found["i"].ravel()) == set(range(7))
    assert found["j"].max() > 20
    assert set(found["n"]) == {0, 1}, "nothing is said of its square"


EXPERTS = """\
func @main(
  %x: Tensor[Float32, (2, 6, 4), 1],
  %w: Tensor[Float32, (3, 4, 4), 1],
  %bias: Tensor[Float32, (3, 4), 1],
  %experts: Tensor[Int64, (2, 6, 2), 1],
  %there: Tensor[Int64, (2, 6, 2), 1],
  %few: Tensor[Int64, (2, 6, 2), 1],
  %back: Tensor[Int64, (2, 6, 2), 1],
  %counts: Tensor[Int64, (2, 3), 1],
  %each: Tensor[Int64, (2, 3), 1]
) {
  %places, _ = Dispatch[num_experts = 3](%experts)
  %a = Permute(%x, %there)
  %b = Permute(%x, %few, _, 5)
  %c = Unpermute(%x, %back)
  %d = RaggedMatMul(%x, %w, %counts)
  %e = RaggedExpand(%bias, %each, 9)
  return %places, %a, %b, %c, %d, %e
}
"""


def test_numbers_and_rows_of_experts_are_in_range():
    """Counts of experts never add up to more rows than there are."""
    found = {name: (low, high) for name, (low, high, _) in bounds(EXPERTS).items()}
    assert found == {
        "experts": (0, 3),
        "there": (0, 12),
        "few": (0, 5),
        "back": (0, 6),
        "counts": (0, 3),
        "each": (0, 4),
    }
    assert distir.run(parse(EXPERTS).module, random_inputs(parse(EXPERTS).module, 0, {}))


THROUGH_CALLS = """
func @inner(%tokens: Tensor[Int64, s, 1], %table) {
  %x = Gather(%table, %tokens)
  return %x, %tokens
}

func @stage(%both, %mask) {
  %table, %tokens = UnpackTuple(%both)
  %x, %same = @inner(%tokens, %table)
  %seen = Cast[to = Float32](%mask)
  %y = Mul(%x, %seen)
  return %y, %same
}

func @main(
  %table: Tensor[Float32, (40, 4), 1],
  %tokens: Tensor[Int64, (600, 1), 1],
  %pair: Tuple[Tensor[Int64, (300,), 1], Tensor[Bool, (300,), 1]],
  %mask: Tensor[Int64, (300, 1), 1]
) {
  %one, %two = Split[axis = 0, num_outputs = 2](%tokens)
  %flat = Reshape(%one, [300])
  %both = MakeTuple(%table, %flat)
  %y, %same = @stage(%both, %mask)
  %picked, %chosen = UnpackTuple(%pair)
  %z = SoftmaxCrossEntropyLoss(%y, %picked)
  return %y, %z, %same, %chosen
}
""".replace("Int64, s, 1", "Int64, (300,), 1")


def test_indices_are_followed_through_calls_and_tuples():
    assert bounds(THROUGH_CALLS) == {"tokens": (0, 40, set()), "pair.0": (0, 4, set())}
    module = parse(THROUGH_CALLS).module
    found = random_inputs(module, 0, {})
    assert set(found["tokens"].ravel()) == set(range(40))
    assert set(found["pair"][0]) == set(range(4))
    assert set(found["mask"].ravel()) == {0, 1}
    assert found["pair"][1].dtype == bool
    distir.run(module, found)


IGNORED = """
func @main(
  %scores: Tensor[Float32, (400, 6), 1],
  %labels: Tensor[Int64, (400,), 1],
  %table: Tensor[Float32, (3, 2), 1],
  %others: Tensor[Int64, (400,), 1]
) {
  %a = SoftmaxCrossEntropyLoss[ignore_index = -100](%scores, %labels)
  %bare = Gather(%table, %others)
  %b = SoftmaxCrossEntropyLoss[ignore_index = -100](%scores, %others)
  %left_out = Equal(%labels, -100)
  %instead = Where(%left_out, 0, %labels)
  %c = Gather(%scores, %instead)
  return %a, %b, %c, %bare
}
"""


def test_some_labels_are_ignored_where_a_loss_says_how_and_nothing_else_takes_them_for_indices():
    assert bounds(IGNORED) == {"labels": (0, 6, {-100}), "others": (0, 3, set())}
    module = parse(IGNORED).module
    found = random_inputs(module, 0, {})
    assert set(found["labels"]) == {-100, *range(6)}
    assert found["labels"][0] >= 0, "a mean over no labels is no number"
    assert set(found["others"]) == {0, 1, 2}
    distir.run(module, found)


def test_numbers_that_are_only_compared_with_others_may_be_any_of_the_table():
    text = TEXT.replace("%square = Mul(%n, %n)", "%is = Equal(%n, 0)\n  %square = Where(%is, 1, %n)")
    assert bounds(text, V=30)["n"] == (0, 30, set())


def test_numbers_of_one_byte_are_any_of_their_type():
    module = parse("func @f(%x: Tensor[UInt8, (40, 99), 1], %y: Tensor[Int8, (40, 99), 1]) { return %x, %y }").module
    found = random_inputs(module, 0, {})
    assert (found["x"].min(), found["x"].max()) == (0, 255)
    assert (found["y"].min(), found["y"].max()) == (-128, 127)


STRATEGIES = [(), ("dp=2",), ("tp=2",), ("pp=2", "microbatches=2"), ("dtp=2,2,2", "microbatches=2"), ("checkpoint",)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_tokens_of_a_model_are_of_its_whole_vocabulary(strategy):
    module = transform(gpt2(2, 32, 2, 8, 4, 40, dtype="Float32"), "grad", "loss=cross_entropy", "optimizer=sgd")
    module = transform(module, *strategy) if strategy else module
    found = random_inputs(module, 0, {})
    tokens = [value for name, value in found.items() if name.startswith(("input_ids", "target"))]
    assert len(tokens) > 1
    for value in tokens:
        assert 20 < np.max(value) < 40


CHOSEN = """
func @main(%table: Tensor[Float32, (100, 4), 1] {param}, %ids: Tensor[Int64, (8, 3), 1] {batch = 0}) {
  %y = Gather(%table, %ids)
  return %y
}
"""


def test_what_is_scattered_are_indices_of_the_program_behind():
    module = transform(parse(CHOSEN).module, "dp=2")
    assert random_inputs(module, 0, {}, "main.scatter")["ids"].max() > 10


CACHES = """
func @main(
  %cache: Tensor[Float32, (2, 8, 4), 1],
  %token: Tensor[Float32, (2, 1, 4), 1],
  %at: Tensor[Int64, (), host],
  %round: Tensor[Int64, (), host],
  %filled: Tensor[Int64, (2,), 1]
) {
  %new = TensorScatter[axis = 1](%cache, %token, %at)
  %other = TensorScatter[axis = 1, mode = "circular"](%cache, %token, %round)
  %length = Add(%at, 1)
  %x = Attention[q_num_heads = 1, kv_num_heads = 1](%token, %new, %new, _, _, %length)
  %y = Attention[q_num_heads = 1, kv_num_heads = 1](%token, %other, %new, _, _, %filled)
  return %x, %y
}
"""


def test_places_of_a_cache_are_where_an_update_fits():
    assert bounds(CACHES) == {"at": (0, 8, set()), "round": (0, 16, set()), "filled": (1, 9, set())}


def test_a_bound_host_parameter_has_its_value_where_results_are_compared():
    program = parse(CACHES).module
    with pytest.raises(distir.ProgramError, match="9 places"):
        verify(program, program, bind={"at": 8})
