"""Makes the fixtures of `cli_samples` known to every test in this folder."""

from cli_samples import file, golden

__all__ = ["file", "golden"]
