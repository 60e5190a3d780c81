"""From a program to processes: projection, torch programs, and starting them.

Names are imported on first use: checking a program does not load this package.
"""

from typing import TYPE_CHECKING

from distir.ir.late import late_names

if TYPE_CHECKING:
    from distir.lower.agreement import CommunicationKey, CommunicationSite, check_order, communications
    from distir.lower.folder import EntryPoint, Lowered, lower, lower_ranks
    from distir.lower.launching import Launch, LaunchError, launch
    from distir.lower.projection import is_remote, project
    from distir.lower.training import lower_training, training_step

_HOMES = {
    "distir.lower.agreement": ("CommunicationKey", "CommunicationSite", "check_order", "communications"),
    "distir.lower.folder": ("EntryPoint", "Lowered", "lower", "lower_ranks"),
    "distir.lower.launching": ("Launch", "LaunchError", "launch"),
    "distir.lower.projection": ("is_remote", "project"),
    "distir.lower.training": ("lower_training", "training_step"),
}
__getattr__ = late_names(__name__, {name: home for home, names in _HOMES.items() for name in names})

__all__ = [
    "CommunicationKey",
    "CommunicationSite",
    "EntryPoint",
    "Launch",
    "LaunchError",
    "Lowered",
    "check_order",
    "communications",
    "is_remote",
    "launch",
    "lower",
    "lower_ranks",
    "lower_training",
    "project",
    "training_step",
]
