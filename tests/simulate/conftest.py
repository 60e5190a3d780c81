"""Registers, for these tests alone, an op that needs temporary memory."""

import pytest
from simulate_samples import scratch_op

from distir.ops import OPS


@pytest.fixture(autouse=True, scope="module")
def _scratch():
    scratch_op()
    yield
    del OPS["Scratch"]
