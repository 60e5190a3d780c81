"""The page on lowering: its examples are what they say."""

import re
from pathlib import Path

import distir

PAGE = (Path(__file__).parents[2] / "docs/lowering.md").read_text()


def test_its_form_can_be_declared():
    from distir.lower.forms import FORMS

    text = next(t for t in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "torch_form" in t)
    exec(text, {})
    try:
        assert FORMS["SquaredRelu"].write(None, "x") == "torch.nn.functional.relu(x).square()"
    finally:
        del FORMS["SquaredRelu"]


def test_its_program_of_a_rank_checks():
    text = next(t for t in re.findall(r"```\n(func.*?)```", PAGE, re.DOTALL))
    layer = "func @layer(%w, %x) {\n  %h = MatMul(%x, %w)\n  return %h\n}\n"
    assert distir.check_text(layer + text) == []
