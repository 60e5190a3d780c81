"""The debug console: a time to go to, `peak`, `next wait`, a value, or an expression about the op."""

from __future__ import annotations

from dataclasses import dataclass

from distir.cost import UnitError, parse_seconds
from distir.diagnostics.spelling import nearest
from distir.ide.stepping.breakpoints import peak_event
from distir.ide.stepping.conditions import NAMES, ConditionError, read_condition, read_expression, show_of_kind
from distir.ide.stepping.inspecting import Inspector, ShownVariable, StackFrame
from distir.ide.stepping.search import EventSearch
from distir.ide.stepping.stepper import Stepper, Stop
from distir.ide.stepping.streams import Spot, device_of
from distir.ide.stepping.watches import StopWatch, WaitWatch
from distir.ir.errors import DistirError
from distir.simulate.algebra.clocks import Clock

COMMANDS = {
    "12.5ms": "go to a simulated time",
    "start": "go to the start",
    "end": "go to the end",
    "peak": "go to where memory is fullest; `peak 3`: that of device 3",
    "critical": "go to the next op of the critical path; `critical back`: to the one before",
    "wait": "go to the next op before which a device waited; `wait 1ms`: for longer than that",
    "until CONDITION": 'go to the next op for which a condition holds, as `until op == "MatMul" and device == 3`',
    "back CONDITION": "the same, backwards",
    "%x": "a value of this function",
    "memory": "or any expression about the op, with " + ", ".join(f"`{name}`" for name in NAMES),
}
"""The commands, with descriptions."""

HELP = "\n".join(f"{command:<16} {what}" for command, what in COMMANDS.items())


class ConsoleError(DistirError, ValueError):
    """The input is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class ConsoleAnswer:
    """The answer to a command; `stop`: the new position, if it moved; `shown`: the expandable parts of a value."""

    text: str
    stop: Stop | None = None
    shown: ShownVariable | None = None


class Console:
    """Answers what is typed."""

    def __init__(self, stepper: Stepper, inspector: Inspector) -> None:
        self.stepper, self.inspector = stepper, inspector

    def answer(self, text: str, frame: StackFrame | None) -> ConsoleAnswer:
        """Move to a position, or answer a question. Raises ConsoleError."""
        typed = text.strip()
        word, _, rest = typed.partition(" ")
        try:
            stop = self._moved(word, rest.strip())
            if stop is None:
                stop = self._to_time(typed)
            if stop is not None:
                return ConsoleAnswer(stop.words, stop)
        except ConditionError as error:
            raise ConsoleError(_with_help(error)) from None
        return ConsoleAnswer(HELP) if typed in ("help", "?") else self.evaluate(typed, frame)

    def evaluate(self, text: str, frame: StackFrame | None) -> ConsoleAnswer:
        """A value or an expression, and nothing that moves. Raises ConsoleError."""
        spot, stream = self._here(frame)
        typed = text.strip()
        if spot is not None and (value := self.inspector.value(typed, spot)) is not None:
            return ConsoleAnswer(value.text, None, value)
        if typed.startswith("%"):
            where = f"`@{spot.function.name}` has" if spot is not None else "a device that idles has"
            raise ConsoleError(f"{where} no value `{typed}`")
        try:
            asked = read_expression(typed)
        except ConditionError as error:
            close = nearest(typed, ("start", "end", "peak", "critical", "wait", "help")) if typed.isalpha() else None
            raise ConsoleError(f"{error}; did you mean `{close}`?" if close else _with_help(error)) from None
        if "hits" in asked.names:
            raise ConsoleError("`hits` is known to breakpoints alone")
        if spot is None and asked.names == frozenset({"time"}):
            return ConsoleAnswer(show_of_kind("time", self.stepper.now.time))
        if spot is None and asked.names:
            raise ConsoleError("no op runs here now: this device idles, or is done")
        event = self.stepper.event(spot, stream) if spot is not None else None
        return ConsoleAnswer(show_of_kind(asked.kind, asked.value(event)))

    def _here(self, frame: StackFrame | None) -> tuple[Spot | None, Clock]:
        if frame is not None:
            return frame.spot, frame.stream
        stream = self.stepper.now.stream
        return self.stepper.spot(stream), stream

    def _moved(self, word: str, rest: str) -> Stop | None:
        """The position to which a command leads; None if it is no movement."""
        stepper = self.stepper
        match word:
            case "start" if not rest:
                return stepper.to_start()
            case "end" if not rest:
                return stepper.end()
            case "peak":
                return self._peak(rest)
            case "critical" if rest in ("", "back"):
                condition = read_condition("critical")
                return self._found(
                    [StopWatch(number=0, condition=condition)], "op of the critical path", back=bool(rest)
                )
            case "wait" if not rest or rest[0].isdigit():
                least = self._seconds(rest) if rest else 0.0
                return self._found([WaitWatch(number=0, least=least)], "wait")
            case "until" | "back" if rest:
                watch = StopWatch(number=0, condition=read_condition(rest))
                return self._found([watch], "op for which that holds", back=word == "back")
            case _:
                return None

    def _peak(self, rest: str) -> Stop | None:
        uses = self.stepper.simulation.memory_uses
        number = rest.removeprefix("device").strip()
        if rest and not (number.isdigit() and int(number) in uses):
            raise ConsoleError(f"expected a device of the program, as `peak {min(uses)}`, found `peak {rest}`")
        device = int(number) if rest else max(uses, key=lambda each: uses[each].peak_memory_bytes)
        event = peak_event(self.stepper, device)
        if event is None:
            return self.stepper.to_start()
        place = self.stepper.streams.timeline.descent.at(event)
        own = [stream for stream in place.streams if device_of(stream) == device]
        return self.stepper.jump(Spot(place.run, place.statement), (own or [*place.streams])[0])

    def _found(self, watches: list[StopWatch] | list[WaitWatch], what: str, *, back: bool = False) -> Stop:
        search: EventSearch = self.stepper.search([*watches], back=back)
        hit = next(search, None)
        if hit is None:
            raise ConsoleError(f"there is no {what} {'before' if back else 'after'} this")
        return self.stepper.to_hit(hit)

    def _to_time(self, typed: str) -> Stop | None:
        if not typed[:1].isdigit() or typed.isdigit():
            return None
        try:
            return self.stepper.to_time(parse_seconds(typed))
        except UnitError:
            return None  # perhaps an expression that begins with a number

    def _seconds(self, text: str) -> float:
        try:
            return parse_seconds(text)
        except UnitError as error:
            raise ConsoleError(str(error)) from None


def _with_help(error: ConditionError) -> str:
    return f"{error}; {error.help}" if error.help else str(error)
