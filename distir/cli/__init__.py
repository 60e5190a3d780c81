"""The command line: thin commands over the rooms below. `app` holds them all and says how a run ends.

A command is a function in a module of its own that returns the exit code; adding one is adding it to `app.COMMANDS`.
Nothing in here is imported by other rooms. Modules are loaded at every start, so heavy imports stand in functions.
"""

from distir.cli.app import main

__all__ = ["main"]
