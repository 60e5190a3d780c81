"""Parts of an imported program as functions: the layers of its modules, and whatever else repeats."""

from distir.importers.outlining.blocks import Scopes
from distir.importers.outlining.layers import layers_outlined
from distir.importers.outlining.repeats import repeats_outlined

__all__ = ["Scopes", "layers_outlined", "repeats_outlined"]
