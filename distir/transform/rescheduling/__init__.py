"""Rescheduling: reorders the entry function's statements to reduce its latency.

`tasks` has costs and dependencies of statements, `orders` proposes orders, `step` simulates them.
"""

from distir.transform.rescheduling.step import reschedule

__all__ = ["reschedule"]
