"""DistIR: a workbench for distributed neural-network programs.

The map: `ir` is the program as a value, `syntax` its text, `ops` what its ops mean, `analysis` the interpreter with
the checker and the reference executor, `cost` and `simulate` time and memory. ARCHITECTURE.md shows the whole house.

What stands here is the Python API; everything else is internal. Importing it loads neither numpy nor torch nor onnx.
"""

import importlib
from typing import TYPE_CHECKING, Any

from distir.analysis import InputError, Output
from distir.api import (
    check,
    check_text,
    erase,
    expand,
    format,  # noqa: A004 - a verb here
    import_onnx,
    import_stablehlo,
    import_torch,
    parse,
    run,
    spread,
)
from distir.diagnostics import Diagnostic, ProgramError
from distir.ir import Module
from distir.ir.errors import DistirError
from distir.ir.late import also_called, late_names
from distir.ops import op

if TYPE_CHECKING:
    from distir import models
    from distir.api import search, simulate, transform
    from distir.simulate import Simulation
else:
    from distir import api

    also_called("distir.search", api.search)
    also_called("distir.simulate", api.simulate)
    also_called("distir.transform", api.transform)

_late = late_names(__name__, {"Simulation": "distir.simulate"})


def __getattr__(name: str) -> Any:
    """The models are a room, the others are names in one; none is needed to check a program."""
    return importlib.import_module("distir.models") if name == "models" else _late(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__version__ = "0.1.0"

__all__ = [
    "Diagnostic",
    "DistirError",
    "InputError",
    "Module",
    "Output",
    "ProgramError",
    "Simulation",
    "check",
    "check_text",
    "erase",
    "expand",
    "format",
    "import_onnx",
    "import_stablehlo",
    "import_torch",
    "models",
    "op",
    "parse",
    "run",
    "search",
    "simulate",
    "spread",
    "transform",
]
