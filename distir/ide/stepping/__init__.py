"""Stepping through the simulated time of a program, as a debugger does: independent of any protocol.

A *stop* is a moment and a statement of one stream of a device. Each answer costs the calls that lead to the events it
is about, not all events (`simulate/descent`).
"""
