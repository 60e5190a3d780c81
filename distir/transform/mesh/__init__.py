"""Programs on a mesh: written by a strategy, erased to the sequential program that they mean, expanded to every device.

`step` writes a sequential program on a mesh: `folding` says which axes it has, where experts are apart, `plans` where
parameters are placed, `owners` which device has which of them whole, `wanted` how updates want gradients to be
(`items`: those of tuples), and `partition` places the rest, statement by statement: `typed` asks an op's rule what it
needs along each axis, `collectives` bring operands there by `moves`, `sums` end what is pending, `spread` along tokens,
`sends` go to the next stage in parts.
`erase` takes placements and collectives away. `expand` writes each statement for every device of the mesh, and the
collectives of devices; how ops are written on parts is the partitioner's of one axis (`sharding`). `sized` puts numbers
in place of names in the sizes of the mesh.
"""

from distir.transform.mesh.erasure import erase
from distir.transform.mesh.expansion import expand
from distir.transform.mesh.sizes import names_in, names_of_sizes, sized
from distir.transform.mesh.step import mesh

__all__ = ["erase", "expand", "mesh", "names_in", "names_of_sizes", "sized"]
