"""Models from other frameworks as programs: ONNX files, PyTorch modules by way of ONNX, and StableHLO of JAX.

onnx and torch are imported when a model comes in, never before. Nothing in a model is executed, and no file is read
that is not in the model's own folder.
"""

from typing import TYPE_CHECKING

from distir.importers.core import Imported, ImportRefused, Weight, Weights
from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.importers.configurations import import_hf
    from distir.importers.onnx_import import import_model, import_onnx
    from distir.importers.pytorch import import_torch, import_torch_function
    from distir.importers.stablehlo import import_stablehlo

__all__ = [
    "ImportRefused",
    "Imported",
    "Weight",
    "Weights",
    "import_hf",
    "import_model",
    "import_onnx",
    "import_stablehlo",
    "import_torch",
    "import_torch_function",
]

_HOMES = {
    "import_hf": "distir.importers.configurations",
    "import_model": "distir.importers.onnx_import",
    "import_onnx": "distir.importers.onnx_import",
    "import_stablehlo": "distir.importers.stablehlo",
    "import_torch": "distir.importers.pytorch",
    "import_torch_function": "distir.importers.pytorch",
}

__getattr__ = late_names(__name__, _HOMES)
