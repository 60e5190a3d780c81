"""Programs of JAX, as StableHLO in MLIR text, with Shardy's annotations. Nothing of JAX is needed.

`text` reads the syntax and knows no op; rules (`elementwise`, `shapes`, `indexing`, `control`) write operations with
ops of ours, one definition each; `shardings` reads annotations, and `distribution` splits the program by them.
"""

from distir.importers.stablehlo.importing import import_stablehlo

__all__ = ["import_stablehlo"]
