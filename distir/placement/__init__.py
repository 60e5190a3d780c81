"""Placements of values over the devices of a mesh axis, and the rule by which each op computes parts of its results.

- `along`: the placement of one value along one axis: whole, split along a dimension, a pending sum or maximum;
- `part_types`: the type of what one device holds;
- `rule`: of which parts of operands an op computes which parts of its results, by its layout and linearity;
- `typings`: the op's typings for operands as they are placed, none where that is a type error; `nearest`: what is wrong
  then, and the collectives that mend it.

The partitioner chooses among the same typings (`transform.sharding.decide`), so it and the checker cannot disagree.
"""
