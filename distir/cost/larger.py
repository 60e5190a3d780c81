"""Machines that are large enough for a program that is too large for another. Knows no programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distir.cost.catalogue import DEFAULT, load, most_memory, node_of, profiles
from distir.cost.errors import HardwareError
from distir.cost.hardware import Hardware
from distir.diagnostics.quantities import show_bytes
from distir.files import limits

ENOUGH = "is large enough"
"""The words of a help after a machine's name."""


_NAMED = re.compile(rf"`([^`]+)` {re.escape(ENOUGH)}")


def named_in(help: str | None) -> str | None:
    """The machine that a help says is large enough."""
    found = _NAMED.match(help or "")
    return None if found is None else found[1]


def devices_in_words(hardware: Hardware, devices: int) -> str | None:
    """The hint for a program with more devices than this machine; None if no larger machine is known."""
    found = with_devices(hardware, devices)
    return None if found is None else f"`{found[0]}` {ENOUGH}: {found[1]}"


def memory_in_words(hardware: Hardware, devices: int, nbytes: int) -> str | None:
    """The hint for a device that needs more memory than this machine's has; None if no larger machine is known."""
    name = with_memory(hardware, devices, nbytes)
    if name is None:
        return None
    machine = load(name)
    return f"`{name}` {ENOUGH}: {machine.devices} devices of {show_bytes(machine.capacity(0))}"


def with_devices(hardware: Hardware, devices: int) -> tuple[str, str] | None:
    """The name of a machine of the same kind with at least this many devices, and its size: `8 nodes, 64 devices`.

    Nodes of the same kind if machines of several are known, else of the default's. None where none is large enough.
    """
    node = node_of(hardware) or node_of(load(DEFAULT))
    if node is None:
        return None
    name, each = node
    nodes = -(-devices // each)
    if nodes > limits.NODES:
        return None
    return name if nodes == 1 else f"{name}x{nodes}", f"{nodes} node{'' if nodes == 1 else 's'}, {nodes * each} devices"


def with_memory(hardware: Hardware, devices: int, nbytes: int) -> str | None:
    """The machine with enough devices whose memory per device is the smallest that suffices; None if there is none."""
    capacity = max((kind.memory for kind in hardware.kinds.distinct), default=0)
    if capacity >= nbytes:
        return None
    fitting = [(m.capacity(0), m.devices, m.name) for m in _known(devices, nbytes) if nbytes <= m.capacity(0)]
    return min(fitting)[2] if fitting else None


def _known(devices: int, nbytes: int) -> Iterator[Hardware]:
    """The machines with at least this many devices: the smallest of each kind of node.

    Those of which a glance shows that they have less memory are left out.
    """
    for name in profiles():
        memory = most_memory(name)
        if memory is not None and memory < nbytes:
            continue
        try:
            machine = load(name)
        except HardwareError:
            continue  # a plugin's, which is faulty
        if node_of(machine) not in (None, (name, machine.devices)):
            continue  # so many nodes of another
        if machine.devices >= devices:
            yield machine
        elif machine.network is not None and (found := with_devices(machine, devices)) is not None:
            yield load(found[0])
