"""What a key costs the language server: from the edit to the diagnostics, simulation included, in CPU time.

Then the same beside a sequential program, against which each version is proved when typing pauses: what a key costs
until the other diagnostics are there, and how long the proof takes that follows.

Run it as a script. The server runs in this process, without pipes. Nothing is asserted: times depend on the machine.
"""

from __future__ import annotations

import asyncio
import gc
import random
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path

DEVICES = 8
SIZES = (100, 1_000, 10_000, 50_000)
EDITS, BURSTS = 30, 10
PROOFS = 10
URI = "file:///nowhere/bench.dir"
"""Of the program that is edited; set to one in a folder with settings."""


def program(statements: int) -> str:
    """One function over several devices, with a constant to edit in every fifth statement."""
    heads = [f"%w{d}: Tensor[Float32, (64, 64), {d}], %x{d}: Tensor[Float32, (32, 64), {d}]" for d in range(DEVICES)]
    lines = [f"func @main({', '.join(heads)}) {{"]
    now = [f"%x{d}" for d in range(DEVICES)]
    before = list(now)
    for i in range(statements):
        d, x, y = i % DEVICES, now[i % DEVICES], f"%a{i}"
        match i // DEVICES % 5:
            case 0:
                lines.append(f"  {y} = MatMul({x}, %w{d})")
            case 1:
                lines.append(f"  {y} = Relu({x})")
            case 2:
                lines.append(f"  {y} = Add({x}, {before[d]})")
            case 3:
                lines.append(f"  {y} = Mul({x}, 1.{i % 8})")
            case _:
                other = (d + 1) % DEVICES
                lines.append(f"  {y}s: Tensor[Float32, (32, 64), {other}] = Send[device = {other}]({x})")
                lines.append(f"  {y} = Send[device = {d}]({y}s)")
        before[d], now[d] = x, y
    return "\n".join([*lines, f"  return {', '.join(now)}", "}", ""])


class Client:
    """Takes what is sent: findings of a version that was looked at, for one. Then `heard` is set."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.heard.set()

    def close(self) -> None:
        pass


async def measure(statements: int, is_proved: bool) -> None:
    """One size: opening, keys of three kinds, and 20 quick edits: in one place, and in many; then proofs."""
    from distir_lsp.server import DistirServer

    server = DistirServer()
    server.protocol.set_writer(Client())
    send(server, {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}})
    lines = program(statements).split("\n")
    start = time.process_time()
    item = {"uri": URI, "languageId": "distir", "version": 1, "text": "\n".join(lines)}
    send(server, {"method": "textDocument/didOpen", "params": {"textDocument": item}})
    await settled(server, 1)
    print(f"{statements:>7} ops: opened in {1e3 * (time.process_time() - start):.0f} ms")
    if is_proved:
        start = time.process_time()
        await proved(server)
        print(f"    proved after opening in {1e3 * (time.process_time() - start):.0f} ms")
    version = 1
    choice = random.Random(1)
    for kind in ("constant", "new line", "broken and mended"):
        took: list[float] = []
        for _ in range(EDITS):
            line, match = spot(lines, choice)
            before = list(lines)
            steps = edits(kind, line, match, lines)
            start = time.process_time()
            for change in steps:
                version += 1
                edit(server, version, *change)
                await settled(server, version)
            took.append(1e3 * (time.process_time() - start) / len(steps))
            if kind == "new line":
                version += 1
                edit(server, version, line, 0, line + 1, 0, "")
                await settled(server, version)
                lines[:] = before
        print(f"    {kind:<18} median {statistics.median(took):6.1f} ms   p95 {sorted(took)[-2]:6.1f} ms")
    for kind, pause_s, is_spread in (("at once", 0.0, False), ("1 ms apart", 0.001, False), ("all over", 0.0, True)):
        spent: list[float] = []
        for _ in range(BURSTS):
            line, match = spot(lines, choice)
            start = time.process_time()
            for number in range(20):
                version += 1
                if is_spread:
                    line, match = spot(lines, choice)
                edit(server, version, line, match.start(1), line, match.end(1), str(number % 8))
                if pause_s:
                    await asyncio.sleep(pause_s)
            await settled(server, version)
            spent.append(1e3 * (time.process_time() - start))
        print(f"    20 edits, {kind:<10} median {statistics.median(spent):6.1f} ms")
    took = []
    for _ in range(PROOFS if is_proved else 0):
        line, match = spot(lines, choice)
        for change in edits("constant", line, match, lines):
            version += 1
            edit(server, version, *change)
        await settled(server, version)
        start = time.process_time()
        await proved(server)
        took.append(1e3 * (time.process_time() - start))
    if took:
        print(f"    proof after an edit    median {statistics.median(took):6.1f} ms   most {max(took):6.1f} ms")
    server.shutdown()


async def proved(server: object) -> None:
    """Wait until the latest version was compared with the sequential program."""
    document = server.documents[URI]  # type: ignore[attr-defined]
    while document.proved is None or document.proved.document is not document.current():
        await asyncio.sleep(0.005)


def edits(kind: str, line: int, match: re.Match[str], lines: list[str]) -> list[tuple[int, int, int, int, str]]:
    """The edits of one kind at a line."""
    start, end = match.span(1)
    if kind == "constant":
        new = str((int(match[1]) + 1) % 8)
        lines[line] = lines[line][:start] + new + lines[line][end:]
        return [(line, start, line, end, new)]
    if kind == "new line":
        name = lines[line].split(" = ")[0].strip()
        return [(line, 0, line, 0, f"  {name}n = Relu({lines[line].split('(')[1].split(',')[0]})\n")]
    return [(line, end, line, end, " %("), (line, end, line, end + 3, "")]


def spot(lines: list[str], choice: random.Random) -> tuple[int, re.Match[str]]:
    while True:
        line = choice.randrange(1, len(lines) - 3)
        match = re.search(r", 1\.(\d)\)", lines[line])
        if match:
            return line, match


def edit(server: object, version: int, line: int, column: int, end_line: int, end_column: int, text: str) -> None:
    place = {"start": {"line": line, "character": column}, "end": {"line": end_line, "character": end_column}}
    identifier = {"uri": URI, "version": version}
    params = {"textDocument": identifier, "contentChanges": [{"range": place, "text": text}]}
    send(server, {"method": "textDocument/didChange", "params": params})


def send(server: object, message: dict[str, object]) -> None:
    protocol = server.protocol  # type: ignore[attr-defined]
    protocol.handle_message(protocol.structure_message({"jsonrpc": "2.0", **message}))


async def settled(server: object, version: int) -> None:
    """Wait until a version has been looked at. Does nothing meanwhile: what a key costs is to be the server's time."""
    heard = server.protocol.writer.heard  # type: ignore[attr-defined]
    while True:
        document = server.documents[URI]  # type: ignore[attr-defined]
        current = document.current()
        done = document.simulated
        if (done is not None and done.version == version) or (
            current.version == version and current.program.errors and document.cost_s
        ):
            return
        heard.clear()
        await heard.wait()


if __name__ == "__main__":
    gc.disable()
    sizes = [int(argument) for argument in sys.argv[1:]] or SIZES
    with tempfile.TemporaryDirectory() as folder:
        URI = (Path(folder) / "bench.dir").as_uri()
        for is_proved in (False, True):
            print("proved against a sequential program:" if is_proved else "without a proof:")
            for size in sizes:
                if is_proved:
                    (Path(folder) / "distir.toml").write_text('sequential = "model.dir"\n', encoding="utf-8")
                    (Path(folder) / "model.dir").write_text(program(size), encoding="utf-8")
                asyncio.run(measure(size, is_proved))
