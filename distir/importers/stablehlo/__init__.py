"""Programs of JAX and torch-xla, as StableHLO in MLIR text, with annotations. Nothing of JAX is needed.

`text` reads the syntax and knows no op, and `dialects` names what is no StableHLO; rules (`elementwise`, `shapes`,
`windows`, `indexing`, `layers`, `sorting`, `control`) write operations with ops of ours, one definition each,
`complexes` those of complex values; `shardings` reads annotations of Shardy, `gspmd` earlier ones, and `distribution`
splits the program by them; `manual` writes regions for one device of the mesh.
"""

from distir.importers.stablehlo.importing import import_stablehlo

__all__ = ["import_stablehlo"]
