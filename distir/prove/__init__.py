"""Proof: whether a distributed program computes what a sequential one does, for all values, at the real sizes.

One more domain for Algorithm 1, in which a value stands for what it is of the sequential program.
"""
