"""Makes the fixtures of `cli_samples` known to every test in this folder."""

from cli_samples import distir, file, golden

__all__ = ["distir", "file", "golden"]
