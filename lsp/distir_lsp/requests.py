"""Custom requests, `distir/...`, and the commands of lenses. Documented in `docs/lsp-requests.md`.

Every answer is a JSON object with `protocol`, the version of these requests, and either what was asked for or `error`,
why there is none. What is said comes from `distir.ide`, imported with the first request: the server starts sooner.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from lsprotocol import types

from distir.cost import HardwareError, load
from distir.diagnostics import ProgramError
from distir.files.reading import PROGRAM, read_text, why_not
from distir.ide.document import Document, Setup, open_document
from distir_lsp import following
from distir_lsp.addresses import file_of, path_of
from distir_lsp.advice import in_short
from distir_lsp.answers import Answer, answer_of, as_json, written
from distir_lsp.positions import Positions
from distir_lsp.protocol import Raw
from distir_lsp.reading import view_of
from distir_lsp.server import DistirServer
from distir_lsp.settings import settings_for

LONGEST_WAIT_S = 5.0
"""How long a request waits for the simulation of the latest version, before it says that there is none."""


MOST_BYTES = 1 << 28
"""The default limit for the results of a run, in bytes."""


class RequestRefused(Exception):  # noqa: N818 - an answer, not a failure of ours
    """A request cannot be answered; the text says why."""


async def answered(answer: Callable[[Mapping[str, Any]], Any], asked: Mapping[str, Any]) -> Raw:
    """An answer, awaited where it takes long, as it is sent."""
    found = answer(asked)
    done = await found if asyncio.iscoroutine(found) else found
    return done if isinstance(done, Raw) else written(done)


def register(server: DistirServer) -> None:
    """Offer the requests."""
    for name, handler in REQUESTS.items():
        _offer(server, name, partial(handler, server))


def _offer(server: DistirServer, name: str, answer: Callable[[Mapping[str, Any]], Any]) -> None:
    @server.feature(f"distir/{name}")
    async def handler(params: Any) -> Raw:
        asked = cast("Mapping[str, Any]", params) if isinstance(params, Mapping) else dict[str, Any]()
        try:
            return await answered(answer, asked)
        except RequestRefused as refused:
            return written({"error": str(refused)})
        except ModuleNotFoundError as missing:
            if await server.obtained(missing.name or ""):
                return await handler(params)
            return written({"error": f"this needs the Python package `{missing.name}`, which is not there"})


async def _timeline(server: DistirServer, asked: Mapping[str, Any]) -> Raw:
    from distir.ide.timeline import MOST_EVENTS, timeline_view

    shown = await _simulated(server, _uri(server, asked))
    most = max(1, min(_integer(asked, "limit", MOST_EVENTS), 10 * MOST_EVENTS))
    wanted = _devices(asked)
    first, columns = max(0, _integer(asked, "firstEvent", 0)), asked.get("columns") is True
    blocks = asked.get("blocks") is True
    return await server.aside(
        lambda: written(shown.answer(timeline_view(shown.document, first, most, wanted, columns, blocks)))
    )


async def _memory(server: DistirServer, asked: Mapping[str, Any]) -> Raw:
    from distir.ide.memory import memory_view

    shown = await _simulated(server, _uri(server, asked))
    return await server.aside(lambda: written(shown.answer(memory_view(shown.document))))


async def _line_times(server: DistirServer, asked: Mapping[str, Any]) -> Raw:
    from distir.ide.line_times import line_times

    shown = await _simulated(server, _uri(server, asked))
    return await server.aside(lambda: written(shown.answer(line_times(shown.document, shown.positions.starts))))


async def _diff_times(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    uri = _named(asked)
    found = server.document(uri)
    setup = found.setup if found is not None else settings_for(path_of(uri), server.client_settings).setup
    texts = [_text(asked, "other"), _text(asked, "this") if "this" in asked or found is None else found.text]
    return await server.aside(lambda: _compared_times(server, path_of(uri), setup, *texts))


async def _go_to(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.call_choice import numbers_on
    from distir.ide.going import GOALS, PLACEMENT_GOALS, goal, placement_goal

    uri = _uri(server, asked)
    kind = asked.get("to")
    if kind in PLACEMENT_GOALS:
        view = view_of(server, uri)
        assert view is not None
        there = placement_goal(view, server.positions(uri).offset(_position(asked)), kind)
        if there is None:
            raise RequestRefused("there is no further one")
        return _about(server, uri, view.document, there)
    if kind not in GOALS:
        raise RequestRefused(f"expected one of {', '.join(GOALS + PLACEMENT_GOALS)} as `to`, found `{_shown(kind)}`")
    shown = await _simulated(server, uri)
    if shown.stale:
        raise RequestRefused("the text has changed since it was simulated")
    offset = server.positions(uri).offset(_position(asked))
    found = await server.aside(lambda: goal(shown.document, offset, kind))
    if found is None:
        raise RequestRefused("there is no further one")
    _pick(server, uri, numbers_on(shown.document, found.path))
    return shown.answer(found)


async def _why(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.why import why

    uri = _uri(server, asked)
    await _simulated(server, uri)
    view = view_of(server, uri)
    assert view is not None
    offset = server.positions(uri).offset(_position(asked))
    found = await server.aside(lambda: why(view, offset))
    if found is None:
        raise RequestRefused("no statement that takes time is there")
    advised = server.documents[uri].advice()
    here = advised.about(found.span) if advised is not None else ()
    about = {"advice": [in_short(advice) for advice in here], "stale": view.is_stale}
    return {**_about(server, uri, view.document, found), **about}


async def _trace(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    path = asked.get("path")
    if not isinstance(path, str) or not os.path.isabs(path):
        raise RequestRefused("expected where to write the trace as `path`, an absolute one")
    shown = await _simulated(server, _uri(server, asked))
    return await server.aside(lambda: shown.answer(_traced(shown.document, path)))


async def _compare(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    uri = _uri(server, asked)
    shown = await _simulated(server, uri)
    find, name = await _other(server, uri, shown.document, asked)
    return await server.aside(lambda: _compared(shown, name, *find()))


async def _rank_program(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.rank_program import rank_program

    uri = _uri(server, asked)
    document = _document(server, uri)
    rank = _integer(asked, "rank", 1)
    try:
        found = await server.aside(lambda: rank_program(document, rank))
    except LookupError as error:
        raise RequestRefused(str(error.args[0] if error.args else error)) from None
    if isinstance(shown_as := asked.get("shownAs"), str):
        following.follow(server, shown_as, following.Followed(uri, rank))
    return _about(server, uri, document, found)


def _placements(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.placements import marks

    uri = _uri(server, asked)
    view = view_of(server, uri)
    if view is None or server.settings(uri).placements == "off":
        return _about(server, uri, _document(server, uri), {"resharding": (), "pending": ()})
    return _about(server, uri, view.document, marks(view))


def _status(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.status import status

    uri = _uri(server, asked)
    followed = server.followed.get(uri)
    if followed is not None and followed.rank is not None:  # its times are the whole program's
        uri = followed.source
    document = _document(server, uri)
    return _about(server, uri, document, status(document, server.simulated(uri), server.is_on_demand(uri)))


def _follow(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    uri, source = _named(asked), asked.get("source")
    if not isinstance(source, str):
        raise RequestRefused("expected a document's URI as `source`")
    following.follow(server, uri, following.Followed(source))
    return {}


def _calls(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.call_choice import call_choices, numbers_on

    uri = _uri(server, asked)
    document = _document(server, uri)
    name = str(asked.get("function", "")).removeprefix("@")
    if "path" in asked:
        found = numbers_on(document, _places(asked))
        if not found:
            raise RequestRefused("expected calls of the program as `path`, such as `[{function, statement}]`")
        name = list(found)[-1]
        _pick(server, uri, found)
    elif "pick" in asked:
        _pick(server, uri, {name: _integer(asked, "pick", 0)})
    view = view_of(server, uri)
    assert view is not None
    if name not in view.document.program.module.functions:
        raise RequestRefused(f"there is no function `@{name}`")
    return _about(server, uri, view.document, {"function": name, "calls": call_choices(view, name)})


async def _transform(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.actions import transforms

    uri = _uri(server, asked)
    document = _document(server, uri)
    words = asked.get("steps")
    if words is None:
        return _about(server, uri, document, {"steps": transforms.known_steps()})
    if not isinstance(words, (list, tuple)) or not words:
        raise RequestRefused('expected `steps`, such as `["pp=2", "microbatches=4"]`')
    name = str(asked.get("function") or (document.entry.name if document.entry else "")).removeprefix("@")
    steps = [str(word) for word in cast("Sequence[Any]", words)]
    most = _integer(asked, "maxBytes", MOST_BYTES) if asked.get("verify") is True else None
    made = await asyncio.to_thread(_transformed, document, name, steps, most)
    return _about(server, uri, document, made)


async def _run(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide.running import CannotRun, run

    uri = _uri(server, asked)
    document = _document(server, uri)
    name = None if asked.get("function") is None else str(asked["function"]).removeprefix("@")
    seed, most = max(0, _integer(asked, "seed", 0)), _integer(asked, "maxBytes", MOST_BYTES)
    try:
        found = await asyncio.to_thread(run, document, name, seed, most)
    except CannotRun as why:
        raise RequestRefused(str(why)) from None
    return _about(server, uri, document, found)


async def _hardware(server: DistirServer, asked: Mapping[str, Any]) -> Answer:
    from distir.ide import hardware as machines

    action = asked.get("action", "list")
    if action == "list" and "textDocument" not in asked:
        return {"profiles": as_json(machines.known(), None)}
    uri = _uri(server, asked)
    document = _document(server, uri)
    name, changes = following.machine(server, uri)
    if action == "list":
        chosen = {"name": name, "changes": changes, "figures": machines.figures(document.setup.hardware)}
        return _about(server, uri, document, {"chosen": chosen, "profiles": machines.known()})
    try:
        if action == "choose":
            name = str(asked.get("name", name))
            following.choose_machine(server, uri, load(name), name, {})
            return _about(server, uri, document, {"chosen": {"name": name, "changes": {}}})
        if action == "whatIf":
            return await _what_if(server, uri, name, changes, asked)
    except HardwareError as error:
        raise RequestRefused(_problems(error)) from None
    raise RequestRefused(f"expected `list`, `choose` or `whatIf` as `action`, found `{action}`")


Handler = Callable[[DistirServer, Mapping[str, Any]], Any]
"""Answers a request, at once or awaited."""

REQUESTS: Mapping[str, Handler] = {
    "timeline": _timeline,
    "memory": _memory,
    "lineTimes": _line_times,
    "diffTimes": _diff_times,
    "goTo": _go_to,
    "why": _why,
    "trace": _trace,
    "compare": _compare,
    "rankProgram": _rank_program,
    "placements": _placements,
    "status": _status,
    "follow": _follow,
    "calls": _calls,
    "hardware": _hardware,
    "transform": _transform,
    "run": _run,
}
"""By name, after `distir/`: who answers."""


@dataclass(frozen=True, slots=True)
class SimulatedVersion:
    """A version that has been simulated. `stale`: an earlier one, for the latest has errors or takes long."""

    document: Document
    positions: Positions
    stale: bool

    def answer(self, found: Any) -> Answer:
        """The answer in the client's form, and whether it is older than the text."""
        return {**answer_of(self.document, found, self.positions), "stale": self.stale}


def _traced(document: Document, path: str) -> Answer:
    """Write a timeline as a Chrome trace."""
    assert document.simulation is not None
    try:
        document.simulation.to_chrome_trace(path, document.program.place)
    except OSError as error:
        raise RequestRefused(f"cannot write `{path}`: {why_not(error)}") from None
    except ProgramError as error:
        raise RequestRefused(error.diagnostics[0].message) from None
    return {"path": path}


def _compared(shown: SimulatedVersion, name: str, other: Document, other_positions: Positions) -> Answer:
    from distir.ide.compare import compare

    if other.simulation is None:
        raise RequestRefused(f"{name} cannot be simulated: {other.unsimulated}")
    found = compare(other, shown.document, name, "the document")
    assert found is not None
    answer = shown.answer(replace(found, other_parting=None))
    answer["other_parting"] = as_json(found.other_parting, other_positions)
    return answer


def _compared_times(server: DistirServer, path: str, setup: Setup, other: str, this: str) -> Answer:
    """The lines of each of two versions whose times differ."""
    from distir.ide.line_times import line_changes

    versions = [open_document(text, path, setup) for text in (other, this)]
    for document, name in zip(versions, ("the other version", "this version"), strict=True):
        if document.simulation is None:
            raise RequestRefused(f"{name} cannot be simulated: {document.unsimulated}")
    before, after = ((document, Positions(document.text, server.encoding).starts) for document in versions)
    return {
        "other": as_json(line_changes(*before, after[0]), None),
        "this": as_json(line_changes(*after, before[0]), None),
    }


def _text(asked: Mapping[str, Any], name: str) -> str:
    given = asked.get(name)
    text = cast("Mapping[str, Any]", given).get("text") if isinstance(given, Mapping) else None
    if not isinstance(text, str):
        raise RequestRefused(f"expected `{name}` with a `text`")
    return text


def _position(asked: Mapping[str, Any]) -> types.Position:
    given = asked.get("position")
    table: Mapping[str, Any] = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    return types.Position(max(0, _integer(table, "line", 0)), max(0, _integer(table, "character", 0)))


def _transformed(document: Document, function: str, steps: Sequence[str], verify_bytes: int | None) -> Answer:
    """The result of steps on a function, and its gain; with `verify_bytes`, whether the results are equal."""
    from distir.ide.actions import transforms
    from distir.ide.compare import compare
    from distir.ide.running import CannotRun, agreement

    if document.program.errors:
        raise RequestRefused("the program has errors")
    try:
        made = transforms.transformed(document, function, steps)
    except transforms.CannotTransform as error:
        raise RequestRefused(str(error)) from None
    except HardwareError as error:
        raise RequestRefused(_problems(error)) from None
    setup = replace(document.setup, entry=None)
    after = open_document(made.text, " ".join(steps), setup)
    before = document.under(replace(document.setup, entry=function))
    found = compare(before, after, "the document", " ".join(steps))
    why = None if after.unsimulated is None else str(after.unsimulated)
    left_out = [comment for _, comment in made.left_out]
    answer: Answer = {"function": function, "text": made.text, "left_out": left_out, "why": why, "comparison": found}
    if verify_bytes is not None:
        try:
            answer["agreement"] = agreement(document, function, steps, after, verify_bytes)
        except CannotRun as reason:
            answer["agreement"] = {"why": str(reason)}
    return answer


async def _what_if(
    server: DistirServer,
    uri: str,
    name: str,
    before: Mapping[str, str],
    asked: Mapping[str, Any],
) -> Answer:
    """Simulate on the machine with other figures; `keep`: simulate the document for it from now on."""
    from distir.ide import hardware as machines
    from distir.ide.compare import compare
    from distir.ide.lenses import in_short

    wanted = asked.get("changes")
    if not isinstance(wanted, Mapping) or not wanted:
        raise RequestRefused('expected `changes`, such as `{"nvlink send bandwidth": "300GB/s"}`')
    changes = {**before, **{str(k): str(v) for k, v in cast("Mapping[Any, Any]", wanted).items()}}
    machine = machines.changed(name, changes, f"{name}, changed")
    shown = await _simulated(server, uri)
    document = shown.document
    other = document.under(replace(document.setup, hardware=machine))
    await server.aside(other.simulate)
    if other.simulation is None:
        raise RequestRefused(f"the program cannot be simulated on it: {other.unsimulated}")
    found = compare(document, other, name, machine.name)
    if asked.get("keep") is True:
        following.choose_machine(server, uri, machine, name, changes)
    return shown.answer({"changes": changes, "summary": in_short(other.simulation), "comparison": found})


async def _other(
    server: DistirServer, uri: str, document: Document, asked: Mapping[str, Any]
) -> tuple[Callable[[], tuple[Document, Positions]], str]:
    """The document with which one is compared, and its name.

    Another document, its own file, a text, or itself on another machine.
    """
    wanted = asked.get("other")
    given: Mapping[str, Any] = cast("Mapping[str, Any]", wanted) if isinstance(wanted, Mapping) else {"saved": True}
    if "hardware" in given:
        try:
            machine = load(str(given["hardware"]))
        except HardwareError as error:
            raise RequestRefused(_problems(error)) from None
        positions = server.positions_of(uri, document)
        return lambda: (document.under(replace(document.setup, hardware=machine)), positions), machine.name
    if "text" in given:
        return _opened(str(given["text"]), "the text given", document.setup, server)
    target = str(given.get("uri", uri))
    if target != uri and server.document(target) is not None:
        other = await _simulated(server, target)
        return lambda: (other.document, other.positions), path_of(target)
    path = file_of(target)
    if path is None:
        raise RequestRefused(f"`{target}` is no file's address")
    try:
        text = read_text(path, PROGRAM, "replace")
    except OSError as error:
        raise RequestRefused(f"cannot read `{path_of(target)}`: {why_not(error)}") from None
    return _opened(text, path_of(target), document.setup, server)


def _opened(
    text: str, name: str, setup: Setup, server: DistirServer
) -> tuple[Callable[[], tuple[Document, Positions]], str]:
    return lambda: (open_document(text, name, setup), Positions(text, server.encoding)), name


async def _simulated(server: DistirServer, uri: str) -> SimulatedVersion:
    """The latest version with its simulation, which may have to be waited for.

    An earlier one where the latest has errors, or is not simulated in time, or only on demand. Raises RequestRefused
    where there is none.
    """
    waited = 0.0
    while True:
        document, done = _document(server, uri), server.simulated(uri)
        without = "the program has errors" if document.program.errors else ""
        if server.is_on_demand(uri):
            without = without or "the program is simulated on demand: run the command `distir.simulate`"
        if done is not None and done.program is document.program and done.setup is document.setup:
            if done.simulation is None:
                raise RequestRefused(f"the program cannot be simulated: {done.unsimulated}")
            return SimulatedVersion(done, server.positions_of(uri, done), stale=False)
        if without or waited >= LONGEST_WAIT_S:
            if done is not None and done.simulation is not None:
                return SimulatedVersion(done, server.positions_of(uri, done), stale=True)
            raise RequestRefused(without or "the program is not simulated yet; ask again")
        await asyncio.sleep(0.01)
        waited += 0.01


def _pick(server: DistirServer, uri: str, numbers: Mapping[str, int]) -> None:
    """Show functions for one of their calls each, unless they are."""
    picked = _document(server, uri).setup.picked
    if any(picked.get(function) != number for function, number in numbers.items()):
        server.choose(uri, picked={**picked, **numbers})


def _places(asked: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The statements of `path`."""
    given = asked.get("path")
    items = cast("Sequence[Any]", given) if isinstance(given, (list, tuple)) else ()
    tables = [cast("Mapping[str, Any]", item) for item in items if isinstance(item, Mapping)]
    return [(str(table.get("function", "")), _integer(table, "statement", -1)) for table in tables]


def _about(server: DistirServer, uri: str, document: Document, found: Any) -> Answer:
    """An answer about a version of a document, which may have been edited since."""
    return answer_of(document, found, server.positions_of(uri, document))


def _uri(server: DistirServer, asked: Mapping[str, Any]) -> str:
    """The document that is asked about. Raises RequestRefused for one that is not open."""
    uri = _named(asked)
    _document(server, uri)
    return uri


def _named(asked: Mapping[str, Any]) -> str:
    document = asked.get("textDocument")
    uri = cast("Mapping[str, Any]", document).get("uri") if isinstance(document, Mapping) else None
    if not isinstance(uri, str):
        raise RequestRefused("expected `textDocument` with a `uri`")
    return uri


def _problems(error: HardwareError) -> str:
    return "; ".join(f"{p.message} ({p.help})" if p.help else p.message for p in error.problems)


def _document(server: DistirServer, uri: str) -> Document:
    """The latest version. Raises RequestRefused for a document beyond the length limit."""
    found = server.document(uri)
    if found is None:
        raise RequestRefused(
            f"`{uri}` is not open, or not analysed: it is longer than the settings allow, or took too long"
        )
    return found


def _devices(asked: Mapping[str, Any]) -> frozenset[int] | None:
    """The devices asked for; None for all."""
    devices = asked.get("devices")
    if devices is None:
        return None
    if not isinstance(devices, (list, tuple)) or not all(isinstance(d, int) for d in cast("Sequence[Any]", devices)):
        raise RequestRefused(f"expected a list of integers as `devices`, found `{_shown(devices)}`")
    return frozenset(cast("Sequence[int]", devices))


def _integer(asked: Mapping[str, Any], name: str, default: int) -> int:
    value = asked.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise RequestRefused(f"expected an integer as `{name}`, found `{_shown(value)}`")
    return int(value)


def _shown(value: Any) -> str:
    """A parameter in a message, as far as it is short."""
    text = "null" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
