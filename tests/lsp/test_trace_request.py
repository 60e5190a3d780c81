"""`distir/trace`: the timeline of what is in the editor, as a file for Perfetto."""

import asyncio
import json
from pathlib import Path

from reading_session import ask, open_text, session, simulated
from server_session import PATIENCE_S

PROGRAM = (Path(__file__).parents[2] / "examples" / "mlp_sequential.dir").read_text()


def test_the_trace_is_of_what_is_in_the_editor(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "mlp.dir", PROGRAM)
            await simulated(client, uri)
            about = {"textDocument": {"uri": uri}}
            path = tmp_path / "mlp.trace.json"
            path.write_text("an old one")
            done = await ask(client, "distir/trace", **about, path=str(path))
            assert (done["path"], done["stale"]) == (str(path), False)
            records = json.loads(path.read_text())["traceEvents"]
            slices = [r for r in records if r["ph"] == "X" and "statement" in r["args"]]
            names = [r["name"] for r in slices]
            assert "Gemm" in names
            lines = PROGRAM.splitlines()
            for record in slices:
                line = int(record["args"]["place"].rpartition(":")[2])
                assert record["name"] in lines[line - 1]

            assert "an absolute one" in (await ask(client, "distir/trace", **about))["error"]
            assert "an absolute one" in (await ask(client, "distir/trace", **about, path="mlp.json"))["error"]
            lost = await ask(client, "distir/trace", **about, path=str(tmp_path / "none" / "t.json"))
            assert "cannot write" in lost["error"]
            assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".json") == ["mlp.trace.json"]

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
