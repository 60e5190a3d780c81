"""Lists of options against the packages that they are of, where these are installed in the stated version.

Their sources are read, not imported: they need a GPU's libraries. With `pip install --no-deps --target DIR` of
torchtitan==0.2.2, megatron-core==0.16.1, megatron-bridge==0.3.1, deepspeed==0.19.8 and PYTHONPATH=DIR, all are checked.
"""

import ast
import importlib.util
from pathlib import Path

import pytest

from distir.configurations.known import listed


def source(package, path):
    """The tree of a package's file; the test is skipped without the package."""
    try:
        found = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        found = None
    places = [Path(place) / path for place in (found.submodule_search_locations or ())] if found else []
    file = next((place for place in places if place.exists()), None)
    if file is None:
        pytest.skip(f"{package} is not installed")
    return ast.parse(file.read_text())


def fields_of(tree, name):
    """The annotated fields of a class, by name, with their annotations."""
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {s.target.id: ast.unparse(s.annotation) for s in body if isinstance(s, ast.AnnAssign)}


def test_torchtitans_options():
    tree = source("torchtitan", "config/job_config.py")
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}

    def under(name, prefix):
        for field, kind in fields_of(tree, name).items():
            yield from under(kind, f"{prefix}{field}.") if kind in classes else [f"{prefix}{field}"]

    assert set(under("JobConfig", "")) == set(listed("torchtitan"))


@pytest.mark.parametrize(
    ("package", "path", "name", "section"),
    [
        ("megatron.core", "model_parallel_config.py", "ModelParallelConfig", "model"),
        ("megatron.core", "transformer/transformer_config.py", "TransformerConfig", "model"),
        ("megatron.core", "distributed/distributed_data_parallel_config.py", "DistributedDataParallelConfig", "ddp"),
        ("megatron.core", "optimizer/optimizer_config.py", "OptimizerConfig", "optimizer"),
        ("megatron.bridge", "training/config.py", "TrainingConfig", "train"),
        ("megatron.bridge", "training/config.py", "DistributedInitConfig", "dist"),
        ("megatron.bridge", "models/gpt_provider.py", "GPTModelProvider", "model"),
    ],
)
def test_options_on_megatron_core(package, path, name, section):
    fields = {field for field in fields_of(source(package, path), name) if not field.startswith("_")}
    assert {f"{section}.{field}" for field in fields} <= set(listed("megatron_bridge"))


@pytest.mark.parametrize(
    ("path", "name", "section"),
    [
        ("runtime/zero/config.py", "DeepSpeedZeroConfig", "zero_optimization"),
        ("runtime/precision_config.py", "DeepSpeedBF16Config", "bf16"),
        ("runtime/precision_config.py", "DeepSpeedFP16Config", "fp16"),
        ("runtime/tensor_parallel/config.py", "TPTrainingConfig", "tensor_parallel"),
    ],
)
def test_deepspeeds_options(path, name, section):
    fields = fields_of(source("deepspeed", path), name)
    assert {f"{section}.{field}" for field in fields} <= set(listed("deepspeed"))
