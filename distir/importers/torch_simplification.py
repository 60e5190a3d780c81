"""Simplifies a model as PyTorch exports it, with onnxscript's passes."""

from __future__ import annotations

from importlib import import_module
from typing import Any

ROUNDS = 2
"""As onnxscript's own optimiser has: folding constants and rewriting make way for each other."""

QUADRATIC = "SlicesSplit"
"""A rule that compares each slice with every node of the graph. A `Split` in place of slices gains nothing here."""


def simplify(model: Any, most_folded: int) -> None:
    """Fold constants of at most so many elements, apply rewrite rules, remove what is unused or computed twice.

    The model (an `onnx_ir.Model`) is changed in place.
    """
    optimizer: Any = import_module("onnxscript.optimizer")
    rewriter: Any = import_module("onnxscript.rewriter")
    common: Any = import_module("onnx_ir.passes.common")
    rules = [rule for rule in rewriter._DEFAULT_REWRITE_RULES if rule.name != QUADRATIC]
    optimizer.inline(model)
    for _ in range(ROUNDS):
        optimizer.fold_constants(model, onnx_shape_inference=True, output_size_limit=most_folded)
        rewriter.rewrite(model, rules)
        optimizer.remove_unused_functions(model)
    for simplification in (
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.LiftSubgraphInitializersToMainGraphPass(),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    ):
        simplification(model)
