"""A test that fails over text of any kind fails by itself: the others of its process are run, and it is told why."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

FAILING = r"""
def test_of_text():
    assert "a\ud800" == "a\udcff"


def test_beside_it():
    pass
"""


def test_lone_surrogates_in_a_failure(tmp_path):
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_text.py").write_text(FAILING)
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    alone["PYTHONPATH"] = str(TESTS)
    words = [sys.executable, "-m", "pytest", "-q", "--numprocesses", "1", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, env=alone, capture_output=True, text=True, timeout=600, check=False)
    assert "1 failed, 1 passed" in done.stdout
    assert r"a\ud800" in done.stdout
