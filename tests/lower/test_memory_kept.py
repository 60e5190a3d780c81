"""A lowered program's process keeps the memory that a step gives back, so that the next need not pay for its pages."""

import platform
import subprocess
import sys

import pytest
from lowering_samples import entry, one_op

from distir.lower.folder import lower

pytest.importorskip("torch")

RESIDENT = """
import resource, torch, runtime
from pathlib import Path

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20

program = runtime.LoweredProgram().prepare(0, torch.device("cpu"))
before = resident()
step = [torch.ones(1 << 18) for _ in range(256)]  # 1 MB each
del step
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are not asked")
def test_pages_are_kept(tmp_path):
    lower([entry(one_op("%y = Relu(%x: Tensor[Float32, (2,), 1])"))]).write(tmp_path)
    (tmp_path / "step.py").write_text(RESIDENT)
    kept = subprocess.check_output([sys.executable, "step.py"], cwd=tmp_path, timeout=600)
    assert int(kept) > 200
