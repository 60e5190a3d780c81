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
            assert (pipeline["value"]["kind"], pipeline["value"]["required"]) == ("int", True)
            assert {"name": "microbatches", "kind": "int", "required": False, "default": "1"} in pipeline["options"]

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


def test_settings_beside_a_program_hold_for_what_is_made_of_it(tmp_path):
    async def scenario():
        (tmp_path / "distir.toml").write_text('hardware = "dgx-h100"\n')
        async with session() as client:
            uri = f"distir-preview:{tmp_path.as_posix()}/mlp.dp2.dir?1"
            item = types.TextDocumentItem(uri, "distir", 1, PROGRAM)
            client.text_document_did_open(types.DidOpenTextDocumentParams(item))
            assert (await simulated(client, uri))["hardware"] == "dgx-h100"

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
