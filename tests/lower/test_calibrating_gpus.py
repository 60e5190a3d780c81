"""What `calibrate` runs on GPUs, as one rank of two: with tensors without data, and a group that sends nothing."""

import json

import pytest
from lowering_samples import load_runtime
from test_streams_lowered import Streams, one_of_two

from distir.cli.calibrate import QUICK_ELEMENTS_GPU, _write
from distir.cost.calibrate import communicating, computing, plan
from distir.cost.calibrate.measuring import COMMUNICATING, COMPUTING

torch = pytest.importorskip("torch")

__all__ = ["one_of_two"]  # a fixture


def chosen():
    """Of each op, and each element type, the benchmark of most bytes."""
    found = {}
    for benchmark in computing(("BFloat16", "Float32"), gpus=True):
        key = benchmark.op, benchmark.work.dtype
        found[key] = max(benchmark, found.get(key, benchmark), key=lambda b: b.nbytes)
    return list(found.values())


def test_every_benchmark_runs_as_on_a_gpu(tmp_path, monkeypatch, one_of_two):
    from torch._subclasses.fake_tensor import FakeTensorMode

    alone, together = chosen(), communicating(2, gpus=True)
    _write(tmp_path, alone, together)
    streams = Streams()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: streams.stream("beside"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: streams.stream(streams.current))
    monkeypatch.setattr(torch.cuda, "stream", streams.inside)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: (9, 0))
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda x, stream: None)
    ran = 0
    # torch without CUDA cannot index tensors of a GPU, even without data: what does not communicate is on no GPU here.
    for folder, benchmarks, device in ((COMPUTING, alone, "cpu"), (COMMUNICATING, together, "cuda")):
        program = load_runtime(tmp_path / folder).LoweredProgram(tmp_path / folder)
        program.rank = 0
        program.module.DEVICE = torch.device(device, 0) if device == "cuda" else torch.device("cpu")
        program.module.GROUP[0, 1] = one_of_two
        for benchmark in benchmarks:
            part = program.entry(benchmark.name)
            with FakeTensorMode():
                values = [
                    torch.empty(p["type"]["shape"], dtype=getattr(torch, p["type"]["dtype"]), device=device)
                    for p in part["params"]
                ]
                results = getattr(program.module, part["function"])(*values)
            assert all(r.device.type == device for r in (results if isinstance(results, tuple) else (results,)))
            ran += 1
    assert ran > 80
    begun = [who for who, what, _ in streams.log if what == "waits for" and who == "beside"]
    assert len(begun) > 8  # all-reduces beside products


def test_a_gpu_repeats_every_op_however_large():
    """None is timed among others of its size, on operands that are in the host's memory."""
    planned = json.loads(plan(benchmarks := computing(("BFloat16", "Float32"), gpus=True), []))
    assert planned["mixed"]["entries"] == []
    assert planned["folders"][0]["entries"] == [b.name for b in benchmarks]
    assert min(b.repeats for b in benchmarks) == 1  # the largest fill the memory that one run may take


def test_a_quick_calibration_has_products_in_every_element_type():
    found = computing(("BFloat16", "Float32"), most=QUICK_ELEMENTS_GPU, gpus=True)
    assert {b.work.dtype.name for b in found if b.op == "MatMul"} == {"BFloat16", "Float32"}
