"""What one laboratory adds to DistIR: importing this registers it, and installing the package has it imported."""

from pathlib import Path

from distir.cost import add_profiles
from my_lab import frameworks, ops, schedules, steps

add_profiles(Path(__file__).parent / "profiles")

__all__ = ["frameworks", "ops", "schedules", "steps"]
