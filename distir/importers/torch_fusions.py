"""Ops that PyTorch's exporter writes out and ONNX has as one: normalisations by the root mean square, rotary embedding.

By the rewriter and the rules of onnxscript, where these are right.
"""

from __future__ import annotations

import importlib
from typing import Any


def fuse(model: Any) -> None:
    """Rewrite an exported model in place; what is computed twice after that is computed once."""
    for name, factory in (("_rms_normalization", _rms_rules), ("_rotary_embedding", _rotary_rules)):
        rules = importlib.import_module(f"onnxscript.rewriter.rules.fusion.{name}")
        factory(rules).apply_to_model(model)
    passes: Any = importlib.import_module("onnx_ir.passes.common")
    passes.CommonSubexpressionEliminationPass()(model)


def _rms_rules(library: Any) -> Any:
    pattern: Any = importlib.import_module("onnxscript.rewriter.pattern")

    theirs: Any = library.RmsNormFusion

    class Fusion(theirs):
        """The library's, for a scale of one number for each element of a row: it takes any factor for one."""

        def check(self, op: Any, x: Any, scale: Any, **named: Any) -> Any:
            shape = None if scale.shape is None else tuple(scale.shape)
            width = None if x.shape is None else x.shape[-1]
            if shape is None or len(shape) != 1 or shape[0] != width:
                return pattern.MatchResult().fail("the factor is no scale", scale)
            return theirs.check(self, op, x, scale, **named)

    rules = [Fusion.rule(f"rms{order}", mul_order=order) for order in (True, False)]
    return pattern.RewriteRuleSet(rules)


def _rotary_rules(library: Any) -> Any:
    return library.rotary_embedding_rules
