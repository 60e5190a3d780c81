"""Execution traces for ASTRA-sim: read back by the published schema, they are what the program does."""

import json
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from simulate_samples import inlined, machine, random_module, with_kernels, with_streams
from thorough import most_examples

import distir
from distir.analysis import check
from distir.diagnostics import ProgramError
from distir.ir import DISCARD, HOST, Apply, types
from distir.models import mlp
from distir.ops import type_of
from distir.simulate import chakra, simulate
from distir.syntax import parse

MACHINE = machine()
quick = settings(
    max_examples=most_examples(40), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)

COMP, SEND, RECV, COLL = 4, 5, 6, 7
"""NodeType in schema/protobuf/et_def.proto of mlcommons/chakra; the numbers below are from there too."""

COLLECTIVES = {
    "allreduce": 0,
    "reduce": 1,
    "allgather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "alltoall": 6,
    "reducescatter": 7,
}


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """By number: the values of a message, as protobuf writes them."""
    found, at = defaultdict(list), 0
    while at < len(data):
        key, at = varint(data, at)
        assert key & 7 in (0, 2), "no field that is written has another wire type"
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        found[key >> 3].append(value)
    return found


def framed(data):
    at = 0
    while at < len(data):
        size, at = varint(data, at)
        yield data[at : at + size]
        at += size
    assert at == len(data)


def attribute(data):
    found = fields(data)
    kinds = {9: int, 11: int, 13: int, 27: bool, 29: bytes.decode}
    ((number, (value,)),) = ((number, values) for number, values in found.items() if number != 1)
    return found[1][0].decode(), kinds[number](value)


def packed(values):
    found = []
    for value in values:
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            found.append(number)
    return found


def node(data):
    found = fields(data)
    one = {"id": 1, "type": 3, "start": 6, "duration": 7}
    read = {name: found[number][0] if number in found else 0 for name, number in one.items()}
    read |= {"name": found[2][0].decode(), "ctrl": packed(found[4]), "data": packed(found[5])}
    return read | dict(map(attribute, found[10]))


def exported(simulation, folder):
    """The nodes of each rank, the communicators, and what the export said of itself."""
    written = chakra.write(simulation, folder)
    ranks = []
    for rank in range(len(written.devices)):
        head, *rest = framed((folder / f"trace.{rank}.et").read_bytes())
        assert fields(head)[1] == [b"0.0.4"]
        ranks.append([node(data) for data in rest])
    groups = {name: tuple(found) for name, found in json.loads((folder / "comm_groups.json").read_text()).items()}
    assert len(list(folder.iterdir())) == len(ranks) + 1, "nothing else is left behind"
    assert (written.nodes, written.groups) == (sum(map(len, ranks)), len(groups))
    return ranks, groups, written


def event_of(one, ranks):
    """The number of the event that a node is of."""
    return one["id"] // max(len(ranks), 2)


def comparable(one):
    return {name: value for name, value in one.items() if name not in ("name", "function")}


def expected_flow(simulation, devices):
    """By rank and event: the events that made leaves of its operands there, of a program without calls."""
    state, made, found = simulation.instance.state, {}, {}
    made.update((param.name, [None] * width(state[param.name])) for param in simulation.function.params)
    events = {event.place.statement: event for event in simulation.timeline().events()}
    for index, statement in enumerate(simulation.function.body):
        if not isinstance(statement, Apply):
            continue
        used = list(operands(statement.args, state, made))
        counts = simulation.body.steps[index].widths
        event = events.get(index)
        for rank, device in enumerate(devices if event is not None else ()):
            found[rank, event.index] = {maker for leaf, maker in used if leaf and leaf.device == device} - {None}
        if (
            event is None or statement.op == "After"
        ):  # views have their operands' leaves, in order; host values are made by no device
            whole = statement.op in ("MakeTuple", "UnpackTuple", "Identity", "After")
            passed = [maker for leaf, maker in used if whole or (leaf and leaf.device != HOST)]
            result = passed if whole or len(passed) == sum(counts) == 1 else [None] * sum(counts)
        else:
            result = [event.index] * sum(counts)
        for name, count in zip(statement.results, counts, strict=True):
            made[name], result = result[:count], result[count:]
            if event is None and name != DISCARD:  # what is known on the host is made by no device
                made[name] = [
                    None if leaf.device == HOST else m for leaf, m in zip(leaves(state[name]), made[name], strict=True)
                ]
    return found


def operands(args, state, made):
    """The leaves of arguments, None for those of literals, each with the event that made it."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from operands(arg, state, made)
        elif isinstance(arg, str):
            yield from zip(leaves(state[arg]), made[arg], strict=True)
        else:
            yield None, None


def leaves(value):
    return list(types.leaves(type_of(value)))


def width(value):
    return len(leaves(value))


def valid(simulation, ranks, groups, written):
    """Check what holds of all traces."""
    events = list(simulation.timeline().events())
    messages, members = defaultdict(list), defaultdict(list)
    for rank, (device, own) in enumerate(zip(written.devices, ranks, strict=True)):
        ids = [one["id"] for one in own]
        assert ids == sorted(set(ids))
        last = defaultdict(list)
        for one in own:
            assert all(other < one["id"] and other in set(ids) for other in (*one["ctrl"], *one["data"])), "acyclic"
            assert one["is_cpu_op"] is False
            if one["type"] in (SEND, RECV):
                assert rank == one["comm_src" if one["type"] == SEND else "comm_dst"]
                ends = one["comm_src"], one["comm_dst"], one["comm_tag"]
                messages[ends].append((one["type"], one["comm_size"]))
            elif one["type"] == COLL:
                assert rank in groups[one["pg_name"]]
                members[one["id"], one["pg_name"]].append((rank, one["comm_type"], one["comm_size"]))
            else:
                assert one["type"] == COMP
                assert one["num_ops"] > 0
                assert one["tensor_size"] > 0
        here = [event for event in events if device in event.effect.devices]
        if not here:
            assert [(one["name"], one["type"]) for one in own] == [("idle", COMP)], "ASTRA-sim takes no empty trace"
            continue
        assert list(dict.fromkeys(event_of(one, ranks) for one in own)) == [event.index for event in here]
        for event in here:
            nodes = [one for one in own if event_of(one, ranks) == event.index]
            work = event.effect.work
            stream = dict(zip(event.effect.devices, event.place.streams, strict=True))[device]
            assert all(one["ctrl"] == last[stream] for one in nodes), "in the order of its stream"
            last[stream] = [one["id"] for one in nodes]
            if work.communication is None:
                ((ops, nbytes),) = [(one["num_ops"], one["tensor_size"]) for one in nodes]
                flops = sum(count for _, count in work.arithmetic)
                assert (ops, nbytes) == (max(flops, 1), max(work.bytes, 1))
            elif nodes[0]["type"] == COLL:
                assert nodes[0]["comm_type"] == COLLECTIVES[work.communication.pattern]
                shared = work.communication.pattern in ("allgather", "gather", "scatter")
                parts = len(event.effect.devices) if shared else 1
                assert 0 <= nodes[0]["comm_size"] * parts - work.communication.nbytes < parts
                ranked = tuple(written.devices.index(member) for member in event.effect.devices)
                assert groups[nodes[0]["pg_name"]] == ranked
    ends = [{one["id"]: one["start"] + one["duration"] for one in own} for own in ranks]
    starts, free = {}, defaultdict(int)
    for own, ended in zip(ranks, ends, strict=True):
        for one in own:
            event = event_of(one, ranks)
            assert starts.setdefault(event, one["start"]) == one["start"]
            free[event] = max([free[event], *(ended[other] for other in (*one["ctrl"], *one["data"]))])
    assert starts == {event: free[event] for event in starts}, "what it waits for is all that it waits for"
    assert all(sorted(found) == [(SEND, size), (RECV, size)] for found in messages.values() for _, size in found[:1])
    for (_, name), found in members.items():
        assert tuple(rank for rank, _, _ in found) == tuple(sorted(groups[name])), "all take part"
        assert len({said for _, *said in map(tuple, found) for said in [tuple(said)]}) == 1


@quick
@given(st.integers(0, 2**32))
def test_traces_of_random_programs_are_what_they_do(tmp_path_factory, seed):
    rng = random.Random(seed)
    module = random_module(rng)
    if rng.random() < 0.5:
        module = with_streams(rng, module)
    assume(not check(module).errors)
    whole, flat = simulate(module, MACHINE), simulate(inlined(module), MACHINE)
    ranks, groups, written = exported(whole, tmp_path_factory.mktemp("whole"))
    valid(whole, ranks, groups, written)
    again, *_ = exported(flat, tmp_path_factory.mktemp("flat"))
    assert [list(map(comparable, own)) for own in again] == [list(map(comparable, own)) for own in ranks]
    flow = expected_flow(flat, written.devices)
    for rank, own in enumerate(ranks):
        for one in own:
            awaited = {event_of(other, ranks) for other in own if other["id"] in one["data"]}
            assert awaited == flow.get((rank, event_of(one, ranks)), set())


@quick
@given(st.integers(0, 2**32))
def test_a_kernel_is_one_node(tmp_path_factory, seed):
    module = with_kernels(random_module(random.Random(seed)))
    assume(not check(module).errors and any(function.kernel for function in module))
    simulation = simulate(module, MACHINE)
    valid(simulation, *exported(simulation, tmp_path_factory.mktemp("kernels")))


def run(ranks):
    """Run traces as ASTRA-sim does: on a rank, one op computes and one communicates; receives wait for messages.

    Gives the nodes that were run, in order.
    """
    done, order, sent = [set() for _ in ranks], [], set()
    left = [{one["id"]: one for one in own} for own in ranks]
    begun = defaultdict(dict)
    while any(left):
        progress = False
        for rank, own in enumerate(left):
            ready = [one for one in own.values() if done[rank].issuperset([*one["ctrl"], *one["data"]])]
            for one in ready:
                ends = one.get("comm_src"), one.get("comm_dst"), one.get("comm_tag")
                if one["type"] == COLL:
                    others = begun[one["id"]]
                    others[rank] = one
                    if len(others) < len(one["members"]):
                        continue
                    for member in others:
                        done[member].add(one["id"])
                        order.append((member, left[member].pop(one["id"])))
                    progress = True
                    break
                if one["type"] == RECV and ends not in sent:
                    continue
                sent |= {ends} if one["type"] == SEND else set()
                done[rank].add(one["id"])
                order.append((rank, own.pop(one["id"])))
                progress = True
        assert progress, "nothing waits for ever"
    return order


@pytest.mark.parametrize(
    "steps",
    [
        ("dtp=2,2,2", "microbatches=4"),
        ("pp=4", "microbatches=4", "schedule=zb-h1"),
        ("dp=4", "zero=3"),
        ("dtp=2,1,2", "microbatches=4", "overlap=transfers,gradients"),
    ],
    ids=" ".join,
)
def test_a_training_step_runs_from_its_traces(tmp_path, steps):
    module = distir.transform(mlp(4, 8, 64, training=True), *steps)
    simulation = distir.simulate(module)
    ranks, groups, written = exported(simulation, tmp_path)
    valid(simulation, ranks, groups, written)
    for own in ranks:
        for one in own:
            one["members"] = groups.get(one.get("pg_name"), ())
    assert len(run(ranks)) == written.nodes
    for own in ranks:
        finish = max(one["start"] + one["duration"] for one in own)
        assert finish <= simulation.latency_s * 1e6 + 1
        phases = Counter(one.get("phase") for one in own)
        assert {"forward", "backward", "optimizer"} <= phases.keys() | (
            {"backward"} if "zb-h1" in str(steps) else set()
        )
    assert any("stream" in one for own in ranks for one in own) == ("overlap" in str(steps))


def test_the_package_of_chakra_reads_them(tmp_path, monkeypatch):
    """`pip install mlc-chakra`, which is MLCommons' own: its schema and its tools."""
    jsonizer = pytest.importorskip("chakra.src.jsonizer.jsonizer")
    simulation = distir.simulate(distir.transform(mlp(4, 8, 64, training=True), "dtp=2,2,1", "microbatches=2"))
    ranks, *_ = exported(simulation, tmp_path / "traces")
    for rank, own in enumerate(ranks):
        words = [
            "--input_filename",
            str(tmp_path / f"traces/trace.{rank}.et"),
            "--output_filename",
            str(tmp_path / "o"),
        ]
        monkeypatch.setattr(sys, "argv", ["chakra_jsonizer", *words])
        jsonizer.main()
        decoder, text, found = json.JSONDecoder(), (tmp_path / "o").read_text(), []
        while text:
            one, end = decoder.raw_decode(text)
            found, text = [*found, one], text[end:]
        assert found[0]["version"] == "0.0.4"
        for read, node in zip(found[1:], own, strict=True):
            assert (int(read.get("id", 0)), read["name"]) == (node["id"], node["name"])
            assert [*map(int, read.get("dataDeps", ()))] == node["data"]
            assert [*map(int, read.get("ctrlDeps", ()))] == node["ctrl"]
            values = {a["name"]: next(v for k, v in a.items() if k.endswith("Val")) for a in read["attr"]}
            assert {k: str(v) for k, v in values.items()} == {k: str(node[k]) for k in values}


RING = """
func @main(%x: Tensor[Float32, (4, 8), 3], %y: Tensor[Float32, (4, 8), 1], %z: Tensor[Float32, (4, 8), 2], %w: Tensor[Float32, (4, 8), 7]) {
  %a, %b, %c = MPIShift[by = 1](%x, %y, %z)
  %d = Relu(%b)
  %e, %f, %g = MPIShift[by = 3](%a, %d, %c)
  return %e, %f, %g, %w
}
"""  # noqa: E501


def test_a_step_around_a_ring_is_a_send_and_a_receive(tmp_path):
    """Devices 1, 2, 3 and 7 are ranks 0 to 3; the ring is 3 → 1 → 2 → 3."""
    simulation = simulate(parse(RING).module, machine(more=3))
    ranks, groups, written = exported(simulation, tmp_path)
    valid(simulation, ranks, groups, written)
    assert written.devices == (1, 2, 3, 7)
    assert groups == {}
    sent = [(one["comm_src"], one["comm_dst"], one["comm_size"]) for own in ranks for one in own if one["type"] == SEND]
    assert sent == [(0, 1, 128), (1, 2, 128), (2, 0, 128)]
    shift, received, relu, copied = ranks[0]
    assert [one["type"] for one in ranks[0]] == [SEND, RECV, COMP, COMP]
    assert (relu["data"], relu["ctrl"]) == ([received["id"]], [shift["id"], received["id"]])
    assert (copied["data"], copied["tensor_size"]) == ([relu["id"]], 128), "a full turn is a copy"
    assert ranks[1][2]["data"] == [ranks[1][1]["id"]]


ROOTED = """
func @main(%x: Tensor[Float32, (4, 8), 0], %y: Tensor[Float32, (4, 8), 1]) {
  %a = MPIReduce[root = 1](%x, %y)
  %b_0, %b_1 = MPIBroadcast[devices = [0, 1]](%a)
  %c_0, %c_1 = MPIAllgather[axis = 0](%b_0, %b_1)
  return %c_0, %c_1
}
"""


def test_what_astra_sim_does_not_run_is_counted(tmp_path):
    simulation = simulate(parse(ROOTED).module, MACHINE)
    ranks, groups, written = exported(simulation, tmp_path)
    valid(simulation, ranks, groups, written)
    assert written.unsupported == {"reduce": 2}
    assert groups == {"1": (0, 1)}
    assert [one.get("root_rank") for one in ranks[0]] == [1, 1, None]
    assert [one["comm_size"] for one in ranks[0]] == [128, 128, 128], "of an all-gather what each rank gives"


def test_devices_that_represent_others_are_refused(tmp_path):
    module = distir.transform(mlp(4, 8, 64, training=True), "dtp=2,2,1", "representative=true")
    with pytest.raises(chakra.ChakraError, match="represents several") as raised:
        chakra.write(distir.simulate(module), tmp_path / "out")
    assert "without `representative=true`" in raised.value.help
    assert not list(tmp_path.iterdir())


def test_too_many_nodes_are_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(chakra.writing, "MOST_NODES", 5)
    simulation = simulate(parse(ROOTED).module, MACHINE)
    with pytest.raises(ProgramError, match="6 nodes; execution traces have at most 5"):
        chakra.write(simulation, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_traces_of_more_ranks_are_not_mixed_with_those_of_fewer(tmp_path):
    simulation = simulate(parse(ROOTED).module, MACHINE)
    (tmp_path / "trace.2.et").write_bytes(b"")
    with pytest.raises(chakra.ChakraError, match=r"traces of more ranks, such as `trace\.2\.et`"):
        chakra.write(simulation, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.2.et"]
    (tmp_path / "trace.2.et").rename(tmp_path / "trace.1.et")
    chakra.write(simulation, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"trace.0.et", "trace.1.et", "comm_groups.json"}


def test_an_export_that_fails_leaves_no_file(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    simulation = simulate(parse(ROOTED).module, MACHINE)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        chakra.write(simulation, tmp_path)
    assert not list(tmp_path.iterdir())


def test_few_bytes_are_held_at_once(tmp_path, monkeypatch):
    simulation = distir.simulate(distir.transform(mlp(4, 8, 64, training=True), "dp=4"))
    plain, small = tmp_path / "plain", tmp_path / "small"
    chakra.write(simulation, plain)
    monkeypatch.setattr(chakra.writing, "MOST_HELD", 100)
    chakra.write(simulation, small)
    assert {p.name: p.read_bytes() for p in plain.iterdir()} == {p.name: p.read_bytes() for p in small.iterdir()}


def test_a_missing_protobuf_is_named(tmp_path, monkeypatch):
    chakra.schema.messages.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ImportError, match=r"pip install 'distir\[chakra\]'"):
        chakra.write(simulate(parse(ROOTED).module, MACHINE), tmp_path)
