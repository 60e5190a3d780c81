"""Execution traces in the schema of MLCommons Chakra, as ASTRA-sim runs them: a file for each rank.

`schema` has the messages, `flow` what ops wait for by data flow, `nodes` what a rank runs for an op, and `writing` the
files. Nodes have simulated times, and FLOPs and bytes, from which a simulator of the traces may time them.
"""

from distir.simulate.chakra.writing import GROUPS, STEM, ChakraError, WrittenTraces, write

__all__ = ["GROUPS", "STEM", "ChakraError", "WrittenTraces", "write"]
