import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distir.diagnostics import nearest

OPS = ["MatMul", "Relu", "Gelu", "Send", "Split", "MPIAllreduce", "MPIAllgather", "MPIReduceScatter", "UnpackTuple"]
NAMES = st.text(string.ascii_letters + string.digits + "_.%@漢", max_size=12)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("matmul", "MatMul"),
        ("MatMull", "MatMul"),
        ("Sned", "Send"),
        ("MPIAllReduce", "MPIAllreduce"),
        ("MPIReducesScater", "MPIReduceScatter"),
        ("Unpack", "UnpackTuple"),
        ("Conv", None),
        ("", None),
        ("x", None),
        ("Splt" * 100_000, None),
    ],
)
def test_did_you_mean(typed, meant):
    assert nearest(typed, OPS) == meant


MACHINES = ["2x-dgx-a100", "2x-dgx-h100", "2x-h200", "dgx-a100", "dgx-h100", "dgx2-v100", "h200", "laptop-cpu"]
NORMS = ["BatchNormalization", "InstanceNormalization", "LayerNormalization", "SoftmaxCrossEntropyLoss", "Softmax"]


@pytest.mark.parametrize(
    ("typed", "candidates", "meant"),
    [
        ("h100", MACHINES, "dgx-h100"),
        ("H100", MACHINES, "dgx-h100"),
        ("dgxh100", MACHINES, "dgx-h100"),
        ("v100", MACHINES, "dgx2-v100"),
        ("laptop", MACHINES, "laptop-cpu"),
        ("h20", MACHINES, "h200"),
        ("dgx-h200", MACHINES, "h200"),
        ("LayerNorm", NORMS, "LayerNormalization"),
        ("CrossEntropy", NORMS, "SoftmaxCrossEntropyLoss"),
        ("Softmaxx", NORMS, "Softmax"),
        ("latency", ["max_latency", "max_memory"], "max_latency"),
        ("bucket", ["bucket_bytes", "microbatches"], "bucket_bytes"),
        ("weight", ["weights", "bias"], "weights"),
        ("x", ["x_1"], None),
        ("225", ["layer_225"], None),
        ("norm", ["a_very_long_name_with_norm_in_it"], None),
    ],
)
def test_a_part_of_a_name_means_the_whole(typed, candidates, meant):
    assert nearest(typed, candidates) == meant


@given(NAMES, st.lists(NAMES))
def test_the_answer_is_another_candidate(name, candidates):
    answer = nearest(name, candidates)
    assert answer is None or (answer in candidates and answer != name)


@given(st.lists(NAMES.filter(lambda n: len(n) >= 4), min_size=1), st.data())
def test_one_letter_too_few_is_forgiven(candidates, data):
    name = data.draw(st.sampled_from(candidates))
    dropped = data.draw(st.integers(1, len(name) - 2))
    assert nearest(name[:dropped] + name[dropped + 1 :], candidates) is not None


def test_many_similar_candidates():
    names = [f"layer_{i}" for i in range(100_000)]
    assert nearest("layer_99_98", names) in {"layer_9998", "layer_99998", "layer_99098", "layer_99198", "layer_99898"}
