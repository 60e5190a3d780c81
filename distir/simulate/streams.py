"""The streams that statements name: whether the machine has them."""

from __future__ import annotations

from distir.diagnostics import Diagnostic, ProgramError
from distir.diagnostics.codes import simulation as codes
from distir.ir import COMPUTE, Apply, Call, Part, Site
from distir.simulate.body import Body, distinct
from distir.simulate.effects import Effect, Effects


def check_streams(entry: Body, effects: Effects) -> None:
    """Raise ProgramError where a device runs ops on more streams than the machine gives it."""
    if all(kind.streams is None for kind in effects.hardware.kinds.distinct):
        return
    used: dict[int, dict[str, None]] = {}
    for body in distinct(entry):
        for index, (statement, step) in enumerate(zip(body.instance.function.body, body.steps, strict=True)):
            if not isinstance(statement, (Apply, Call)) or not statement.stream or not isinstance(step, Effect):
                continue
            for device in step.devices:
                own, kind = used.setdefault(device, {}), effects.hardware.kind(effects.place[device])
                own[statement.stream] = None
                if kind.streams is not None and len(own) > kind.streams:
                    *others, name = own
                    has = f"{kind.streams or 'no'} stream{'' if kind.streams == 1 else 's'} beside `{COMPUTE}`"
                    taken = f", for {', '.join(f'`{other}`' for other in others)}" if others else ""
                    message = f"device {device} has no stream `{name}`: `{kind.title}` has {has}{taken}"
                    hint = "let the statement share one of these" if others else "remove the name of the stream"
                    site = Site(body.instance.function.name, index, Part("stream"))
                    raise ProgramError([Diagnostic(codes.TOO_MANY_STREAMS, site, message, help=hint)])
