"""The best order of a pipeline's passes that can be found, with a bound on how much better one could be."""

from distir.transform.pipeline.best.constraints import NoSolverError
from distir.transform.pipeline.best.found import BestOrder, best_order
from distir.transform.pipeline.best.problem import OrderProblem, placements

__all__ = ["BestOrder", "NoSolverError", "OrderProblem", "best_order", "placements"]
