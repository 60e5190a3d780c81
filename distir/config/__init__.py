"""The project's settings, `distir.toml`: found above a program, read once, checked as a whole.

Knows nothing of hardware profiles, programs and units; whoever uses a setting gives it its meaning.
"""

from distir.config.settings import (
    DEFAULT_HARDWARE,
    FILE_NAME,
    Budget,
    Config,
    ConfigError,
    Hints,
    find,
    load,
)

__all__ = ["DEFAULT_HARDWARE", "FILE_NAME", "Budget", "Config", "ConfigError", "Hints", "find", "load"]
