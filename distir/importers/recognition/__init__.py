"""What a model spells out and the language has as one op: attention, rotary embedding, normalisations, activations.

A *rule* matches a statement and what leads to it, and gives its result in fewer ops, exactly; it never fires
where something in between is needed elsewhere. One module for each kind of op; `patterns` is how rules see a program.
"""

from __future__ import annotations

from distir.importers.recognition import activations, attention, normalisation, rotary, routing, views
from distir.importers.recognition.rewriting import Rule, rewritten

__all__ = ["RULES", "Rule", "rewritten"]

RULES: tuple[Rule, ...] = (
    *views.RULES,
    *activations.RULES,
    *normalisation.RULES,
    *rotary.RULES,
    *attention.RULES,
    *routing.RULES,
)
"""In this order; a statement that one has rewritten is shown to all of them again."""
