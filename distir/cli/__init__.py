"""The command line: thin commands over the rooms below. `app` holds them all and says how a run ends.

A command is a function in its own module that returns the exit code; its name is added to a group of `app.GROUPS`.
No other package imports this one. A command's module is loaded for its help, too, so heavy imports are in functions.
"""

from distir.cli.app import main

__all__ = ["main"]
