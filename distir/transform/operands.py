"""Substituting operands of statements."""

from distir.ir.rewrite import substituted, with_operands

__all__ = ["substituted", "with_operands"]
