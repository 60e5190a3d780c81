"""Dropout in distributed programs: what is dropped is what the sequential program drops."""

import numpy as np
import pytest
from sharding_samples import assert_same, statements
from thorough import also

import distir
from distir.analysis import execute, random_inputs
from distir.diagnostics import ProgramError
from distir.ir import Literal
from distir.models import ModelError, gpt2
from distir.simulate import simulate
from distir.transform import transform


def gpt(dropout=0.25, **sizes):
    """Dropout of the embeddings, of attention's shares, and of what blocks add."""
    return gpt2(2, 16, 4, 8, batch=8, vocabulary=32, dtype="Float64", positions=8, dropout=dropout, **sizes)


CHAINS = [
    "tp=4 dp=2",
    "tp=2 sequence=true",
    "checkpoint dp=2",
    "checkpoint=1 tp=2 sequence=true",
    "dp=2 zero=3",
    "pp=1 microbatches=4",
    "pp=2 microbatches=4 schedule=interleaved",
    "pp=2 microbatches=4 schedule=zb-h1 dp=2",
    "pp=2 microbatches=4 schedule=zb-v",
    "checkpoint pp=2 microbatches=4",
    "dtp=2,2,2 microbatches=2 sequence=true",
    "pp=2 microbatches=2 tp=2 dp=2 zero=2",
    "inline",
    *also("dp=2", "tp=2", "dp=2 tp=2", "dp=2 zero=1"),  # the parts of those above
    *also("pp=2 microbatches=8", "pp=2 microbatches=4 schedule=gpipe"),
]


@pytest.mark.by_turns
@pytest.mark.parametrize("chain", CHAINS)
def test_distributed_programs_drop_the_same(chain):
    words = [word.replace("interleaved", "interleaved virtual=1") for word in chain.split()]
    module = transform(gpt(), "grad", "optimizer=adam")
    assert_same(module, transform(module, *" ".join(words).split()))


def test_the_comparison_would_see_other_masks():
    """Without the positions of the examples each replica would drop what the first one drops."""
    module = transform(gpt(), "grad")
    text = distir.format(transform(module, "dp=2"))
    assert text.count("[4, 0]") == 1, "the second replica's examples begin at the fourth"
    with pytest.raises(AssertionError):
        assert_same(module, distir.parse(text.replace("[4, 0]", "[0, 0]")))


def test_each_layer_and_each_seed_drops_something_else():
    module = gpt()
    inputs = random_inputs(module, 0, {})
    loss = {}
    for seed in (1, 2):
        inputs["seed"] = np.int64(seed)
        (out,) = execute(module, inputs)
        loss[seed] = out.value
    assert not np.allclose(loss[1], loss[2])
    for function, count in (("main", 1 + 2), ("layer", 3)):
        keys = {s.args for s in statements(module, "FoldIn", function)}
        assert len(keys) == count


def test_a_mask_is_kept_as_one_byte_per_element():
    """Korthikanti et al., 2022: 2 masks of s*b*h bytes and one of a*s*s*b in each layer."""
    assert statements(transform(gpt(), "grad"), "DropoutGrad")
    with_masks, without = (_peak(transform(m, "grad")) for m in (gpt(), _without_masks(gpt())))
    batch, sequence, width, heads, layers = 8, 8, 16, 4, 2
    masks = batch * sequence * (width + layers * (2 * width + heads * sequence))
    assert with_masks - without == pytest.approx(masks, rel=0.25)


def _peak(module):
    return simulate(module).devices[1].peak_memory_bytes


def _without_masks(module):
    text = distir.format(module)
    lines = [
        line.replace(line[line.index(",") : line.index("=") - 1], "") if "= Dropout(" in line else line
        for line in text.splitlines()
    ]
    return distir.parse("\n".join(lines))


def test_without_a_name_for_the_mask_it_is_made_again():
    module = transform(_without_masks(gpt()), "grad")
    assert not statements(module, "DropoutGrad")
    assert_same(transform(gpt(), "grad"), module)
    assert_same(module, transform(module, "dtp=2,2,2", "microbatches=2"))


PLAIN = """
func @main(%x: Tensor[Float64, (8, 4), 1] {batch = 0}, %w: Tensor[Float64, (4, 4), 1] {param}) {
  %h = MatMul(%x, %w)
  %y = Dropout(%h, 0.5, true, 7)
  %z = MatMul(%y, %w)
  return %z
}
"""


def test_replicas_need_no_positions_but_microbatches_do():
    module = distir.parse(PLAIN)
    assert_same(module, transform(module, "dp=2"))
    assert_same(module, transform(module, "dp=2", "dp=2"))
    assert_same(module, transform(module, "pp=1", "microbatches=2"))  # when all microbatches are done
    with pytest.raises(ProgramError, match="`Dropout` cannot be computed by microbatches") as caught:
        transform(module, "grad", "pp=1", "microbatches=2")
    assert "let it take `Positions` of an input as its `rows`" in (caught.value.diagnostics[0].help or "")


def test_without_a_key_every_device_drops_for_all():
    module = distir.parse(PLAIN.replace("true, 7", "true"))
    assert_same(module, transform(module, "dp=2"))


def test_a_share_that_is_none_is_refused():
    with pytest.raises(ModelError, match=r"`dropout` to be at least 0 and less than 1, found 1\.5"):
        gpt(1.5)
    assert distir.format(gpt(0.0)) == distir.format(gpt(0))
    assert Literal(0.25) in {a for s in gpt().functions["layer"].body for a in getattr(s, "args", ())}
