"""The page on lowering: its examples are what they say."""

import re
from pathlib import Path

import numpy as np
import pytest
from lowering_samples import entry, from_torch, lowered_program, one_op, to_torch

import distir
from distir.ops import OPS

PAGE = (Path(__file__).parents[2] / "docs/lowering.md").read_text()


def test_an_op_of_others_can_be_given_its_form(tmp_path):
    pytest.importorskip("torch")
    text = next(t for t in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if ".torch(" in t)
    exec(text, {})
    try:
        module = one_op("%y = Det(%x: Tensor[Float32, (2, 2), 1])")
        program = lowered_program([entry(module)], tmp_path)
        (found,) = from_torch(program.call("main", [to_torch(np.array([[1, 2], [3, 4]], np.float32))]))
        np.testing.assert_allclose(found, -2, rtol=1e-5)
    finally:
        del OPS["Det"].rules["torch"]


def test_its_program_of_a_rank_checks():
    text = next(t for t in re.findall(r"```\n(func.*?)```", PAGE, re.DOTALL))
    layer = "func @layer(%w, %x) {\n  %h = MatMul(%x, %w)\n  return %h\n}\n"
    assert distir.check_text(layer + text) == []
