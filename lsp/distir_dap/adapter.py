"""One debug session: what a client asks, answered from a `Stepper`. Requests are methods, named as the protocol's."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from distir.cost import show_seconds
from distir.diagnostics import Span
from distir.ide.stepping.breakpoints import FILTERS, Asked, Breakpoints, Placed
from distir.ide.stepping.console import Console, ConsoleAnswer, ConsoleError
from distir.ide.stepping.inspecting import Inspector, ShownVariable, StackFrame, depth, frames
from distir.ide.stepping.search import PausedError
from distir.ide.stepping.stepper import Stepper, Stop
from distir.ide.stepping.streams import Spot, stream_name
from distir.ide.stepping.watches import StopWatch
from distir.ir import Site
from distir.simulate.algebra.clocks import Clock
from distir_dap.connection import DebugClient, Json, OutdatedError, RequestError
from distir_dap.launching import LaunchedSession, launch, read_program
from distir_dap.references import References
from distir_dap.requested import objects, table, text, texts, whole

CAPABILITIES = {
    "supportsConfigurationDoneRequest": True,
    "supportsFunctionBreakpoints": True,
    "supportsConditionalBreakpoints": True,
    "supportsHitConditionalBreakpoints": True,
    "supportsLogPoints": True,
    "supportsEvaluateForHovers": True,
    "supportsStepBack": True,
    "supportsSteppingGranularity": True,
    "supportsGotoTargetsRequest": True,
    "supportsBreakpointLocationsRequest": True,
    "supportsExceptionFilterOptions": True,
    "supportsExceptionInfoRequest": True,
    "supportsDelayedStackTraceLoading": True,
    "supportsTerminateRequest": True,
    "supportsCancelRequest": True,
    "supportsCompletionsRequest": False,
    "exceptionBreakpointFilters": [
        {
            "filter": each.name,
            "label": each.label,
            "description": each.description,
            "default": False,
            "supportsCondition": True,
            "conditionDescription": each.asks,
        }
        for each in FILTERS
    ],
}

EMPTY: dict[str, Json] = {
    "threads": {"threads": []},
    "stackTrace": {"stackFrames": [], "totalFrames": 0},
    "scopes": {"scopes": []},
    "variables": {"variables": []},
}
"""Answers with nothing. VS Code shows the words of a failed stack trace beneath the frames of the stop after it."""

MOST_FRAMES = 1_000
"""More are never sent in one answer: a chain of calls may be as deep as a text is long."""


class Adapter:
    """The session. Ends with `disconnect`, or when the client goes away.

    `read` gives the text of the program that a launch names, or raises RequestError.
    """

    def __init__(self, connection: DebugClient, read: Callable[[str], str] = read_program) -> None:
        self.connection = connection
        self._read = read
        self._launched: LaunchedSession | None = None
        self._given: Json = {}
        self._waiting: Json | None = None
        """The launch, which is answered when the client has said where to stop."""
        self._ended = False
        self._first_line = self._first_column = 1
        self._placed: dict[str, list[tuple[int, Placed]]] = {}
        """By the kind of breakpoints: their numbers, and where they were placed."""
        self._filters: dict[int, str] = {}
        self._numbers = 0
        self._frames: References[StackFrame] = References()
        self._opened: References[Callable[[], Sequence[ShownVariable]]] = References()
        self._targets: list[tuple[Spot, Clock]] = []
        self._known_inspector: Inspector | None = None
        self._known_breakpoints: Breakpoints | None = None

    def serve(self) -> None:
        """Answer requests until the session ends, or there are no more."""
        while not self._ended and (request := self.connection.next()) is not None:
            self.handle(request)

    def handle(self, request: Json) -> None:
        """Answer one request; what fails is said, and the session continues."""
        name = re.sub(r"(?=[A-Z])", "_", str(request["command"])).lower()
        handler: Callable[[Json, Json], None] | None = getattr(self, f"on_{name}", None)
        if handler is None:
            self.connection.failure(request, f"`{request['command']}` is not supported")
            return
        if self.connection.is_cancelled(request):
            self._pass_over(request)
            return
        try:
            handler(request, table(request.get("arguments")))
        except (RequestError, ConsoleError) as error:
            self.connection.failure(request, str(error), is_shown=not isinstance(error, OutdatedError))
        except PausedError:
            self.connection.failure(request, "interrupted", is_shown=False)
        except ModuleNotFoundError as missing:
            self.connection.failure(request, f"this needs the Python package `{missing.name}`, which is not there")
        except Exception as error:  # of ours: the session outlives it
            traceback.print_exc(file=sys.stderr)
            self.connection.failure(request, f"a bug in DistIR: {error!r}")

    def _pass_over(self, request: Json) -> None:
        """Answer a cancelled request: with nothing, where an editor would list the words of a failure."""
        empty = EMPTY.get(request["command"])
        if empty is None:
            self.connection.failure(request, "cancelled", is_shown=False)
        else:
            self.connection.response(request, empty)

    # the session

    def on_initialize(self, request: Json, given: Json) -> None:
        """Lines and columns count from 0 or from 1, as the client says."""
        self._first_line = int(bool(given.get("linesStartAt1", True)))
        self._first_column = int(bool(given.get("columnsStartAt1", True)))
        self.connection.response(request, CAPABILITIES)

    def on_launch(self, request: Json, given: Json) -> None:
        """Read, check and simulate the program. The answer waits until breakpoints are set."""
        self._open(given)
        self._waiting = request
        self.connection.event("initialized")

    def on_attach(self, request: Json, given: Json) -> None:
        """There is no process to attach to."""
        raise RequestError("there is nothing to attach to: use a launch configuration")

    def on_configuration_done(self, request: Json, given: Json) -> None:
        """All is set: begin."""
        self.connection.response(request)
        if self._waiting is not None:
            self.connection.response(self._waiting)
            self._waiting = None
        self._begin()

    def on_disconnect(self, request: Json, given: Json) -> None:
        """The session ends."""
        self.connection.response(request)
        self._ended = True

    def on_terminate(self, request: Json, given: Json) -> None:
        """The program ends; the client disconnects next."""
        self.connection.response(request)
        self.connection.event("terminated")

    def on_cancel(self, request: Json, given: Json) -> None:
        """Nothing to do: the request is passed over, or was interrupted already."""
        self.connection.response(request)

    # breakpoints

    def on_set_breakpoints(self, request: Json, given: Json) -> None:
        """Breakpoints on statements of one file; those on no statement are said to be unverified."""
        path = text(table(given.get("source")), "path", "")
        places = self._breakpoints()
        placed: list[tuple[int, Placed]] = []
        for each in objects(given, "breakpoints"):
            number = self._number()
            asked = _asked(each)
            if not _same(path, self._open_program.path):
                found = Placed(None, None, f"`{os.path.basename(path)}` is not the program that is simulated")
            else:
                found = places.at_line(number, self._line(each), asked)
            placed.append((number, found))
        self._put(f"source {os.path.normcase(path)}", placed)
        self.connection.response(request, {"breakpoints": [self._breakpoint(*each) for each in placed]})

    def on_set_function_breakpoints(self, request: Json, given: Json) -> None:
        """Breakpoints on calls of functions."""
        placed: list[tuple[int, Placed]] = []
        for each in objects(given, "breakpoints"):
            number = self._number()
            asked = _asked(each)
            placed.append((number, self._breakpoints().at_function(number, text(each, "name"), asked)))
        self._put("functions", placed)
        self.connection.response(request, {"breakpoints": [self._breakpoint(*each) for each in placed]})

    def on_set_exception_breakpoints(self, request: Json, given: Json) -> None:
        """Filters: waits, peaks, the critical path, ops for which a condition holds."""
        asked = [(name, "") for name in texts(given, "filters")]
        asked += [(text(o, "filterId"), text(o, "condition", "")) for o in objects(given, "filterOptions")]
        self._filters = {}
        placed: list[tuple[int, Placed]] = []
        for name, condition in asked:
            number = self._number()
            self._filters[number] = name
            placed.append((number, self._breakpoints().of_filter(number, name, condition)))
        self._put("filters", placed)
        for _, found in placed:
            if found.trouble:
                self._say(f"breakpoint not set: {found.trouble}", "important")
        self.connection.response(request, {"breakpoints": [self._breakpoint(*each) for each in placed]})

    def on_breakpoint_locations(self, request: Json, given: Json) -> None:
        """The lines at which a breakpoint can be."""
        first = self._line(given)
        last = self._line(given, "endLine") if "endLine" in given else first
        same = _same(text(table(given.get("source")), "path", ""), self._open_program.path)
        lines = self._breakpoints().lines(first, last) if same else []
        self.connection.response(request, {"breakpoints": [{"line": line - 1 + self._first_line} for line in lines]})

    # moving

    def on_continue(self, request: Json, given: Json) -> None:
        """To the next breakpoint; from the end, out of the program."""
        self.connection.response(request, {"allThreadsContinued": True})
        if self._stepper.is_over:
            self.connection.event("terminated")
        else:
            self._go(self._stepper.go)

    def on_reverse_continue(self, request: Json, given: Json) -> None:
        """To the breakpoint before, or to the start."""
        self.connection.response(request)
        self._go(self._stepper.go_back)

    def on_next(self, request: Json, given: Json) -> None:
        """To the next statement of this function on this device."""
        stepper = self._stepper
        self._step(request, given, stepper.event_after if _by_event(given) else stepper.over)

    def on_step_in(self, request: Json, given: Json) -> None:
        """Into the call."""
        stepper = self._stepper
        self._step(request, given, stepper.event_after if _by_event(given) else stepper.into)

    def on_step_out(self, request: Json, given: Json) -> None:
        """To what follows the call on this device."""
        self._step(request, given, self._stepper.out)

    def on_step_back(self, request: Json, given: Json) -> None:
        """To the statement before on this device."""
        stepper = self._stepper
        self._step(request, given, stepper.event_before if _by_event(given) else stepper.back)

    def on_pause(self, request: Json, given: Json) -> None:
        """Nothing to do: the search was interrupted, and reported its position."""
        self.connection.response(request)

    def on_goto_targets(self, request: Json, given: Json) -> None:
        """The next time that a statement runs, and the last time that it did."""
        placed = self._breakpoints().at_line(0, self._line(given), Asked())
        if placed.watch is None:
            raise RequestError(placed.trouble)
        self._targets, targets = [], list[dict[str, Any]]()
        for words, back in (("next", False), ("before", True)):
            hit = next(self._stepper.search([placed.watch], back=back), None)
            if hit is not None:
                label = f"{words}: {hit.event}"
                targets.append({"id": len(self._targets), "label": label, **self._place(placed.site)})
                self._targets.append((hit.spot, hit.event.of))
        self.connection.response(request, {"targets": targets})

    def on_goto(self, request: Json, given: Json) -> None:
        """To one of these."""
        target = whole(given, "targetId")
        if not 0 <= target < len(self._targets):
            raise RequestError("that place is no longer known: ask for it again")
        self.connection.response(request)
        self._stopped("goto", self._stepper.jump(*self._targets[target]))

    # looking

    def on_threads(self, request: Json, given: Json) -> None:
        """The devices' streams."""
        streams = self._stepper.streams.all
        threads = [{"id": number, "name": stream_name(stream)} for number, stream in enumerate(streams, 1)]
        self.connection.response(request, {"threads": threads})

    def on_stack_trace(self, request: Json, given: Json) -> None:
        """The calls that lead to what a device runs, innermost first."""
        stream = self._stream(given)
        first = max(0, whole(given, "startFrame", 0))
        count = min(whole(given, "levels", 0) or MOST_FRAMES, MOST_FRAMES)
        found = [self._frame(frame) for frame in islice(frames(self._stepper, stream), first, first + count)]
        self.connection.response(request, {"stackFrames": found, "totalFrames": depth(self._stepper, stream)})

    def on_scopes(self, request: Json, given: Json) -> None:
        """The scopes of a frame."""
        frame = self._known_frame(whole(given, "frameId"))
        scopes: list[dict[str, Any]] = []
        for scope in self._inspector.scopes(frame):
            shown: dict[str, Any] = {"name": scope.name, "expensive": scope.expensive}
            shown["variablesReference"] = self._reference(scope.items)
            scopes.append(shown | ({"presentationHint": "locals"} if scope.is_local else {}))
        self.connection.response(request, {"scopes": scopes})

    def on_variables(self, request: Json, given: Json) -> None:
        """The variables of a scope, or of a value."""
        reference = whole(given, "variablesReference")
        opened = self._opened.get(reference)
        if opened is None:
            raise OutdatedError("that is of an earlier stop")
        items = opened()
        first, count = whole(given, "start", 0), whole(given, "count", 0)
        chosen = items[first : first + count] if count else items[first:]
        self.connection.response(request, {"variables": [*map(self._variable, chosen)]})

    def on_evaluate(self, request: Json, given: Json) -> None:
        """A value or an expression; in the console also a place to go to."""
        said = text(given, "expression")
        frame = self._known_frame(whole(given, "frameId")) if given.get("frameId") else None
        console = Console(self._stepper, self._inspector)
        try:
            typed = given.get("context", "repl") == "repl"
            answer = console.answer(said, frame) if typed else console.evaluate(said, frame)
        except PausedError as error:
            answer = ConsoleAnswer("paused", self._stepper.paused(error))
        body: dict[str, Any] = {"result": answer.text, "variablesReference": 0}
        if answer.shown is not None:
            body |= {"variablesReference": self._reference(answer.shown.inner), "type": answer.shown.type}
        if answer.stop is not None:
            self._forget()
        self.connection.response(request, body)
        if answer.stop is not None:
            self._stopped("goto", answer.stop)

    def on_exception_info(self, request: Json, given: Json) -> None:
        """Why a filter stopped here."""
        hit = self._stepper.now.hit
        words = self._stepper.now.words if hit is None else str(hit.event)
        named = self._filter(hit.watches if hit else ())
        self.connection.response(request, {"exceptionId": named, "description": words, "breakMode": "always"})

    def on_source(self, request: Json, given: Json) -> None:
        """The text as it was simulated."""
        self.connection.response(request, {"content": self._open_program.program.source.text})

    # what requests have in common

    @property
    def _open_program(self) -> LaunchedSession:
        if self._launched is None:
            raise RequestError("no program has been launched")
        return self._launched

    @property
    def _stepper(self) -> Stepper:
        return self._open_program.stepper

    @property
    def _inspector(self) -> Inspector:
        if self._known_inspector is None:
            self._known_inspector = Inspector(self._stepper)
        return self._known_inspector

    def _breakpoints(self) -> Breakpoints:
        if self._known_breakpoints is None:
            self._known_breakpoints = Breakpoints(self._open_program.program, self._stepper)
        return self._known_breakpoints

    def _open(self, given: Json) -> None:
        self._launched, self._given = launch(given, self._read), given
        self._known_inspector = self._known_breakpoints = None
        self._stepper.interrupted = lambda: self.connection.interrupted
        self._forget()

    def _begin(self) -> None:
        launched = self._open_program
        simulation = launched.stepper.simulation
        what = f"@{simulation.function.name} on {simulation.hardware.name}"
        self._say(f"{what}: {show_seconds(simulation.latency_s)}, {simulation.ops:,} ops\n")
        if self._given.get("noDebug"):
            self.connection.event("terminated")
        elif self._given.get("stopOnEntry", True):
            self._stopped("entry", launched.stepper.now)
        else:
            self._go(launched.stepper.go)

    def _put(self, kind: str, placed: list[tuple[int, Placed]]) -> None:
        self._placed[kind] = placed
        every = [found.watch for each in self._placed.values() for _, found in each if found.watch is not None]
        self._stepper.watches = every

    def _go(self, move: Callable[[Callable[[str], None]], Stop]) -> None:
        self._forget()
        try:
            stop = move(lambda said: self._say(said + "\n", "console"))
        except PausedError as error:
            self._stopped("pause", self._stepper.paused(error))
            return
        if stop.hit is None:
            self._stopped("pause" if self._stepper.is_over else "step", stop)
        elif not stop.hit.watches or stop.hit.watches[0].number == 0:
            self._stopped("entry", stop)
        else:
            self._stopped(self._reason(stop.hit.watches), stop)

    def _step(self, request: Json, given: Json, step: Callable[[Clock], Stop]) -> None:
        stream = self._stream(given)
        self.connection.response(request)
        self._forget()
        self._stopped("step", step(stream))

    def _reason(self, watches: Sequence[StopWatch]) -> str:
        numbers = {watch.number for watch in watches}
        for kind, placed in self._placed.items():
            if numbers & {number for number, _ in placed}:
                return {"functions": "function breakpoint", "filters": "exception"}.get(kind, "breakpoint")
        return "breakpoint"

    def _filter(self, watches: Sequence[StopWatch]) -> str:
        return next((self._filters[watch.number] for watch in watches if watch.number in self._filters), "stop")

    def _stopped(self, reason: str, stop: Stop) -> None:
        thread = self._stepper.streams.all.index(stop.stream) + 1
        words = stop.words[:1].upper() + stop.words[1:]
        body: dict[str, Any] = {"reason": reason, "description": words, "threadId": thread, "allThreadsStopped": True}
        if stop.hit is not None and (numbers := [w.number for w in stop.hit.watches if w.number]):
            body["hitBreakpointIds"] = numbers
        self._say(words + "\n", "console")
        self.connection.event("stopped", body | {"text": words})

    def _say(self, words: str, category: str = "console") -> None:
        self.connection.event("output", {"category": category, "output": words})

    def _forget(self) -> None:
        """Forget the variables of the last stop."""
        self._frames.forget()
        self._opened.forget()

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _stream(self, given: Json) -> Clock:
        thread, streams = whole(given, "threadId"), self._stepper.streams.all
        if not 1 <= thread <= len(streams):
            raise RequestError(f"there is no thread {thread}")
        return streams[thread - 1]

    def _line(self, given: Json, name: str = "line") -> int:
        """A line as programs count them, from 1."""
        return whole(given, name) + 1 - self._first_line

    def _breakpoint(self, number: int, placed: Placed) -> dict[str, Any]:
        if placed.watch is None:
            return {"id": number, "verified": False, "message": placed.trouble}
        return {"id": number, "verified": True} | (self._place(placed.site, source=True) if placed.site else {})

    def _place(self, site: Site | None, *, source: bool = False) -> dict[str, Any]:
        """The location of a site, in the client's lines and columns."""
        launched = self._open_program
        span: Span | None = launched.program.locate(site) if site is not None else None
        place: dict[str, Any] = {"line": 0}
        if span is not None:
            position = launched.program.source.position
            (line, column), (end_line, end_column) = position(span.start), position(span.end)
            down, left = 1 - self._first_line, 1 - self._first_column
            place = {"line": line - down, "column": column - left, "endLine": end_line - down}
            place["endColumn"] = end_column - left
        if source and span is not None:
            place["source"] = {"name": os.path.basename(launched.path), "path": launched.path}
        return place

    def _frame(self, frame: StackFrame) -> dict[str, Any]:
        shown: dict[str, Any] = {"id": self._frames.add(frame), "name": frame.name, "column": 0}
        shown |= self._place(frame.site, source=True)
        if frame.spot is None:
            shown["presentationHint"] = "label"
        elif frame.is_ahead:
            shown["presentationHint"] = "subtle"
        return shown

    def _known_frame(self, number: int) -> StackFrame:
        frame = self._frames.get(number)
        if frame is None:
            raise OutdatedError("that frame is of an earlier stop")
        return frame

    def _reference(self, items: Callable[[], Sequence[ShownVariable]] | None) -> int:
        return 0 if items is None else self._opened.add(items)

    def _variable(self, shown: ShownVariable) -> dict[str, Any]:
        found: dict[str, Any] = {"name": shown.name, "value": shown.text}
        found["variablesReference"] = self._reference(shown.inner)
        if shown.type:
            found["type"] = shown.type
        if shown.name.startswith("%"):
            found["evaluateName"] = shown.name
        return found


def _by_event(given: Json) -> bool:
    """Whether a step is to lead to the next op, in whichever function."""
    return given.get("granularity") == "instruction"


def _asked(given: Json) -> Asked:
    return Asked(text(given, "condition", ""), text(given, "hitCondition", ""), text(given, "logMessage", ""))


def _same(path: str, other: str) -> bool:
    return os.path.normcase(os.path.realpath(path)) == os.path.normcase(os.path.realpath(other))
