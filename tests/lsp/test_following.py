"""Texts that an editor makes of a program, previews and ranks' programs: looked at for its machine, now and later."""

import asyncio
import re
from pathlib import Path

from lsprotocol import types
from reading_session import ask, open_text, session, simulated
from server_session import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = (EXAMPLES / "mlp_pipeline.dir").read_text()
SEQUENTIAL = (EXAMPLES / "mlp_sequential.dir").read_text()
SLOW = {"nvlink send bandwidth": "1GB/s"}


def of(uri):
    return {"textDocument": {"uri": uri}}


def open_made(client, uri, text):
    item = types.TextDocumentItem(uri, "distir", 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))


async def until(uri, client, hardware):
    """The status of a document, once it is looked at for some hardware and simulated."""
    while (found := await simulated(client, uri))["hardware"] != hardware:
        await asyncio.sleep(0.02)
    return found


async def times(client, uri, text):
    """When the statements of the entry function start, as hints say it."""
    first = text[: text.index("func @mlpPP")].count("\n")
    place = types.Range(types.Position(first, 0), types.Position(first + 60, 0))
    asked = types.InlayHintParams(types.TextDocumentIdentifier(uri), place)
    found = await client.text_document_inlay_hint_async(asked)
    return {start for hint in found or () for start in re.findall(r"@\S+s\b", hint.label)}


def run(scenario):
    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_a_preview_is_simulated_on_the_machine_that_was_picked_for_its_source(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", SEQUENTIAL)
            preview = f"distir-preview:{tmp_path.as_posix()}/mlp.dp2.dir?1"
            await simulated(client, uri)
            await ask(client, "distir/hardware", **of(uri), action="choose", name="dgx-h100")
            await until(uri, client, "dgx-h100")
            done = await ask(client, "distir/transform", **of(uri), steps=["dp=2"])
            await ask(client, "distir/follow", **of(preview), source=uri)
            open_made(client, preview, done["text"])
            status = await simulated(client, preview)
            assert status["hardware"] == "dgx-h100"
            assert status["latency_s"] == done["comparison"]["this"]["latency_s"]
            await ask(client, "distir/hardware", **of(uri), action="whatIf", changes=SLOW, keep=True)
            await until(preview, client, "dgx-h100, changed")
            assert "expected a document's URI" in (await ask(client, "distir/follow", **of(preview)))["error"]

    run(scenario)


def test_a_path_of_calls_shows_each_function_on_it_for_that_call(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", PROGRAM)
            await simulated(client, uri)
            bars = (await ask(client, "distir/timeline", **of(uri)))["bars"]
            for bar in bars:
                if not bar["callers"]:
                    continue
                path = [{"function": call["function"], "statement": call["statement"]} for call in bar["callers"]]
                calls = await ask(client, "distir/calls", **of(uri), path=path)
                await simulated(client, uri)
                assert calls["function"] == bar["function"]
                calls = (await ask(client, "distir/calls", **of(uri), function=bar["function"]))["calls"]
                (shown,) = [call for call in calls if call["shown"]]
                assert shown["range"] == bar["callers"][-1]["range"]
                assert shown["start_s"] <= bar["start_s"] <= shown["start_s"] + shown["duration_s"]
            wrong = await ask(client, "distir/calls", **of(uri), path=[{"function": "mlpPP", "statement": 0}])
            assert "expected calls of the program" in wrong["error"]

    run(scenario)


def test_what_if_starts_from_the_machine_that_is_looked_at(tmp_path):
    async def scenario():
        (tmp_path / "ours.toml").write_text('extends = "dgx-h100"\ntitle = "ours"\n')
        (tmp_path / "distir.toml").write_text('hardware = "ours.toml"\n')
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", PROGRAM)
            before = await simulated(client, uri)
            assert before["hardware"] == "ours"
            found = await ask(client, "distir/hardware", **of(uri), action="whatIf", changes=SLOW)
            assert found["comparison"]["other"]["latency_s"] == before["latency_s"]
            await ask(client, "distir/hardware", **of(uri), action="choose", name="dgx-a100")
            picked = await until(uri, client, "dgx-a100")
            found = await ask(client, "distir/hardware", **of(uri), action="whatIf", changes=SLOW)
            assert found["comparison"]["other"]["latency_s"] == picked["latency_s"]
            assert found["comparison"]["this"]["hardware"] == "dgx-a100, changed"
            # What was chosen holds until the document is closed, no longer.
            client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
            open_text(client, tmp_path / "mlp.dir", PROGRAM)
            assert (await simulated(client, uri))["hardware"] == "ours"
            chosen = (await ask(client, "distir/hardware", **of(uri)))["chosen"]
            assert (Path(chosen["name"]).name, chosen["changes"]) == ("ours.toml", {})

    run(scenario)


UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def are_among(part, whole):
    """Whether times are those of a larger program, which may be written with more digits."""
    known = [float(number) * UNITS[unit] for time in whole for number, unit in re.findall(r"@([\d.]+)([mu]?s)", time)]
    for number, unit in (found for time in part for found in re.findall(r"@([\d.]+)([mu]?s)", time)):
        half = 0.51 * UNITS[unit] / 10 ** len(number.partition(".")[2])
        if not any(abs(float(number) * UNITS[unit] - other) <= half for other in known):
            return False
    return bool(part)


def test_a_ranks_program_has_the_times_of_the_whole_one_on_the_same_machine(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", PROGRAM)
            rank = f"distir-rank:{tmp_path.as_posix()}/mlp.rank2.dir?2"
            await simulated(client, uri)
            await ask(client, "distir/hardware", **of(uri), action="choose", name="dgx-h100")
            whole = await until(uri, client, "dgx-h100")
            found = await ask(client, "distir/rankProgram", **of(uri), rank=2, shownAs=rank)
            open_made(client, rank, found["text"])
            assert (await simulated(client, rank))["latency_s"] == whole["latency_s"]

            while not (in_part := await times(client, rank, found["text"])):
                await asyncio.sleep(0.02)
            assert are_among(in_part, await times(client, uri, PROGRAM))
            await ask(client, "distir/hardware", **of(uri), action="whatIf", changes=SLOW, keep=True)
            await until(uri, client, "dgx-h100, changed")
            while await times(client, rank, found["text"]) == in_part:
                await asyncio.sleep(0.02)
            assert are_among(await times(client, rank, found["text"]), await times(client, uri, PROGRAM))

    run(scenario)
