"""Searching the space of strategies: grids, bounds, annealing; tables and plots.

Knows no model and no importer: what is searched for is a sequential program. Names are imported when they are first
asked for.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.search.annealing import Annealing
    from distir.search.log import Log, LogError, read_rows, write_rows
    from distir.search.rows import COLUMNS, Row, pareto
    from distir.search.searching import Search, search
    from distir.search.space import Space, SpaceError
    from distir.search.subject import Subject
    from distir.search.table import Table
    from distir.search.work import Workers

_HOMES = {
    "distir.search.annealing": ("Annealing",),
    "distir.search.subject": ("Subject",),
    "distir.search.log": ("Log", "LogError", "read_rows", "write_rows"),
    "distir.search.rows": ("COLUMNS", "Row", "pareto"),
    "distir.search.table": ("Table",),
    "distir.search.searching": ("Search", "search"),
    "distir.search.space": ("Space", "SpaceError"),
    "distir.search.work": ("Workers",),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "COLUMNS",
    "Annealing",
    "Log",
    "LogError",
    "Row",
    "Search",
    "Space",
    "SpaceError",
    "Subject",
    "Table",
    "Workers",
    "pareto",
    "read_rows",
    "search",
    "write_rows",
]
