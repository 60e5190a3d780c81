"""One device that stands for its replicas and shards: what it does takes as long, and as much memory, as the whole."""

from itertools import permutations
from random import Random

import pytest
from dtp_samples import MODELS
from thorough import ALL

import distir
from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.ir import Apply, types
from distir.lower.folder import EntryPoint, lower
from distir.simulate import simulate
from distir.transform import transform
from distir.transform.verification import VerifyError, verify

DEGREES = [(2, 1, 1), (4, 1, 2), (1, 2, 2), (2, 2, 1), (2, 2, 2), (1, 2, 4), (8, 1, 1), (1, 8, 1)]
LAYOUTS = ["".join(order) for order in permutations("dtp")]


def cases(name):
    dice = Random(name)
    for degrees in dice.sample(DEGREES, 3 if ALL else 2):
        yield name, degrees, dice.choice((1, 2, 8)), dice.choice(("gpipe", "1f1b", "zb-h1")), dice.choice(LAYOUTS)


def words(degrees, microbatches, schedule, layout):
    d, t, p = degrees
    return [f"dtp={d},{t},{p}", f"microbatches={microbatches}", f"schedule={schedule}", f"layout={layout}"]


def assert_stands(module, *steps, hardware="dgx2-v100", then=()):
    """That each device of the one program is used as the device of its number is in the other."""
    whole = simulate(transform(module, *steps, *then), hardware)
    one = simulate(transform(module, *steps, "representative=true", *then), hardware)
    assert one.latency_s == whole.latency_s
    assert one.devices.items() <= whole.devices.items()
    return one, whole


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("name", "degrees", "microbatches", "schedule", "layout"), [case for name in MODELS for case in cases(name)]
)
def test_it_takes_as_long_and_as_much_memory(name, degrees, microbatches, schedule, layout):
    one, whole = assert_stands(MODELS[name](), *words(degrees, microbatches, schedule, layout))
    assert len(one.devices) == degrees[2]
    assert len(whole.devices) == degrees[0] * degrees[1] * degrees[2]


CLIPPED = ("grad", "loss=cross_entropy", "optimizer=adam", "precision=mixed", "clip=1.0")
PARTITIONED = {
    "mlp": lambda: distir.models.mlp(8, 64, batch=64, training=True),
    "gpt-2, mixed precision, clipped": lambda: transform(
        distir.models.gpt2(8, 64, 8, 8, batch=64, vocabulary=96), *CLIPPED
    ),
}


OVERLAPPED = 400 if ALL else 6
"""Random programs with streams."""


@pytest.mark.by_turns
@pytest.mark.parametrize("seed", range(OVERLAPPED))
def test_so_does_one_whose_communication_is_on_streams(seed):
    dice = Random(seed)
    d, t, p = dice.choice([(2, 1, 1), (4, 1, 2), (2, 2, 1), (2, 2, 2), (1, 2, 2), (1, 4, 2), (2, 1, 4)])
    schedule = dice.choice(("gpipe", "1f1b", "zb-h1", "zb-v"))
    steps = words((d, t, p), dice.choice((1, 2, 8)), schedule, dice.choice(LAYOUTS))
    steps.append(f"scatter_gather={dice.choice(('true', 'false'))}")
    zero = dice.choice((0, 1, 2, 3)) if d > 1 else 0
    then = (f"zero={zero}", "partition=split") if zero else ()
    apply = [kind for kind, applies in (("gradients", d > 1), ("transfers", p > 1)) if applies]
    kinds = dice.choice((",".join(apply), dice.choice(apply)))
    one, _ = assert_stands(PARTITIONED[dice.choice([*PARTITIONED])](), *steps, then=(*then, f"overlap={kinds}"))
    assert one.timeline().streams.keys() == one.devices.keys()
    assert max(map(len, one.timeline().streams.values())) > 1


def test_so_does_one_whose_sums_in_the_entry_function_are_beside_products():
    """Those of the embedding that two stages share: of each replica, side by side."""
    steps = words((2, 2, 2), 8 if ALL else 2, "gpipe", "ptd")
    then = ("zero=3", "partition=split", "overlap=products")
    assert_stands(PARTITIONED["gpt-2, mixed precision, clipped"](), *steps, then=then)


def test_so_does_one_whose_weights_are_gathered_ahead_in_each_shard_of_a_replica():
    """A shard waits for what it computes itself: in the program of all, its layers are among those of other shards."""
    then = ("zero=3", "partition=split", "overlap=weights")
    assert_stands(PARTITIONED["mlp"](), "dtp=2,2,1", "microbatches=4", then=then)


def zero_cases(name):
    dice = Random(name)
    for stage in (1, 2, 3):
        for degrees in dice.sample([(2, 1, 1), (4, 1, 2), (2, 2, 1), (2, 2, 2), (8, 1, 1), (2, 4, 2)], 2 if ALL else 1):
            layout = dice.choice(LAYOUTS)
            yield name, stage, degrees, dice.choice((1, 2, 8)), dice.choice(("gpipe", "1f1b", "zb-h1")), layout


@pytest.mark.by_turns
@pytest.mark.parametrize(
    ("name", "stage", "degrees", "microbatches", "schedule", "layout"),
    [case for name in PARTITIONED for case in zero_cases(name)],
)
def test_so_does_one_that_holds_as_large_a_part_as_the_others(name, stage, degrees, microbatches, schedule, layout):
    steps = words(degrees, microbatches, schedule, layout)
    one, _ = assert_stands(PARTITIONED[name](), *steps, then=(f"zero={stage}", "partition=split"))
    assert len(one.devices) == degrees[2]


def test_parts_of_buckets_too():
    assert_stands(PARTITIONED["mlp"](), "dtp=4,2,1", "bucket_bytes=8192", then=("zero=2", "partition=split"))


@pytest.mark.parametrize("partition", ["owner", "split"])
def test_unequal_parts_are_not_represented(partition):
    """The weights of the MLP have 63 rows and columns."""
    made = transform(distir.models.mlp(2, 63, batch=16, training=True), "dtp=2,1,1", "representative=true")
    with pytest.raises(ProgramError, match=r"2 replicas would hold different parts of `%\S+`") as caught:
        transform(made, "zero=1", f"partition={partition}")
    assert "leave out `representative=true`" in str(caught.value.diagnostics[0].help)


@pytest.mark.by_turns
@pytest.mark.each_once
@pytest.mark.parametrize("degrees", [(2, 1, 1), (2, 1, 2), (2, 2, 2), (4, 1, 2), (2, 1, 4)])
@pytest.mark.parametrize("name", [name for name in MODELS if "training" in name])
def test_gradients_in_buckets_too(name, degrees):
    """So no stage waits for another one's gradients, nor is any device charged for them."""
    for layout, bucket in zip(LAYOUTS, (1 << 9, 1 << 13, 1 << 30), strict=False):
        assert_stands(MODELS[name](), *words(degrees, 4, "1f1b", layout), f"bucket_bytes={bucket}")


@pytest.mark.parametrize("degrees", [(2, 1, 4), (2, 2, 2), (4, 2, 1)])
def test_a_bucket_is_of_devices_that_hold_the_same_weights(degrees):
    """So one that holds everything is, on each stage and shard, as large as what was summed there one by one."""
    module = distir.models.mlp(8, 64, batch=64, training=True)
    steps = words(degrees, 4, "1f1b", "pdt")
    one_by_one, joined = (summed(transform(module, *steps, f"bucket_bytes={size}")) for size in (0, 1 << 40))
    assert joined == one_by_one


def summed(module):
    """The bytes of all messages that each device takes part in."""
    found = {}
    for effect in simulate(module, "dgx2-v100").timeline().effects:
        for device in effect.devices if effect.work.communication else ():
            found[device] = found.get(device, 0) + effect.work.communication.nbytes
    return found


def test_sequences_that_are_split_too():
    one, _ = assert_stands(distir.models.gpt2(2, 64, 4, 8, batch=8, vocabulary=96), "dtp=2,4,1", "sequence=true")
    ops = {s.op for function in one.module for s in function.body if isinstance(s, Apply)}
    assert {"GroupAllgather", "GroupReduceScatter"} <= ops


def test_across_nodes():
    module = distir.models.mlp(8, 64, batch=64, training=True)
    assert_stands(module, "dtp=4,2,2", "microbatches=4", hardware="2x-dgx-a100")
    assert_stands(module, "dtp=4,2,2", "microbatches=4", "layout=dpt", hardware="2x-dgx-a100")


def test_it_is_a_program_like_any_other():
    """It reads back, and its entry function has the parameters of one pipeline."""
    module = distir.models.mlp(4, 64, batch=64, training=True)
    made = transform(module, "dtp=2,2,2", "microbatches=4", "representative=true")
    assert distir.parse(distir.format(made)) == made
    assert not check(made).errors
    assert len(made.entry().params) == len(module.entry().params)
    assert {d for p in made.entry().params for d in types.devices(p.type)} == {1, 5}


ALONE = """\
func @main(%x: Tensor[Float32, (1024, 1024), 1]) {{
  %y = GroupAllreduce[size = {size}, stride = {stride}](%x)
  return %y
}}
"""
TOGETHER = """\
func @main({params}) {{
  {results} = MPIAllreduce({args})
  return {results}
}}
"""


@pytest.mark.parametrize(("size", "stride"), [(2, 1), (4, 2), (2, 8), (16, 1), (8, 2)])
def test_it_is_the_collective_of_the_whole_group(size, stride):
    devices = range(1, 1 + size * stride, stride)
    params = ", ".join(f"%x_{d}: Tensor[Float32, (1024, 1024), {d}]" for d in devices)
    args, results = (", ".join(f"%{name}_{d}" for d in devices) for name in "xy")
    whole = simulate(distir.parse(TOGETHER.format(params=params, args=args, results=results)), "2x-dgx-a100")
    one = simulate(distir.parse(ALONE.format(size=size, stride=stride)), "2x-dgx-a100")
    assert one.latency_s == whole.latency_s


def test_calls_on_other_devices_may_stand_for_others_far_away():
    """What is alike is looked at once: not where the devices that one stands for are in another node."""
    text = """\
func @sum(%x: Float32(1024, 1024)) {
  %y = GroupAllreduce[size = 4](%x)
  return %y
}

func @main(%a: Tensor[Float32, (1024, 1024), 1], %b: Tensor[Float32, (1024, 1024), 7]) {
  %c = @sum(%a)
  %d = @sum(%b)
  return %c, %d
}
""".replace("Float32(1024, 1024)", "Tensor[Float32, (1024, 1024)]")
    devices = simulate(distir.parse(text), "2x-dgx-a100").devices
    assert devices[1].busy_s < devices[7].busy_s


def test_what_it_cannot_be_used_for():
    module = distir.models.mlp(4, 64, batch=16, training=True)
    made = transform(module, "dtp=2,2,1", "representative=true")
    with pytest.raises(VerifyError, match="one device represents others"):
        verify(module, made)
    with pytest.raises(ProgramError) as caught:
        lower([EntryPoint("main", made, made.entry(), tuple(p.type for p in made.entry().params))])
    assert "transform without `representative=true`" in str(caught.value.diagnostics[0].help)


def test_a_machine_with_too_few_devices():
    with pytest.raises(ProgramError, match="represents device 31") as caught:
        simulate(distir.parse(ALONE.format(size=4, stride=10)), "dgx2-v100")
    assert caught.value.diagnostics[0].code.number == "DIR504"


def test_shards_of_one_replica_are_no_replicas():
    """Their sums of gradients, of tokens that each has another part of, are not those of a batch."""
    step = transform(
        distir.models.named(
            "llama3-8b", layers=2, width=32, heads=4, kv_heads=2, ffn=16, vocabulary=32, batch=4, sequence=8
        ),
        *CLIPPED,
    )
    words = ["dtp=1,2,1", "sequence=true"]
    for more in ([], ["representative=true"]):
        with pytest.raises(ProgramError, match="no weights that data-parallel devices hold copies of and update"):
            transform(step, *words, *more, "zero=1", "partition=split")
