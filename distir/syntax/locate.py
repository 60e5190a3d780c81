"""Where the parts of a program stand. Worked out from the text of the one statement when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from distir.diagnostics import Span
from distir.ir import Part, Site
from distir.syntax.grammar import Node

if TYPE_CHECKING:
    from distir.syntax.core import Syntax


def locate(syntax: Syntax, site: Site) -> Span | None:
    """Where a site stands; the whole statement for a part that cannot be told apart; `None` for what is not there."""
    found = syntax.by_name.get(site.function)
    if found is None or (site.index is not None and not -1 < site.index < len(found.starts)):
        return None
    if site.index is None:
        return found.name
    return found.statement(site.index)


def written_part(node: Node, tokens: Sequence[str], part: Part | None) -> tuple[int, int]:
    """The tokens of a part of a statement, counted as it is written."""
    return node.first, node.last
