"""Rescheduling: another order of the entry function's statements that takes less time.

`tasks` says what statements cost and what they depend on, `orders` looks for orders, `step` asks the simulator.
"""

from distir.transform.rescheduling.step import reschedule

__all__ = ["reschedule"]
