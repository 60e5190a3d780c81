"""`docs/lsp-requests.md` names every request and command that the server has, and every name of their answers."""

import dataclasses
import gc
import re
import sys
from pathlib import Path

import pytest
from distir_lsp.answers import PROTOCOL, key
from distir_lsp.server import DistirServer

from distir.ide.call_choice import CallChoice
from distir.ide.compare import Comparison, Parting, SideCosts
from distir.ide.going import Goal
from distir.ide.hardware import FigureRow, Profile
from distir.ide.line_times import LineChanges, LineTimes
from distir.ide.memory import Curve, MemoryView, Resident
from distir.ide.rank_program import LineOrigin, RankProgram
from distir.ide.running import Agreement, ProgramRun, Result
from distir.ide.status import Status
from distir.ide.timeline import Bar, BarKind, BarTable, CallPlace, DeviceLane, Origin, TimelineView, Waiting
from distir.ide.why import LaneShares, Why

PAGE = (Path(__file__).parents[2] / "docs" / "lsp-requests.md").read_text()
ANSWERS = (CallChoice, Comparison, SideCosts, Parting, FigureRow, Profile, Curve, MemoryView, Resident) + (
    LineOrigin,
    RankProgram,
    Status,
    Bar,
    BarTable,
    CallPlace,
    BarKind,
    Origin,
    DeviceLane,
    TimelineView,
    Waiting,
    LineTimes,
    LineChanges,
    Goal,
    ProgramRun,
    Result,
    Agreement,
    Why,
    LaneShares,
)


@pytest.fixture
def server():
    """A server in this process, which it takes for its own: how Python runs is set back afterwards."""
    limit, interval, threshold = sys.getrecursionlimit(), sys.getswitchinterval(), gc.get_threshold()
    yield DistirServer()
    sys.setrecursionlimit(limit)
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


def test_every_request_and_command_is_documented(server):
    requests = {name for name in server.protocol.fm.features if name.startswith("distir/")}
    assert requests == set(re.findall(r"^## `(distir/\w+)`", PAGE, re.MULTILINE))
    commands = {name for name in server.protocol.fm.commands if name.startswith("distir.")}
    documented = set(re.findall(r"^\| `(distir\.\w+)`", PAGE, re.MULTILINE))
    assert documented <= commands
    assert f"now **{PROTOCOL}**" in PAGE


def test_every_name_of_an_answer_is_documented():
    words = set(re.findall(r"\w+", PAGE))
    for answer in ANSWERS:
        missing = {key(f.name) for f in dataclasses.fields(answer)} - words
        assert not missing, f"{answer.__name__}: {missing}"
