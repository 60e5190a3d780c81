"""Several microbatches on one device, and microbatches stated by their size."""

from functools import cache

import pytest
from sharding_samples import assert_same, statements
from thorough import also

import distir
from distir.diagnostics import ProgramError
from distir.models import gpt2
from distir.simulate import simulate
from distir.syntax import print_rolled
from distir.transform import difference, transform, verify
from distir.transform.steps import StepError

BATCH = 16


@cache
def step(**sizes):
    model = gpt2(2, 16, 4, 8, batch=BATCH, vocabulary=32, dtype="Float64", positions=8, **sizes)
    return transform(model, "grad", "optimizer=adam")


CHAINS = [
    "accumulate=16",
    "accumulate micro_batch=4",
    "accumulate=2 tp=2 sequence=true dp=2",
    "accumulate=4 dp=2 zero=1",
    "accumulate=4 dp=2 zero=2",
    "accumulate=4 dp=2 zero=3",
    "checkpoint accumulate=4 dp=2",
    "dtp=2,2,1 microbatches=4",
    "dtp=2,1,2 micro_batch=2",
    "pp=2 micro_batch=4",
    "accumulate=8 inline=round",
    *also("accumulate=1", "accumulate=4", "accumulate=4 dp=2", "accumulate=4 tp=2"),
]


@pytest.mark.by_turns
@pytest.mark.parametrize("chain", CHAINS)
def test_results_stay(chain):
    assert_same(step(), transform(step(), *chain.split()))


def sent(module):
    simulation = simulate(module)
    return difference(simulation, simulation).left.communication_bytes


@pytest.mark.parametrize("after", ["dp=4", "dp=4 zero=1"])
def test_gradients_are_summed_over_devices_once_per_step(after):
    alone, accumulated = (transform(step(), *w.split()) for w in (after, f"accumulate=4 {after}"))
    assert sent(accumulated) == sent(alone)


def test_the_activations_of_one_microbatch_are_held():
    def peak(*words):
        return simulate(transform(step(), *words)).devices[1].peak_memory_bytes

    state = 3 * sum(p.type.nbytes for p in step().functions["main"].params if "param" in p.roles)
    whole, quarter, single = peak(), peak("accumulate=4"), peak("accumulate=16")
    assert quarter - state < 0.5 * (whole - state)
    assert single < quarter


def test_the_text_does_not_grow_with_the_number_of_microbatches():
    def lines(count):
        model = gpt2(1, 8, 2, 4, batch=1024, vocabulary=16, dtype="Float64", positions=4)
        return len(print_rolled(transform(model, "grad", f"accumulate={count}")).splitlines())

    assert lines(1024) == lines(64)


def test_a_size_and_a_number_are_the_same_program():
    assert transform(step(), "accumulate=4") == transform(step(), "accumulate", "micro_batch=4")
    assert transform(step(), "pp=2", "microbatches=4") == transform(step(), "pp=2", micro_batch=4)
    assert transform(step(), "dtp=2,1,2", "microbatches=4") == transform(step(), "dtp=2,1,2", "micro_batch=2")


@pytest.mark.parametrize(
    ("words", "message", "help"),
    [
        ("accumulate=3", "the batch is 16, which does not divide into 3 microbatches", "would do: 1, 2, 4, 8, 16"),
        ("pp=2 micro_batch=3", "the batch is 16, which does not divide into microbatches of 3", "1, 2, 4, 8, 16"),
        ("dtp=2,1,2 micro_batch=3", "into microbatches of 3 in each of 2 replicas", "would do: 1, 2, 4, 8"),
        (
            "dp=2 accumulate=2",
            "`@main` is distributed already",
            "then `cp`, `dp`, `ep`, `mesh` or `tp`",
        ),
    ],
)
def test_what_does_not_divide_is_refused(words, message, help):
    with pytest.raises(ProgramError) as caught:
        transform(step(), *words.split())
    (found,) = caught.value.diagnostics
    assert message in found.message
    assert help in found.help


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("accumulate", "`accumulate` expected a number of microbatches, as in `accumulate=4`, or `micro_batch=`"),
        ("accumulate=-1", "`accumulate` expected a number of microbatches"),
        ("accumulate=4 micro_batch=2", "`accumulate` is the number of microbatches, `micro_batch` their size"),
        ("pp=2 microbatches=4 micro_batch=2", "`microbatches` is the number of microbatches, `micro_batch` their size"),
        ("pp=2 micro_batch=-2", "`micro_batch` expected 1 or more, found -2"),
        (f"accumulate={10**18}", f"expected at most 65536 microbatches, found {10**18}"),
    ],
)
def test_one_of_number_and_size_is_wanted(words, message):
    with pytest.raises(StepError) as caught:
        transform(step(), *words.split())
    assert message in str(caught.value)


def test_a_size_needs_a_batch_that_is_known():
    model = gpt2(2, 16, 4, 8, vocabulary=32, dtype="Float64", positions=8)
    with pytest.raises(ProgramError, match="`micro_batch` expected a batch whose size is known"):
        transform(model, "grad", "accumulate", "micro_batch=2")
    assert statements(transform(model, "grad", "accumulate=2"), "Split")


VALUES_OF_A_SIZE = {
    "repeated": """
      %row = Unsqueeze(%one, [0])
      %shape = Shape[end = 1](%x)
      %each = Expand(%row, %shape)
      %means = ReduceMean[keepdims = false](%y, [1])
      %parts = Mul(%means, %each)
    """,
    "in a weight": """
      %v = Mul(%w, %one)
      %scaled = MatMul(%x, %v)
      %parts = Add(%y, %scaled)
    """,
}


@pytest.mark.parametrize("text", VALUES_OF_A_SIZE.values(), ids=VALUES_OF_A_SIZE)
def test_a_value_computed_from_the_size_of_the_batch_is_that_of_the_whole_batch(text):
    """What one over the size of the batch is repeated into, or multiplied by, has the batch's size, not a part's."""
    program = distir.parse(f"""
        func @main(%x: Tensor[Float32, (B, 6), 1] {{batch = 0}}, %w: Tensor[Float32, (6, 6), 1] {{param}}) {{
          %y = MatMul(%x, %w)
          %size = Size(%x)
          %number = Cast[to = Float32](%size)
          %one = Reciprocal(%number)
          {text}
          %loss = ReduceSum[keepdims = false](%parts)
          return %loss
        }}
    """)
    assert verify(program, transform(program, "accumulate=2"), bind={"B": 4}).equal
