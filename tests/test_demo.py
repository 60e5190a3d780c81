"""What `make demo` runs, from its first line to its last."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_demo_runs_to_its_end():
    env = {**os.environ, "DISTIR": str(Path(sys.executable).parent / "distir")}
    ended = subprocess.run(
        ["sh", str(ROOT / "examples/demo.sh")], env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "the same, up to rounding" in ended.stdout
    assert "4. Compare" in ended.stdout
    assert ended.stdout.count(" ms\n") == 2
