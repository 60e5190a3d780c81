"""`distir/transform`: the steps that there are, what one makes of the entry function, and what that gains.

And what an editor shows of it before it is written: a text of no file, for which the settings beside the program hold.
"""

import asyncio
import sys
from pathlib import Path

from lsprotocol import types

sys.path.insert(0, str(Path(__file__).parent.parent / "ide"))
from reading_session import ask, open_text, session, simulated
from server_session import PATIENCE_S

PROGRAM = (Path(__file__).parents[2] / "examples" / "mlp_sequential.dir").read_text()


def of(uri):
    return {"textDocument": {"uri": uri}}


def test_steps_are_listed_and_applied_to_what_is_in_the_editor(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", PROGRAM)
            await simulated(client, uri)
            known = (await ask(client, "distir/transform", **of(uri)))["steps"]
            pipeline = next(step for step in known if step["name"] == "pp")
            assert (pipeline["value"]["kind"], pipeline["value"]["required"]) == ("Count", True)
            microbatches = {"name": "microbatches", "kind": "int", "required": False, "default": "1", "choices": None}
            assert microbatches in pipeline["options"]

            done = await ask(client, "distir/transform", **of(uri), steps=["dp=2"])
            assert (done["function"], done["why"]) == ("mlp", None)
            assert "MPIAllreduce" in done["text"]
            before, after = done["comparison"]["other"], done["comparison"]["this"]
            assert (len(before["busy_s"]), len(after["busy_s"])) == (1, 2)
            assert done["comparison"]["speedup"] == before["latency_s"] / after["latency_s"]

            assert "does not split" in (await ask(client, "distir/transform", **of(uri), steps=["dp=7"]))["error"]
            assert "dq" in (await ask(client, "distir/transform", **of(uri), steps=["dq=2"]))["error"]
            unknown = await ask(client, "distir/transform", **of(uri), steps=["pp=2", "hardware=nowhere"])
            assert "nowhere" in unknown["error"]
            assert "expected `steps`" in (await ask(client, "distir/transform", **of(uri), steps=[]))["error"]
            assert (
                "there is no function"
                in (await ask(client, "distir/transform", **of(uri), steps=["dce"], function="q"))["error"]
            )

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_steps_come_in_the_order_in_which_they_can_be_applied(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", PROGRAM)
            await simulated(client, uri)
            order = [step["name"] for step in (await ask(client, "distir/transform", **of(uri)))["steps"]]
            words = {"dp": ["dp=2"], "tp": ["tp=2"], "pp": ["pp=2", "microbatches=2"], "zero": ["zero=1"]}
            steps = [word for name in order for word in words.get(name, ())]
            done = await ask(client, "distir/transform", **of(uri), steps=steps)
            assert len(done["comparison"]["this"]["busy_s"]) == 8
            refused = await ask(client, "distir/transform", **of(uri), steps=["dp=2", "pp=2"])
            assert "`@mlp` is distributed already" in refused["error"]
            assert "their order is pp, dp" in refused["error"]

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_comments_stay_and_those_of_what_is_gone_are_reported(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", PROGRAM)
            await simulated(client, uri)
            done = await ask(client, "distir/transform", **of(uri), steps=["dp=2"])
            assert "  // Weight update (WU)\n  %w1_new_1 = " in done["text"]
            assert done["left_out"] == []
            gone = await ask(client, "distir/transform", **of(uri), steps=["inline"])
            assert [text.split()[1] for text in gone["left_out"]] == ["Half"]

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_settings_beside_a_program_hold_for_what_is_made_of_it(tmp_path):
    async def scenario():
        (tmp_path / "distir.toml").write_text('hardware = "dgx-h100"\n')
        async with session() as client:
            uri = f"distir-preview:{tmp_path.as_posix()}/mlp.dp2.dir?1"
            item = types.TextDocumentItem(uri, "distir", 1, PROGRAM)
            client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            assert (await simulated(client, uri))["hardware"] == "dgx-h100"

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
