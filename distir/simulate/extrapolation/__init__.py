"""Pipelines of other numbers of microbatches, extrapolated from one that has been simulated."""
