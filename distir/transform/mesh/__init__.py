"""Programs on a mesh: the sequential program that one means, and the program of every device.

`erase` takes placements and collectives away. `expand` writes each statement for every device of the mesh, and the
collectives of devices; how ops are written on parts is the partitioner's (`sharding`).
"""

from distir.transform.mesh.erasure import erase
from distir.transform.mesh.expansion import expand

__all__ = ["erase", "expand"]
