"""What an exported model computes twice is computed once."""

from __future__ import annotations

import importlib
from typing import Any


def fuse(model: Any) -> None:
    """Rewrite an exported model in place."""
    passes: Any = importlib.import_module("onnx_ir.passes.common")
    passes.CommonSubexpressionEliminationPass()(model)
