"""What a kernel may contain: ops of one device. No calls, no communication."""

from __future__ import annotations

from collections.abc import Iterator

from distir.analysis.domains import Instance
from distir.diagnostics import Diagnostic
from distir.diagnostics.codes import devices as codes
from distir.ir import Apply, Call, Part, Site
from distir.ops import OPS
from distir.ops.devices import devices_of

OUTSIDE = "end the kernel before it, and continue in another one"


def in_kernel(instance: Instance) -> Iterator[Diagnostic]:
    """What must not be in the body of a kernel."""
    function, alone = instance.function, True
    for index, statement in enumerate(function.body):
        site = Site(function.name, index, Part("callee"))
        if isinstance(statement, Call):
            alone = False
            message = f"a kernel calls no function, found `@{statement.function}`"
            yield Diagnostic(codes.IN_KERNEL, site, message, help="write its body here")
        elif isinstance(statement, Apply) and (op := OPS.get(statement.op)) is not None and op.communication:
            alone = False
            message = f"a kernel runs on one device, `{op.name}` communicates"
            yield Diagnostic(codes.IN_KERNEL, site, message, help=OUTSIDE)
        elif isinstance(statement, Apply) and (op := OPS.get(statement.op)) is not None and op.copies:
            message = f"a kernel runs on the device, `{op.name}` copies between its memory and its host's"
            yield Diagnostic(codes.IN_KERNEL, site, message, help=OUTSIDE)
    devices = devices_of(instance.state.values())
    if len(devices) > 1 and alone:
        listed = ", ".join(map(str, devices))
        message = f"a kernel runs on one device, the values in `@{function.name}` are on {listed}"
        yield Diagnostic(codes.IN_KERNEL, Site(function.name, None, Part("name")), message, help="split it by devices")
