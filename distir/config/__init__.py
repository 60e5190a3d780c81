"""The project's settings, `distir.toml`: found above a program, read once, checked as a whole.

Independent of hardware profiles, programs and units: settings are interpreted where they are used.
"""

from distir.config.finding import find, load, problem
from distir.config.settings import DEFAULT_HARDWARE, FILE_NAME, Budget, Config, ConfigError, Hints

__all__ = ["DEFAULT_HARDWARE", "FILE_NAME", "Budget", "Config", "ConfigError", "Hints", "find", "load", "problem"]
