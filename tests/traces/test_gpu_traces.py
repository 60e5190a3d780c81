"""Traces of GPUs, written by hand so that all answers are known: kernels, streams, NCCL, ranks that wait."""

import json

import pytest
from command_line import distir as distir
from kineto_samples import PROGRAM, Rank, two_ranks

from distir import parse, simulate

US = 1e-6


@pytest.fixture
def compared(distir, tmp_path):
    """Compares a program with traces; gives the document."""

    def compare(program, folder, *options):
        path = tmp_path / "program.dir"
        path.write_text(program)
        ended = distir("compare", path, "--measured", folder, "--hardware", "dgx-h100", "--json", *options)
        assert ended.code == 0, ended.err
        return json.loads(ended.out)

    return compare


def rows(document):
    return {(row["kind"], row["side"]): row for row in document["kinds"]}


def test_shown(distir, tmp_path):
    document = json.loads(distir("import", "trace", two_ranks(tmp_path), "--json").out)
    first, second = document["ranks"]
    assert first["step_s"] == pytest.approx(1000 * US)
    # 50-350 us the product, 450-550 us Relu, 500-900 us the sum.
    assert first["busy_s"] == pytest.approx(750 * US)
    assert first["idle_s"] == pytest.approx(250 * US)
    assert first["communication_s"] == pytest.approx(400 * US)
    assert first["exposed_communication_s"] == pytest.approx(350 * US)
    assert (first["waiting_s"], second["waiting_s"]) == (pytest.approx(200 * US), 0)
    assert second["exposed_communication_s"] == pytest.approx(200 * US)
    assert first["streams"] == {"GPU 0 stream 20": pytest.approx(0.4), "GPU 0 stream 7": pytest.approx(0.4)}
    ops = {row["op"]: row for row in document["ops"]}
    assert ops["aten::mm"]["of"] == "1024×1024 1024×1024"
    assert ops["aten::mm"]["seconds"] == pytest.approx(300 * US)
    assert ops["aten::relu"]["seconds"] == pytest.approx(100 * US)  # its kernel names no op: the launch is inside
    assert ops["allreduce"]["of"] == "2097152 bytes, 2 ranks"
    assert ops["allreduce"]["seconds"] == pytest.approx(200 * US)


def test_compared(compared, tmp_path):
    document = compared(PROGRAM, two_ranks(tmp_path, steps=2))
    found = rows(document)
    assert {kind for kind, side in found if side != "both"} == set()
    # Rank 0 is idle for 250 us, waits for 200 us, and 50 us of the sum are beside Relu; rank 1 is idle for 400 us.
    measured = {"MatMul": 300, "Relu": 100, "allreduce": 200, "idle or waiting": 425, "overlap": -25}
    for kind, microseconds in measured.items():
        row = found[kind, "both"]
        assert row["measured_s"] == pytest.approx(microseconds * US), kind
        assert row["difference_s"] == pytest.approx(row["measured_s"] - row["simulated_s"])
    assert document["step"]["measured_s"] == pytest.approx(1000 * US)
    assert document["matched"] == {"simulated": pytest.approx(1), "measured": pytest.approx(1)}
    torch = {row["op"]: row["torch"] for row in document["statements"]}
    assert torch["MatMul"] == "aten::mm"
    assert torch["MPIAllreduce"].startswith("ncclDevKernel_allreduce")


def test_profile(compared, distir, tmp_path):
    folder, out = tmp_path / "traces", tmp_path / "ours.toml"
    folder.mkdir()
    document = compared(PROGRAM, two_ranks(folder, steps=8), "--profile-out", out)
    learned = document["profile"]
    assert {row["op"]: row["measured"] for row in learned["ops"]} == {"MatMul": 14, "Relu": 14}
    assert learned["issue_s"] == pytest.approx(35 * US)  # the launches of a step are 40 and 30 us apart
    (message,) = learned["messages"]
    assert (message["pattern"], message["devices"], message["measured"]) == ("allreduce", 2, 14)
    assert dict(map(tuple, message["times"]))[2097152] == pytest.approx(200 * US)
    # With it, ops take what was measured; the rest of the step is no property of the machine.
    again = rows(compared(PROGRAM, folder, "--hardware", out))
    for kind, microseconds in {"MatMul": 300, "Relu": 100, "allreduce": 200}.items():
        assert again[kind, "both"]["simulated_s"] == pytest.approx(microseconds * US, rel=1e-3)
    assert "torch.profiler's traces of 2 ranks, 14 steps, on " in out.read_text()


MESSAGES = """
func @main(%a_1: Tensor[Float32, ({n},), 1], %a_2: Tensor[Float32, ({n},), 2]) {{
  %b_1, %b_2 = MPIAllreduce(%a_1, %a_2)
  return %b_1, %b_2
}}
"""


@pytest.mark.parametrize("sizes", [(1 << 14, 1 << 20), (1 << 18,)], ids=["two sizes", "one size"])
def test_messages_of_other_sizes(sizes, compared, tmp_path):
    """Of a network of 50 us and 10 GB/s: two sizes say both; one, with the profile's latency, about the bandwidth."""

    def seconds(nbytes):
        return 50 + nbytes / 10e3  # us

    folder, out = tmp_path / "traces", tmp_path / "ours.toml"
    folder.mkdir()
    for rank in (0, 1):
        own = Rank(rank, 2)
        for step in range(3):
            own.step(step, 2000.0 * step, 2000.0)
            for number, elements in enumerate(sizes):
                at = 2000.0 * step + 1000 * number
                own.op("c10d::allreduce_", at + 80, 30)
                own.nccl("allreduce", at + 90, at + 100, seconds(4 * elements), elements, (0, 1), dtype="Float")
        own.write(folder / f"rank{rank}.json")
    lines = [f"  %b{n}_1, %b{n}_2 = MPIAllreduce(%a{n}_1, %a{n}_2)" for n in sizes]
    params = ", ".join(f"%a{n}_{d}: Tensor[Float32, ({n},), {d}]" for n in sizes for d in (1, 2))
    given = ", ".join(f"%b{n}_{d}" for n in sizes for d in (1, 2))
    program = "\n".join([f"func @main({params}) {{", *lines, f"  return {given}", "}"])
    compared(program, folder, "--profile-out", out)
    for elements in (1 << 8, 1 << 24):
        found = seconds_of(elements, out)
        expected = seconds(4 * elements) * US
        if len(sizes) == 2:
            assert found == pytest.approx(expected, rel=0.05)
        elif elements < sizes[0]:
            assert found < 2 * seconds_of(elements, "dgx-h100")
        else:
            assert found == pytest.approx(expected, rel=0.5)


def seconds_of(elements, hardware):
    return simulate(parse(MESSAGES.format(n=elements)), str(hardware)).latency_s


def test_what_only_one_side_has(compared, tmp_path):
    """An op that the program lacks, a statement that did not run, an op in another dimension: all are listed."""
    rank = Rank(0, 1)
    rank.step(5, 0, 1000)
    for at, name, dims in ((10, "aten::mm", [(512, 64), (64, 32)]), (20, "aten::gelu", [(512, 32)])):
        rank.kernel("k", at + 2, 10 * at, 50, external=rank.op(name, at, 5, dims))
    rank.kernel("Memcpy DtoH", 500, 600, 25)  # of no op
    rank.write(tmp_path / "one.json")
    program = """
    func @main(%x: Tensor[BFloat16, (512, 64), 1], %w: Tensor[BFloat16, (64, 32), 1]) {
      %h = MatMul(%x, %w)
      %y = Tanh(%h)
      return %y
    }
    """
    document = compared(program, tmp_path / "one.json")
    found = rows(document)
    assert found["MatMul", "both"]["measured_s"] == pytest.approx(50 * US)
    assert found["aten::gelu", "measured"]["measured_s"] == pytest.approx(50 * US)
    assert found["Memcpy DtoH", "measured"]["measured_s"] == pytest.approx(25 * US)
    assert found["Tanh", "simulated"]["n_simulated"] == 1


def test_equal_sizes_are_told_apart_by_modules(compared, tmp_path):
    """Of three equal products two ran: the calls of modules say which two."""
    rank = Rank(0, 1)
    rank.step(0, 0, 1000)
    for at, module in ((100, "Attention_0"), (300, "Output_0")):
        rank.add("python_function", f"nn.Module: {module}", 1, at, 100)
        rank.kernel("k", at + 20, at + 50, 40, external=rank.op("aten::mm", at + 10, 30, [(64, 64), (64, 64)]))
    rank.write(tmp_path / "one.json")
    body = "(%x: Tensor[BFloat16, (64, 64)], %w: Tensor[BFloat16, (64, 64)]) {\n %y = MatMul(%x, %w)\n return %y\n}\n"
    calls = "".join(f" %{name} = @{name}(%x, %w)\n" for name in ("attention", "router", "output"))
    main = "func @main(%x: Tensor[BFloat16, (64, 64), 1], %w: Tensor[BFloat16, (64, 64), 1]) {\n"
    program = "".join(f"func @{name}{body}" for name in ("attention", "router", "output"))
    document = compared(f"{program}{main}{calls} return %attention, %router, %output\n}}\n", tmp_path / "one.json")
    assert {row["function"]: row["modules"] for row in document["statements"]} == {
        "attention": ["Attention_0"],
        "output": ["Output_0"],
    }


def test_a_bias_is_fused(compared, tmp_path):
    """`addmm` is a product and a sum of the program."""
    rank = Rank(0, 1)
    rank.step(0, 0, 1000)
    rank.kernel("k", 12, 20, 70, external=rank.op("aten::addmm", 10, 5, [(32,), (512, 64), (64, 32)]))
    rank.write(tmp_path / "one.json")
    program = """
    func @main(%x: Tensor[BFloat16, (512, 64), 1], %w: Tensor[BFloat16, (64, 32), 1], %b: Tensor[BFloat16, (32,), 1]) {
      %h = MatMul(%x, %w)
      %y = Add(%h, %b)
      return %y
    }
    """
    document = compared(program, tmp_path / "one.json")
    assert set(rows(document)) == {("MatMul", "both"), ("idle or waiting", "both")}


def test_kernels_of_torch_compile(compared, tmp_path):
    """A Triton kernel names the ops that it is made of."""
    rank = Rank(0, 1)
    rank.step(0, 0, 1000)
    name = "triton_poi_fused_add_relu_0"
    rank.kernel(name, 12, 20, 70, external=rank.op(name, 10, 5, [(512, 32), (512, 32)]))
    rank.write(tmp_path / "one.json")
    program = """
    func @main(%x: Tensor[BFloat16, (512, 32), 1], %b: Tensor[BFloat16, (512, 32), 1]) {
      %h = Add(%x, %b)
      %y = Relu(%h)
      return %y
    }
    """
    document = compared(program, tmp_path / "one.json")
    assert {row["kind"] for row in document["kinds"]} == {"Add", "idle or waiting"}


def test_groups_of_ranks_wait_for_their_own_members(distir, tmp_path):
    """The n-th message of a group is the same one on its members, whatever other groups do meanwhile."""
    for rank, (group, took) in enumerate([((0, 1), 100), ((0, 1), 60), ((2, 3), 90), ((2, 3), 30)]):
        own = Rank(rank, 4)
        own.step(0, 0, 1000)
        own.op("aten::empty", 1, 1)
        own.nccl("_allgather_base", 10, 20, took, 1 << 10, group, received=1 << 11)
        own.write(tmp_path / f"rank{rank}.json")
    document = json.loads(distir("import", "trace", tmp_path, "--json").out)
    assert [round(row["waiting_s"] / US) for row in document["ranks"]] == [40, 0, 60, 0]


STATEMENTS = {
    'Gelu[approximate = "tanh"](%x: Tensor[Float32, (8, 64), 1])': ("aten::gelu", [(8, 64)]),
    "GeluGrad(%d: Tensor[Float32, (8, 64), 1], %x: Tensor[Float32, (8, 64), 1])": (
        "aten::gelu_backward",
        [(8, 64), (8, 64)],
    ),
    "Softmax(%x: Tensor[Float32, (8, 64), 1])": ("aten::_softmax", [(8, 64)]),
    "LayerNormalization(%x: Tensor[Float32, (8, 64), 1], %s: Tensor[Float32, (64,), 1])": (
        "aten::layer_norm",
        [(8, 64), (), (64,)],
    ),
    "Gather[axis = 0](%t: Tensor[Float32, (99, 64), 1], %i: Tensor[Int64, (8,), 1])": (
        "aten::embedding",
        [(99, 64), (8,)],
    ),
    "Mul(%x: Tensor[Float32, (8, 64), 1], %y: Tensor[Float32, (8, 64), 1])": ("aten::mul_", [(8, 64), (8, 64)]),
    "Attention[is_causal = true](%q: Tensor[BFloat16, (2, 4, 128, 64), 1], %k: Tensor[BFloat16, (2, 4, 128, 64), 1], "
    "%v: Tensor[BFloat16, (2, 4, 128, 64), 1])": (
        "flash_attn::_flash_attn_forward",
        [(2, 128, 4, 64)] * 3,  # of another layout
    ),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_torch_calls_a_statement(statement, compared, tmp_path):
    name, dims = STATEMENTS[statement]
    rank = Rank(0, 1)
    rank.step(0, 0, 1000)
    rank.kernel("k", 12, 20, 70, external=rank.op(name, 10, 5, dims))
    rank.write(tmp_path / "one.json")
    call, _, operands = statement.partition("(")
    params = operands[:-1]
    names = ", ".join(part.split(":")[0] for part in params.split(", %"))
    arguments = ", ".join(name if name.startswith("%") else f"%{name}" for name in names.split(", "))
    program = f"func @main({params}) {{\n  %z = {call}({arguments})\n  return %z\n}}\n"
    found = rows(compared(program, tmp_path / "one.json"))
    assert found[call.partition("[")[0], "both"]["measured_s"] == pytest.approx(70 * US)


def test_advice(compared, tmp_path):
    """A run that is sharded otherwise, and idles, is said to be."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for number in (0, 1):
        rank = Rank(number, 2)
        rank.step(0, 0, 9000)
        rank.kernel("k", 12, 20, 70, external=rank.op("aten::mm", 10, 5, [(1024, 1024), (1024, 1024)]))
        rank.nccl("_allgather_base", 30, 120, 50, 1 << 19, (0, 1), received=1 << 20)
        rank.write(folder / f"rank{number}.json")
    document = compared(PROGRAM, folder)
    said = " ".join(document["advice"])
    assert "the program communicates by `allreduce`, the run by `allgather`" in said
    assert "is idle or waits" in said


def test_an_empty_last_step_is_none(distir, tmp_path):
    rank = Rank(0, 1)
    rank.step(1, 0, 1000)
    rank.kernel("gemm", 14, 30, 900, external=rank.op("aten::mm", 10, 10, [(1024, 1024), (1024, 1024)]))
    rank.step(2, 1000, 6)
    ended = distir("import", "trace", rank.write(tmp_path / "rank0.json"), "--json")
    (found,) = json.loads(ended.out)["ranks"]
    assert found["steps"] == 1
    assert found["step_s"] == pytest.approx(1e-3)
    assert found["busy_s"] == pytest.approx(9e-4)


@pytest.mark.parametrize(
    ("op", "annotation", "expected"),
    [
        ("c10d::alltoall_base_", "nccl:all_to_all", "alltoall"),
        ("c10d::alltoall_base_", None, "alltoall"),
        ("record_param_comms", "nccl:gather", "gather"),
        ("c10d::send", "nccl:send 0->1", "send"),
    ],
)
def test_sends_and_receives_of_nccl_are_of_what_launched_them(op, annotation, expected, distir, tmp_path):
    rank = Rank(0, 2)
    rank.step(1, 0, 1000)
    own = rank.op(op, 10, 40)
    if annotation is not None:
        rank.add("user_annotation", annotation, 1, 15, 20)
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    rank.kernel(name, 20, 100, 500, stream=20, external=own)
    ended = distir("import", "trace", rank.write(tmp_path / "rank0.json"), "--json")
    assert [found["op"] for found in json.loads(ended.out)["ops"]] == [expected]
