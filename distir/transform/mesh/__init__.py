"""Programs on a mesh: the sequential program that one means, and the program of every device.

`erase` takes placements and collectives away. `expand` writes each statement for every device of the mesh, and the
collectives of devices; how ops are written on parts is the partitioner's (`sharding`). `sized` puts numbers in place
of names in the sizes of the mesh.
"""

from distir.transform.mesh.erasure import erase
from distir.transform.mesh.expansion import expand
from distir.transform.mesh.sizes import names_in, names_of_sizes, sized

__all__ = ["erase", "expand", "names_in", "names_of_sizes", "sized"]
