"""`distir/run`, and `verify` of `distir/transform`: values by the reference executor, as from the command line."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "ide"))
from reading_session import ask, open_text, session, simulated
from server_session import PATIENCE_S

PROGRAM = """func @main(%x: Tensor[Float32, (8, 4), 1] {batch = 0}, %w: Tensor[Float32, (4, 4), 1]) {
  %y = MatMul(%x, %w)
  %z = Relu(%y)
  return %z
}
"""


def test_a_run_gives_what_the_command_line_gives_and_says_why_it_cannot(tmp_path):
    path = tmp_path / "p.dir"
    path.write_text(PROGRAM)
    command = [
        sys.executable,
        "-c",
        "import sys; from distir.cli import main; sys.exit(main())",
        "run",
        str(path),
        "--seed",
        "3",
        "--json",
    ]
    expected = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    async def scenario():
        async with session() as client:
            uri = open_text(client, path, PROGRAM)
            await simulated(client, uri)
            of = {"textDocument": {"uri": uri}}
            ran = await ask(client, "distir/run", **of, seed=3)
            assert (ran["function"], ran["random"]) == ("main", ["x", "w"])
            (found,), (wanted,) = ran["outputs"], expected["outputs"]
            assert {name: found[name] for name in wanted} == wanted
            assert 0 <= found["mean"] <= found["largest"]
            small = await ask(client, "distir/run", **of, maxBytes=16)
            assert "are allowed" in small["error"]
            assert "there is no function" in (await ask(client, "distir/run", **of, function="q"))["error"]

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_a_transform_is_verified_where_that_is_asked_for(tmp_path):
    async def scenario():
        async with session() as client:
            uri = open_text(client, tmp_path / "p.dir", PROGRAM)
            await simulated(client, uri)
            of = {"textDocument": {"uri": uri}}
            assert "agreement" not in await ask(client, "distir/transform", **of, steps=["dp=2"])
            done = await ask(client, "distir/transform", **of, steps=["dp=2"], verify=True)
            assert (done["agreement"]["equal"], done["agreement"]["results"]) == (True, 1)
            refused = await ask(client, "distir/transform", **of, steps=["dp=2"], verify=True, maxBytes=16)
            assert "are allowed" in refused["agreement"]["why"]
            assert refused["text"] == done["text"]

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))
