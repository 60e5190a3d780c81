"""`distir bisect`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import conditions, options, output, simulating
from distir.cli.endings import WRONG, Refused, Wrong
from distir.cli.files import shown
from distir.cli.history import Commit, History
from distir.cli.programs import fold_on_one_core, settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from distir.cli.conditions import Condition, Judged
    from distir.cli.simulating import ChosenHardware
    from distir.config import Config
    from distir.simulate import Simulation
    from distir.transform import Side


def bisect(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[GOOD..BAD] FILE", help="Commits, by default all, and a program.", show_default=False),
    ],
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    function: options.FunctionName = None,
    bind: options.Bindings = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(metavar="'CONDITION'", help="Find the first commit that meets this; repeatable, any of them."),
    ] = None,
    most: Annotated[
        int, typer.Option(metavar="N", min=2, max=10_000, help="Consider the last N commits that change the file.")
    ] = 100,
    as_json: options.AsJson = False,
) -> int:
    """Find the commit that made a program slower.

    Simulates the versions of a program in git's history on one machine, and lists latency and memory of each commit
    that changes the file, with the change from the version before. GOOD is the version before GOOD..BAD, which other
    versions are compared with; BAD is HEAD if left out.

    With --fail-if, it halves the commits between GOOD and BAD, as git bisect does, to find the first one that meets a
    condition of distir diff against GOOD; then only some are simulated, and exit code 1 says that there is one.
    Versions that do not check are passed over. Settings and hardware are those of the working tree.

    For example:

        distir bisect program.dir

        distir bisect v1.0..main program.dir --fail-if 'latency>+5%'

        distir bisect HEAD~20.. program.dir --fail-if 'memory>40GB' --json
    """
    fold_on_one_core()
    if len(words) > 2:
        raise Refused(f"expected at most a range of commits and a program, found {len(words)} words")
    file, revisions = words[-1], words[0] if len(words) == 2 else "HEAD"
    asked = conditions.parsed(fail_if or ())
    config = settings(file)
    machine = simulating.machine(hardware, config, nodes)
    history = History(file)
    commits = history.commits(revisions, most)
    versions = _Versions(history, commits, machine, config, function, bind or ())
    with output.progress(f"simulating versions of {shown(file)}"):
        found = _first_that(versions, asked) if asked else None
        if not asked:
            for number in range(len(commits)):
                versions.measured(number)
    if as_json:
        output.write_json(_as_document(versions, machine, found))
    else:
        output.lay_out(*_as_text(versions, machine, asked, found))
    return WRONG if found is not None else 0


@dataclass(frozen=True, slots=True)
class MeasuredVersion:
    """The costs of a version; `why` it cannot be simulated, otherwise."""

    side: Side | None
    simulation: Simulation | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class FirstMeeting:
    """The first commit that meets a condition, by its number, and the condition."""

    number: int
    judged: Judged


class _Versions:
    """The versions of a program, each simulated when it is asked for; equal texts once."""

    def __init__(
        self,
        history: History,
        commits: Sequence[Commit],
        machine: ChosenHardware,
        config: Config,
        function: str | None,
        bind: Sequence[str],
    ) -> None:
        self.commits = commits
        self.known: dict[int, MeasuredVersion] = {}
        self._history, self._machine, self._config = history, machine, config
        self._function, self._bind = function, bind
        self._by_text: dict[bytes | None, MeasuredVersion] = {}

    def measured(self, number: int) -> MeasuredVersion:
        """Simulate a version."""
        if number not in self.known:
            text = self._history.text(self.commits[number])
            if text not in self._by_text:
                self._by_text[text] = self._simulated(text, self.commits[number])
            self.known[number] = self._by_text[text]
        return self.known[number]

    def _simulated(self, data: bytes | None, commit: Commit) -> MeasuredVersion:
        from distir.analysis.program import read
        from distir.syntax import decode
        from distir.transform.comparison import side_of

        path = f"{commit.short}:{commit.path}"
        text, problems = decode(data, path) if data is not None else (None, ())
        if text is None:
            return MeasuredVersion(None, why=problems[0].message if problems else "the file is not there")
        program = read(text, path)
        if program.errors:
            return MeasuredVersion(None, why=program.errors[0].message)
        try:
            entry = simulating.entry(program, self._function, self._config)
            names = simulating.bindable(entry)
            own = [flag for flag in self._bind if flag.partition("=")[0].strip().removeprefix("%") in names]
            bound = simulating.binding(own, self._config, entry)
            simulation = simulating.simulation(program, self._machine, entry, bound)
            return MeasuredVersion(side_of(simulation), simulation)
        except Refused as error:
            return MeasuredVersion(None, why=error.message)
        except Wrong as error:
            return MeasuredVersion(None, why=error.reports[0].diagnostics[0].message)


def _first_that(versions: _Versions, asked: Sequence[Condition]) -> FirstMeeting | None:
    """The first version that meets one of the conditions, against the first that can be simulated, by halves.

    As `git bisect`, it finds a commit that meets one while the version before it does not; where conditions hold here
    and there, others may be before. Versions that cannot be simulated are passed over. None where the last one meets
    none.
    """
    usable = range(len(versions.commits))
    good = next((number for number in usable if versions.measured(number).side is not None), None)
    if good is None:
        raise Refused("no version can be simulated", f"the last: {versions.measured(usable[-1]).why}")

    def meets(number: int) -> Judged | None:
        a, b = versions.measured(good).side, versions.measured(number).side
        assert a is not None
        found = conditions.judged(asked, a, b) if b is not None else []
        return next((one for one in found if one.holds), None)

    last = next(number for number in reversed(usable) if versions.measured(number).side is not None)
    met = meets(last)
    if met is None:
        return None
    low, high = good, last
    while True:
        middle = (low + high) // 2
        near = (*range(max(middle, low + 1), high), *range(middle - 1, low, -1))
        tried = next((number for number in near if versions.measured(number).side is not None), None)
        if tried is None:
            return FirstMeeting(high, met)
        if (now := meets(tried)) is not None:
            high, met = tried, now
        else:
            low = tried


def _rows(versions: _Versions) -> list[tuple[Commit, MeasuredVersion, Side | None]]:
    """The simulated versions, oldest first: the commit, its costs, and those of the version before it."""
    rows: list[tuple[Commit, MeasuredVersion, Side | None]] = []
    before: Side | None = None
    for number in sorted(versions.known):
        version = versions.known[number]
        rows.append((versions.commits[number], version, before))
        before = version.side or before
    return rows


def _as_document(versions: _Versions, machine: ChosenHardware, found: FirstMeeting | None) -> dict[str, Any]:
    first = None if found is None else versions.commits[found.number].name
    return {
        "hardware": machine.hardware.name,
        "commits": len(versions.commits),
        "versions": [
            {
                "commit": commit.name,
                "day": commit.day,
                "author": commit.author,
                "subject": commit.subject,
                "latency_s": version.side.latency_s if version.side else None,
                "peak_memory_bytes": version.side.most_memory_bytes if version.side else None,
                "why": version.why,
            }
            for commit, version, _ in _rows(versions)
        ],
        "first": first,
        "condition": None if found is None else conditions.as_document([found.judged])[0],
    }


def _as_text(
    versions: _Versions, machine: ChosenHardware, asked: Sequence[Condition], found: FirstMeeting | None
) -> list[RenderableType]:
    from rich.text import Text

    from distir.cost import show_bytes, show_seconds
    from distir.diagnostics.visible import visible

    listed = output.table("commit", "day", "latency", "", "peak memory", "", "subject", right="2345")
    for commit, version, before in _rows(versions):
        side = version.side
        subject = Text(visible(commit.subject))
        if side is None:
            listed.add_row(commit.short, commit.day, "-", "", "-", "", Text(f"{subject} ({version.why})"))
            continue
        change = "" if before is None else conditions.percent(before.latency_s, side.latency_s)
        grown = "" if before is None else conditions.percent(before.most_memory_bytes, side.most_memory_bytes)
        memory = show_bytes(side.most_memory_bytes)
        listed.add_row(commit.short, commit.day, show_seconds(side.latency_s), change, memory, grown, subject)
    count, simulated = len(versions.commits), sum(version.side is not None for version in versions.known.values())
    parts: list[RenderableType] = [
        Text(f"{simulated} of {count} versions simulated on {machine}"),
        "",
        listed,
    ]
    if found is not None:
        commit = versions.commits[found.number]
        said = f"{commit.short} is the first with {found.judged.condition.metric} {found.judged}"
        parts += ["", Text(f"{said}: {visible(commit.subject)} ({visible(commit.author)}, {commit.day})")]
    elif asked:
        parts += ["", Text("the last version meets none of the conditions")]
    return parts
