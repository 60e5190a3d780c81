"""The models beside what was measured. Figures and sources are those that the profiles cite."""

import pytest
from cost_samples import seconds

from distir.cost import load
from distir.ir import DTYPES
from distir.ops.resources import Work

MIB = 2**20
FLOAT16, FLOAT32 = DTYPES["Float16"], DTYPES["Float32"]


def matmul(n, dtype):
    return Work(flops=2 * n**3, bytes=3 * n * n * dtype.bytes, dtype=dtype)


@pytest.mark.parametrize("mib", [8, 16, 32, 64, 128, 256, 512, 1024])
@pytest.mark.parametrize(
    ("n", "alpha", "busbw", "tolerance"),
    # vTrain's tables of A100s on NVSwitch as lines alpha + S/algbw. Below 8 MiB they are of the host's call.
    [(8, 78.6e-6, 227.3e9, 0.15), (7, 70.7e-6, 226.2e9, 0.15), (4, 54.0e-6, 218.4e9, 0.2), (2, 46.0e-6, 192.9e9, 0.2)],
)
def test_allreduce_on_a100(mib, n, alpha, busbw, tolerance):
    measured = alpha + 2 * (n - 1) / n * mib * MIB / busbw
    assert seconds(load("dgx-a100"), "allreduce", mib * MIB, range(n)) == pytest.approx(measured, rel=tolerance)


@pytest.mark.parametrize(
    ("name", "tolerance", "busbw"),
    # Azure, 8 GPUs with NVLink SHARP: bus bandwidth in GB/s by size.
    [
        ("dgx-h100", 0.1, {16: 234, 64: 362, 1024: 466, 8192: 479}),
        ("h200", 0.15, {16: 240, 64: 368, 1024: 468, 8192: 480}),
    ],
)
def test_allreduce_on_hopper(name, tolerance, busbw):
    for mib, measured in busbw.items():
        modelled = 2 * 7 / 8 * mib * MIB / seconds(load(name), "allreduce", mib * MIB, range(8)) / 1e9
        assert modelled == pytest.approx(measured, rel=tolerance), mib


@pytest.mark.parametrize(
    ("name", "nbytes", "measured"),
    # Azure, 8 GPUs, one call after the other.
    [
        ("dgx-a100", 1024, 45e-6),
        ("dgx-h100", 1024, 26e-6),
        ("h200", 1024, 30e-6),
        ("dgx-h100", MIB, 41.7e-6),
        ("h200", MIB, 34.6e-6),
    ],
)
def test_small_allreduce_takes_as_long_as_its_call_at_most(name, nbytes, measured):
    """Links are those of the device alone; what a host adds is what it takes to issue an op."""
    hardware = load(name)
    alone = seconds(hardware, "allreduce", nbytes, range(8))
    assert alone <= measured <= (alone + load("dgx-h100@eager").kind(0).host.issue) * 1.1


def test_small_allreduce_between_nodes():
    """NVIDIA/nccl issue 1244, 16 GPUs."""
    assert seconds(load("2x-dgx-h100"), "allreduce", 1024, range(16)) == pytest.approx(46e-6, rel=0.15)


@pytest.mark.parametrize(
    ("name", "busbw"),
    # NVIDIA/nccl issues 1576 (DGX A100) and 1221 (H100 without SHARP), in GB/s.
    [("2x-dgx-a100", 192), ("2x-dgx-h100", 330)],
)
def test_allreduce_between_nodes(name, busbw):
    modelled = 2 * 15 / 16 * 2**33 / seconds(load(name), "allreduce", 2**33, range(16)) / 1e9
    assert modelled == pytest.approx(busbw, rel=0.1)


@pytest.mark.parametrize(
    ("name", "n", "dtype", "tflops"),
    [
        ("dgx-a100", 2048, FLOAT16, 222),
        ("dgx-a100", 4096, FLOAT16, 228),
        ("dgx-a100", 8192, FLOAT16, 254),
        ("dgx-a100", 16384, FLOAT16, 257),
        ("dgx2-v100", 4096, FLOAT16, 95.7),
        ("dgx2-v100", 8192, FLOAT16, 97.4),
        ("dgx2-v100", 10240, FLOAT32, 14.5),
    ],
)
def test_matrix_products(name, n, dtype, tflops):
    cost = load(name).cost(matmul(n, dtype), (0,))
    launch = load(name).kind(0).launch
    assert cost.bound == "compute"
    assert 2 * n**3 / (cost.seconds - launch) / 1e12 == pytest.approx(tflops, rel=0.01)


def test_what_an_op_is_bound_by():
    hardware = load("dgx-a100")
    assert hardware.cost(matmul(8192, FLOAT16), (0,)).bound == "compute"
    assert hardware.cost(Work(10**9, 4 * 10**9, FLOAT32), (0,)).bound == "memory"
    assert hardware.cost(Work(100, 400, FLOAT32), (0,)).bound == "latency"


def test_a_copy_of_a_gigabyte_takes_what_the_memory_achieves():
    cost = load("dgx-a100").cost(Work(bytes=2 * 10**9), (0,))
    assert cost.seconds == pytest.approx(2 / 1700, rel=0.01)
