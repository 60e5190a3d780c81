"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

File = Annotated[str, typer.Argument(metavar="FILE", help="A .dir program; `-` is standard input.", show_default=False)]

HardwareName = Annotated[
    str | None,
    typer.Option("--hardware", metavar="H", help="A built-in profile, or the path of one (.toml).", show_default=False),
]

Nodes = Annotated[  # text: for numbers, typer loads pydantic
    str | None,
    typer.Option("--nodes", metavar="N", help="So many nodes of the hardware, over the network that it states."),
]

FunctionName = Annotated[
    str | None,
    typer.Option("--function", metavar="@F", help="The function to start from, instead of the entry function."),
]

Bindings = Annotated[
    list[str] | None,
    typer.Option("--bind", metavar="NAME=VALUE", help="The size of a named dimension, or a host parameter's value."),
]

MaxLatency = Annotated[str | None, typer.Option(metavar="TIME", help="The latency budget, such as 5ms.")]

MaxMemory = Annotated[str | None, typer.Option(metavar="SIZE", help="The memory budget per device, such as 32GB.")]

RunMemory = Annotated[
    str | None,
    typer.Option("--max-memory", metavar="SIZE", help="The memory limit, such as 8GB. [default: the free memory]"),
]

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document instead of text.")]
