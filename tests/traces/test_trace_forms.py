"""Traces as others record them: earlier torch, other devices, serving, CUDA graphs, cut files; what is missing is said.

The forms are those of pytorch/kineto (`tb_plugin/test/gpu_metrics_input.json` at 301f611b, `docs/traces` at 00a807b7),
facebookresearch/HolisticTraceAnalysis (`tests/data`) and ROCm's, and of vLLM and SGLang.
"""

import json

import pytest
from command_line import distir as distir
from kineto_samples import PROGRAM, Rank

SHAPES = [(64, 64), (64, 64)]
H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]


def write(rank, path, **head):
    document = rank.document() | head
    path.write_text(json.dumps(document))
    return path


def shown(distir, path):
    ended = distir("import", "trace", path, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    return found, found["ranks"][0]


def step(rank, number, t, ops=5, length=1000, mark="ProfilerStep#{}"):
    """A step with products of 100 us each."""
    if mark is not None:
        rank.add("user_annotation", mark.format(number), 1, t, length)
    for i in range(ops):
        at = t + 10 + i * (length - 20) / ops
        own = rank.op("aten::mm", at, 20, SHAPES)
        rank.kernel("nvjet", at + 5, at + 30, 100, external=own)


def patterns(found):
    return {row["op"]: row["seconds"] for row in found["ops"] if row["op"] != "aten::mm"}


# Collectives.


@pytest.mark.parametrize(
    ("around", "kernel", "pattern"),
    [
        (["c10d::send", "nccl:send 0->1"], "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send"),
        (["c10d::recv_", "nccl:recv 0<-1"], "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "send"),
        (["nccl:coalesced"], "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send"),
        (["c10d::alltoall_base_", "nccl:all_to_allv"], "ncclDevKernel_SendRecv(ncclDevComm*)", "alltoall"),
        (["c10d::broadcast_", "nccl:broadcast"], "ncclKernel_Generic(ncclDevComm*)", "broadcast"),
        (["_c10d_functional::reduce_scatter_tensor"], "ncclDevKernel_Generic_4(ncclArgs)", "reducescatter"),
        (["c10d::barrier", "nccl:all_reduce_barrier"], "ncclDevKernel_AllReduce_Sum_u8_RING_LL(x)", "allreduce"),
        (["_C_custom_ar::all_reduce"], "void vllm::cross_device_reduce_1stage<half, 8>(x)", "allreduce"),
        ([], "ncclAllReduceRingLLKernel_sum_f32(ncclColl)", "allreduce"),
        ([], "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs4K)", "allgather"),
        ([], "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "communication"),
        # deepseek-ai/DeepEP, csrc/kernels; ROCm/mori; TransformerEngine's userbuffers.
        ([], "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*)", "alltoall"),
        ([], "void deep_ep::internode_ll::combine<true, 7168, 9>(void*, void*)", "alltoall"),
        ([], "void mori::moe::EpDispatchIntraNodeKernel<__hip_bfloat16>(mori::moe::Args)", "alltoall"),
        ([], "kuserbuffers_pushrecv(int, int, int*)", "send"),
        ([], "void userbuffers_fp16_sum_inplace_gpu_rr_rs<2>(int, int*)", "communication"),
    ],
)
def test_a_collective_is_what_launched_it(around, kernel, pattern, distir, tmp_path):
    rank = Rank(0, 4)
    for number in (1, 2):
        step(rank, number, 1000 * number, ops=3)
        for i, name in enumerate(around):
            category = "cpu_op" if "::" in name else "user_annotation"
            rank.add(category, name, 1, 1000 * number + 800 + i, 60 - 2 * i)
        rank.kernel(kernel, 1000 * number + 820, 1000 * number + 850, 100, stream=20)
    found, _ = shown(distir, write(rank, tmp_path / "rank0.json"))
    assert patterns(found) == {pattern: pytest.approx(1e-4)}
    assert found["ranks"][0]["communication_s"] == pytest.approx(1e-4)
    assert any("nothing recorded says which collective" in note for note in found["notes"]) == (
        pattern == "communication"
    )


def test_a_kernel_that_counts_tokens_of_experts_computes(distir, tmp_path):
    rank = Rank(0, 4)
    for number in (1, 2):
        step(rank, number, 1000 * number, ops=3)
        name = "void deep_ep::layout::get_dispatch_layout<256, 4, 8>(long const*)"
        rank.kernel(name, 1000 * number + 820, 1000 * number + 850, 100)
    _, row = shown(distir, write(rank, tmp_path / "rank0.json"))
    assert row["communication_s"] == 0


def test_record_param_comms_says_sizes_and_group(distir, tmp_path):
    rank = Rank(0, 8)
    step(rank, 1, 0, ops=3)
    said = {"Collective name": "_allgather_base", "In msg nelems": 512, "Out msg nelems": 4096, "Group size": 8}
    rank.add("cpu_op", "record_param_comms", 1, 808, 40, dtype="Half", **said)
    rank.kernel("ncclDevKernel_Generic_4(ncclArgs)", 820, 850, 100, stream=20)
    found, _ = shown(distir, write(rank, tmp_path / "rank0.json"))
    (row,) = [row for row in found["ops"] if row["op"] == "allgather"]
    assert row["of"] == "1024 bytes, 8 ranks"


@pytest.mark.parametrize(("inside", "category"), [("aten::copy_", "kernel"), (None, "gpu_memcpy")])
def test_copies_around_a_collective_are_none(inside, category, distir, tmp_path):
    rank = Rank(0, 4)
    step(rank, 1, 0, ops=3)
    rank.op("c10d::allgather_", 800, 60)
    rank.add("user_annotation", "nccl:all_gather", 1, 805, 50)
    if inside is not None:
        rank.op(inside, 815, 20)
    rank.kernel("copied", 820, 850, 100)
    rank.events[-1]["cat"] = category
    found, own = shown(distir, write(rank, tmp_path / "rank0.json"))
    assert own["communication_s"] == 0
    assert sum(row["seconds"] for row in found["ops"]) == pytest.approx(4e-4)


# Steps.


def test_a_last_step_that_is_cut_is_left_out_and_said(distir, tmp_path):
    rank = Rank(0, 1)
    for number in (1, 2, 3):
        step(rank, number, 1000 * number)
    step(rank, 4, 4000, ops=1, length=100)
    found, own = shown(distir, write(rank, tmp_path / "rank0.json"))
    assert own["step_s"] == pytest.approx(1e-3)
    assert any("left out is step 4, which has 1 ops where others have 5" in note for note in found["notes"])


def test_a_first_step_without_kernels_is_left_out_and_said(distir, tmp_path):
    rank = Rank(0, 1)
    for number in (1, 2, 3):
        step(rank, number, 1000 * number)
    rank.events = [e for e in rank.events if e["cat"] != "kernel" or e["ts"] >= rank.start + 2000]
    found, own = shown(distir, write(rank, tmp_path / "rank0.json"))
    assert own["busy_s"] == pytest.approx(5e-4)
    assert any("step 1, in which nothing ran" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("marks", "name"),
    [
        (["execute_context_0(0)_generation_8(8)", "execute_context_1(16)_generation_9(9)"], "execute_context"),
        (["step[DECODE bs=8]", "step[EXTEND bs=1 toks=77]"], "step"),
        (["train_iteration"], "train_iteration"),
        (["[pl][profile]run_training_batch"], "[pl][profile]run_training_batch"),
    ],
)
def test_without_profiler_steps_an_annotation_that_repeats_marks_them(marks, name, distir, tmp_path):
    rank = Rank(0, 1)
    for number in range(4):
        step(rank, number, 1000 * number, length=950, mark=marks[number % len(marks)])
    found, own = shown(distir, write(rank, tmp_path / "a.json"))
    assert own["steps"] == 4
    assert own["step_s"] == pytest.approx(950e-6)
    assert any(f"steps are what the annotation `{name}` marks" in note for note in found["notes"])


@pytest.mark.parametrize("mark", [None, "Optimizer.step#AdamW.step", "forward", "model_runner: forward"])
def test_what_marks_a_part_of_a_step_marks_none(mark, distir, tmp_path):
    rank = Rank(0, 1)
    for number in range(3):
        step(rank, number, 1000 * number, mark=None)
        if mark is not None:
            rank.add("user_annotation", mark, 1, 1000 * number + 5, 300)
    found, own = shown(distir, write(rank, tmp_path / "a.json"))
    assert own["steps"] == 1
    assert any("each file counts as one step" in note for note in found["notes"])


def test_kernels_far_behind_their_steps_are_said(distir, tmp_path):
    rank = Rank(0, 1)
    for number in (1, 2, 3):
        rank.step(number, 100 * number, 100)
        rank.kernel(
            "nvjet", 100 * number + 5, 1000 * number, 900, external=rank.op("aten::mm", 100 * number, 20, SHAPES)
        )
    found, _ = shown(distir, write(rank, tmp_path / "a.json"))
    assert any("the host runs ahead" in note for note in found["notes"])


# Devices, and what is recorded of them.


def test_torch_1_8(distir, tmp_path):
    rank = Rank(0, 1)
    rank.add("Operator", "ProfilerStep#1", "24572", 0, 1000)
    rank.add(
        "Operator", "aten::mm", "24572", 10, 30, **{"External id": 1, "Input dims": SHAPES, "Input type": ["float"] * 2}
    )
    rank.add("Runtime", "cudaLaunchKernel", "24572", 20, 5, **{"correlation": 7, "external id": 1})
    rank.add("Kernel", "sgemm", "stream 7", 100, 500, **{"device": 0, "correlation": 7, "external id": 1})
    rank.add("Memcpy", "Memcpy HtoD", "stream 7", 700, 100, device=0, stream=7, correlation=9)
    path = write(rank, tmp_path / "worker0.json", computeProperties=[{"id": 0, "name": "Tesla V100-DGXS-32GB"}])
    found, own = shown(distir, path)
    assert own["busy_s"] == pytest.approx(6e-4)
    assert own["device"] == {"kind": "CUDA", "names": ["Tesla V100-DGXS-32GB"]}
    assert own["streams"] == {"GPU 0 stream 7": pytest.approx(0.6)}
    assert found["ops"][0] == {"op": "aten::mm", "of": "64×64 64×64", "n": 1, "seconds": pytest.approx(5e-4)}


@pytest.mark.parametrize(
    ("category", "runtime", "call", "kind"),
    [
        ("kernel", "cuda_runtime", "hipExtLaunchKernel", "ROCm"),
        ("kernel", "xpu_runtime", "urEnqueueKernelLaunch", "XPU"),
        ("mtia_ccp_events", "mtia_runtime", "runFunction", "MTIA"),
        ("kernel", "privateuse1_runtime", "LaunchKernel", "a device of a plugin"),
    ],
)
def test_other_devices(category, runtime, call, kind, distir, tmp_path):
    rank = Rank(0, 1)
    rank.step(1, 0, 1000)
    rank.op("aten::mm", 10, 50, SHAPES)
    rank.add(runtime, call, 1, 15, 5, correlation=3)
    rank.add(category, "gemm", 7, 100, 400, correlation=3, device=0, stream=7)
    found, own = shown(distir, write(rank, tmp_path / "a.json"))
    assert own["device"]["kind"] == kind
    assert own["busy_s"] == pytest.approx(4e-4)
    assert [row["op"] for row in found["ops"]] == ["aten::mm"]


@pytest.mark.parametrize(("runtime", "call"), [("cuda_runtime", "cudaLaunchKernel"), ("mtia_runtime", "runFunction")])
def test_a_device_without_kernels_has_no_times(runtime, call, distir, tmp_path):
    rank = Rank(0, 1)
    rank.step(1, 0, 1000)
    rank.op("aten::mm", 10, 50, SHAPES)
    rank.add(runtime, call, 1, 15, 5, correlation=3)
    path = write(rank, tmp_path / "rank0.json", deviceProperties=H100)
    found, own = shown(distir, path)
    assert own["step_s"] == pytest.approx(1e-3)
    assert own["busy_s"] is None
    assert any("of which no kernel is recorded: times of ops are those of the host" in note for note in found["notes"])
    assert "      -" in distir("import", "trace", path).out
    program = tmp_path / "p.dir"
    program.write_text(PROGRAM)
    ended = distir("compare", program, "--measured", path, "--hardware", "dgx-h100")
    assert ended.code == 2
    assert "has no kernel of the GPU that its ops ran on (NVIDIA H100 80GB HBM3)" in ended.err


def test_a_gpu_of_which_nothing_is_recorded_is_said(distir, tmp_path):
    rank = Rank(0, 1)
    rank.step(1, 0, 1000)
    rank.op("aten::mm", 10, 50, SHAPES)
    found, own = shown(distir, write(rank, tmp_path / "a.json", deviceProperties=H100))
    assert own["device"]["kind"] == "CPU"
    assert any("nothing is recorded of the machine's GPU (NVIDIA H100 80GB HBM3)" in note for note in found["notes"])


def test_kernels_alone(distir, tmp_path):
    rank = Rank(0, 1)
    for number in (1, 2):
        rank.add("gpu_user_annotation", f"ProfilerStep#{number}", 7, 1000 * number, 900)
        rank.add("kernel", "nvjet", 7, 1000 * number + 100, 400, device=0, stream=7, correlation=number)
    found, own = shown(distir, write(rank, tmp_path / "a.json"))
    assert (own["steps"], own["busy_s"]) == (2, pytest.approx(4e-4))
    assert any("no op of the host is recorded" in note for note in found["notes"])


def test_kernels_of_a_cuda_graph_are_listed_one_by_one(distir, tmp_path):
    rank = Rank(0, 1)
    for number in (1, 2):
        t = 1000 * number
        rank.step(number, t, 1000)
        rank.add("cpu_op", "vllm::forward", 1, t + 50, 100)
        rank.add("cuda_runtime", "cudaGraphLaunch", 1, t + 100, 20, correlation=number)
        for i in range(10):
            at = t + 200 + 50 * i
            rank.add(
                "kernel", f"kernel_{i % 2}", 7, at, 40, correlation=number, device=0, stream=7, **{"graph node id": 9}
            )
    found, own = shown(distir, write(rank, tmp_path / "a.json"))
    assert own["busy_s"] == pytest.approx(4e-4)
    assert [(row["op"], row["n"]) for row in found["ops"]] == [("kernel_0", 5), ("kernel_1", 5)]
    assert any("20 kernels are of CUDA graphs" in note for note in found["notes"])


def test_ranks_in_one_file_are_said(distir, tmp_path):
    rank = Rank(0, 1)
    for process in (0, 1):
        own = Rank(0, 1)
        step(own, 1, 0, ops=3)
        for event in own.events:
            event["pid"] = process if event["cat"] == "kernel" else 100 + process
            event["args"] |= {"device": process} if event["cat"] == "kernel" else {}
        rank.events += own.events
    found, _ = shown(distir, write(rank, tmp_path / "a.json"))
    assert any("has kernels of 2 GPUs: its figures are of all of them together" in note for note in found["notes"])


# Text.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"stream": 7', b'"bandwidth (GB/s)": inf, "est": -nan, "stream": 7'),
        (b"nvjet", b"nvjet\thsh\x01"),
        (b"nvjet", b"nvjet\xff\xfehsh"),
    ],
)
def test_text_that_is_not_quite_json_is_read(before, after, distir, tmp_path):
    rank = Rank(0, 1)
    step(rank, 1, 0)
    path = write(rank, tmp_path / "a.json")
    path.write_bytes(path.read_bytes().replace(before, after))
    _, own = shown(distir, path)
    assert own["busy_s"] == pytest.approx(5e-4)


OLD = {"name": "aten::mm", "ph": "X", "ts": 1, "dur": 2, "tid": "CPU functions", "pid": "CPU functions"}
OTHER = {"ph": "X", "name": "fusion.1", "ts": 1, "dur": 2}


def named(process):
    return {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": process}}


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            [{"name": "aten::mm", "ph": "X", "ts": 1, "dur": 2, "tid": "CPU functions", "pid": "CPU functions"}],
            "the older",
        ),
        (
            {"traceEvents": [named("/device:TPU:0"), {"ph": "X", "name": "fusion.1", "ts": 1, "dur": 2}]},
            "a profile of XLA",
        ),
        ([named("Ascend Hardware"), OTHER], "torch_npu, on Ascend"),
        ({"schema": "1.1.0-chakra.0.0.4", "nodes": []}, "it is an execution trace (Chakra)"),
        ({"segments": [], "device_traces": []}, "it is a snapshot of torch's allocator"),
        ({"traceEvents": [{"ph": p, "name": "a", "ts": i} for i, p in enumerate("BEBE")]}, "pairs of begin and end"),
        ({"traceEvents": [{"ph": "X", "cat": "overhead", "name": "a", "ts": 1}]}, "(they are of `overhead`)"),
    ],
)
def test_what_a_file_is_that_is_no_trace_of_torch(document, said, distir, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document))
    ended = distir("import", "trace", path)
    assert ended.code == 2
    assert said in ended.err


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"PK\x03\x04" + bytes(40), "an archive (zip)"),
        (bytes(257) + b"ustar" + bytes(250), "an archive (tar)"),
        (b"\x28\xb5\x2f\xfd" + bytes(40), "compressed with zstd"),
        (b"SQLite format 3\0" + bytes(80), "a database (SQLite)"),
        (b"\x80\x04\x95" + bytes(40), "a pickle"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "a pointer of Git LFS"),
        (b"<!DOCTYPE html>\n<html></html>", "HTML"),
        (b"[[1, 2], [[3, 4]]]", "no list of events"),
    ],
)
def test_what_a_file_is_that_is_no_json_of_events(data, said, distir, tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(data)
    ended = distir("import", "trace", path)
    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
