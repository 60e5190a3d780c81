"""`distir mcp`: the tools of `tools`, over the Model Context Protocol."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from distir import __version__
from distir.cli.endings import Refused

if TYPE_CHECKING:
    from mcp.server import MCPServer

ABOUT = (
    "DistIR simulates distributed training and inference of neural networks before they run. A .dir file is a whole "
    "distributed program. Begin with `search` for a strategy; `transform` writes it, `simulate` says what it costs, "
    "`explain` why a device is late, `compare` what a change does."
)


def mcp() -> int:
    """Run the tools for agents on standard input and output.

    They speak the Model Context Protocol. Tools: check, simulate, explain, transform, search, compare. Agents start it;
    docs/how-to/agents.md explains how to configure them.

    For example:

        distir mcp
    """
    try:
        made = server()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "pydantic", "anyio"):
            raise
        raise Refused(f"the tools for agents need `{error.name}`", "install it: `pip install 'distir[mcp]'`") from None
    made.run("stdio")
    return 0


def server() -> MCPServer:
    """The server with all tools. Raises ModuleNotFoundError without the package `mcp`."""
    from mcp.server import MCPServer

    from distir.cli.tools import TOOLS

    made = MCPServer("distir", instructions=ABOUT, version=__version__, log_level="WARNING")
    for tool in TOOLS:
        made.tool()(_answered(tool))
    return made


def _answered(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """The tool, whose refusals the protocol reports as errors; what it prints does not reach the protocol's stream.

    Agents show answers on terminals: no text has control characters, or ones that change its direction.
    """
    from mcp.server.mcpserver.exceptions import ToolError

    from distir.cli.tools import ToolRefusal, answering
    from distir.diagnostics.visible import visible_lines

    @wraps(tool)
    def call(*args: Any, **named: Any) -> dict[str, Any]:
        try:
            with redirect_stdout(sys.stderr), answering():
                return _visible(tool(*args, **named))
        except ToolRefusal as refusal:
            raise ToolError(visible_lines(str(refusal))) from None

    return call


def _visible(answer: Any) -> Any:
    """A document whose texts a terminal may show."""
    from distir.diagnostics.visible import visible_lines

    if isinstance(answer, str):
        return visible_lines(answer)
    if isinstance(answer, dict):
        return {_visible(key): _visible(value) for key, value in cast("dict[Any, Any]", answer).items()}
    if isinstance(answer, (list, tuple)):
        return [_visible(item) for item in cast("list[Any]", answer)]
    return answer
