"""`distir mcp`: twenty tasks of agents, through the client of the protocol's own SDK and the real command."""

import asyncio
import json
import os
import sys

import pytest

import distir
from distir.cli.tools import MOST_TEXT, TOOLS
from distir.ir.rolling import unrolled

pytest.importorskip("mcp")

MODEL = distir.models.mlp(layers=8, width=512, batch=64, training=True)
WRONG = "func @main(%x: Tensor[Float32, (4, 4), 1]) {\n  %y = MatMul(%x, %z)\n  return %y\n}\n"
COMMAND = "import sys; from distir.cli import main; sys.exit(main(['mcp']))"

TASKS = {
    "is it sound": ("check", {"file": "model.dir"}),
    "what is wrong": ("check", {"file": "wrong.dir"}),
    "what does the code mean": ("explain", {"topic": "DIR201"}),
    "how long is a step": ("simulate", {"file": "model.dir", "hardware": "dgx-a100"}),
    "how would I cut it into stages": ("explain", {"topic": "pp"}),
    "what is this op": ("explain", {"topic": "Gemm"}),
    "what is this machine": ("explain", {"topic": "dgx-h100"}),
    "write a pipeline": (
        "transform",
        {"file": "model.dir", "steps": ["pp=4", "microbatches=8"], "out": "pipeline.dir"},
    ),
    "does it overlap better with another schedule": (
        "transform",
        {"file": "model.dir", "steps": ["pp=4", "microbatches=8", "schedule=zb-h1"], "out": "zero.dir"},
    ),
    "which is faster, and why": ("compare", {"first": "pipeline.dir", "second": "zero.dir"}),
    "why is device 3 late": ("explain", {"file": "pipeline.dir", "device": 3}),
    "which device idles": ("explain", {"file": "pipeline.dir"}),
    "what is the best on eight devices": ("search", {"model": "model.dir", "hardware": "dgx-a100"}),
    "make this fit into 20 MB": (
        "search",
        {"model": "model.dir", "devices": 4, "max_memory": "20MB", "thorough": True},
    ),
    "does it fit into 40 GB": ("simulate", {"file": "pipeline.dir", "max_memory": "40GB"}),
    "does it fit into 1 MB": ("simulate", {"file": "pipeline.dir", "max_memory": "1MB"}),
    "show me a small result": ("transform", {"file": "model.dir", "steps": ["dp=2"]}),
    "a file that is not there": ("simulate", {"file": "none.dir"}),
    "a step that is not there": ("transform", {"file": "model.dir", "steps": ["dpp=2"]}),
    "a machine that is not there": ("simulate", {"file": "model.dir", "hardware": "dgx-z100"}),
    "a device that is not there": ("explain", {"file": "pipeline.dir", "device": 9}),
    "no place for files": ("transform", {"file": "model.dir", "steps": ["dp=2"], "out": "../../etc.txt"}),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The tools as they are listed, and what each task is answered, in one session: is_error, answer, characters."""
    from mcp import Client, StdioServerParameters

    folder = tmp_path_factory.mktemp("agents")
    (folder / "model.dir").write_text(distir.format(MODEL))
    (folder / "wrong.dir").write_text(WRONG)
    started = StdioServerParameters(
        command=sys.executable, args=["-c", COMMAND], cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )

    async def talk():
        answers = {}
        async with Client(started, read_timeout_seconds=120) as client:
            tools = (await client.list_tools()).tools
            for name, (tool, arguments) in TASKS.items():
                result = await client.call_tool(tool, arguments)
                text = "".join(getattr(part, "text", "") for part in result.content)
                answers[name] = (result.is_error, text if result.is_error else json.loads(text), len(text))
        return tools, answers

    return folder, *asyncio.run(asyncio.wait_for(talk(), 300))


@pytest.fixture
def answer(session):
    _, _, answers = session

    def of(name):
        failed, found, _ = answers[name]
        assert not failed, found
        return found

    return of


@pytest.fixture
def refusal(session):
    _, _, answers = session

    def of(name):
        failed, found, _ = answers[name]
        assert failed
        assert "Traceback" not in found
        return found

    return of


def test_all_tools_are_listed_with_what_they_take(session):
    _, tools, _ = session
    assert [tool.name for tool in tools] == [tool.__name__ for tool in TOOLS]
    for tool in tools:
        assert len(tool.description) > 80
        assert tool.input_schema["properties"]
    assert len(TASKS) >= 20


def test_answers_are_small_enough_to_read(session):
    _, _, answers = session
    for name, (_, _, characters) in answers.items():
        assert characters < 1.3 * MOST_TEXT, name


def test_programs_are_checked(answer):
    assert answer("is it sound")["sound"] is True
    found = answer("what is wrong")
    assert found["sound"] is False
    assert (found["diagnostics"][0]["line"], found["diagnostics"][0]["code"]) == (2, "DIR201")


def test_topics_are_explained(answer):
    assert "DIR201" in answer("what does the code mean")["text"]
    assert "microbatches" in answer("how would I cut it into stages")["text"]
    assert "Tensor[" in answer("what is this op")["text"]
    assert "8 devices" in answer("what is this machine")["text"]


def test_figures_are_those_of_the_simulation(answer):
    from distir.cost import show_bytes, show_seconds

    found, own = answer("how long is a step"), distir.simulate(MODEL, "dgx-a100")
    assert found["latency"] == show_seconds(own.latency_s)
    assert found["peak_memory"] == show_bytes(own.devices[1].peak_memory_bytes)
    assert found["fits"] is True
    assert found["fit"] == "fits"


def test_a_pipeline_is_written_compared_and_explained(session, answer):
    folder, _, _ = session
    assert answer("write a pipeline")["written"] == "pipeline.dir"
    module = distir.parse((folder / "pipeline.dir").read_text())
    assert unrolled(module) == distir.transform(MODEL, "pp=4", microbatches=8)
    compared = answer("which is faster, and why")
    assert compared["b_is_faster_by"] == pytest.approx(
        distir.simulate(module).latency_s / distir.simulate(distir.parse((folder / "zero.dir").read_text())).latency_s,
        abs=1e-3,
    )
    assert "@" in compared["parting"]["a"]


def test_a_late_device_is_explained_by_what_it_waits_for(session, answer):
    folder, _, _ = session
    found = answer("why is device 3 late")
    assert found["device"] == 3
    assert {wait["for"].partition(" on ")[2] for wait in found["waits"]} == {"device 4", "devices 1, 2"}
    own = distir.simulate(distir.parse((folder / "pipeline.dir").read_text())).devices
    assert answer("which device idles")["device"] == max(own, key=lambda d: own[d].idle_s)


def test_what_fits_is_found_and_its_steps_give_it(answer):
    found = answer("make this fit into 20 MB")
    best = found["best"][0]
    assert found["fitting"] < found["tried"]
    made = distir.transform(MODEL, *best["steps"])
    assert max(use.peak_memory_bytes for use in distir.simulate(made).devices.values()) <= 20e6
    assert answer("what is the best on eight devices")["devices"] == 8
    assert answer("does it fit into 40 GB")["within_max_memory"] is True
    assert answer("does it fit into 1 MB")["within_max_memory"] is False


def test_what_cannot_be_done_is_said(refusal, answer):
    assert "none.dir" in refusal("a file that is not there")
    assert "did you mean `dp`" in refusal("a step that is not there")
    assert "dgx-z100" in refusal("a machine that is not there")
    assert "has no device 9; it has 1, 2, 3, 4" in refusal("a device that is not there")
    assert ".dir" in refusal("no place for files")
    assert answer("show me a small result")["text"].startswith("func")
