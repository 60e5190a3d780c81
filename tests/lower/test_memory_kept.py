"""A lowered program's process keeps the memory that a step gives back: the next one does not pay for its pages again."""

import platform
import subprocess
import sys

import pytest
from lowering_samples import entry, one_op

from distir.lower.folder import lower

pytest.importorskip("torch")

FAULTS = """
import resource, torch, runtime

def step():
    held = [torch.ones(1 << 18) for _ in range(16)]  # 1 MB each
    del held

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

step()
given_back = faults()
runtime.Program().prepare(0, torch.device("cpu"))
step()
print(given_back, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not asked")
def test_pages_are_kept(tmp_path):
    lower([entry(one_op("%y = Relu(%x: Tensor[Float32, (2,), 1])"))]).write(tmp_path)
    (tmp_path / "faults.py").write_text(FAULTS)
    done = subprocess.run(
        [sys.executable, "faults.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    given_back, kept = map(int, done.stdout.split())
    assert kept < given_back / 10
