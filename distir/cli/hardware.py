"""`distir hardware`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from distir.cli import options, output
from distir.cli.simulating import number_of_nodes

if TYPE_CHECKING:
    from distir.cost import Hardware


def hardware(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="A profile, or the path of one. [default: list all]")
    ] = None,
    nodes: options.Nodes = None,
    as_json: options.AsJson = False,
) -> int:
    """List hardware profiles, or one with its figures.

    Shows each figure with its source. Name a custom profile by its path.

    For example:

        distir hardware

        distir hardware dgx-a100

        distir hardware dgx-h100 --nodes 128

        distir hardware ./cluster.toml
    """
    from distir.cost import DEFAULT, load, profiles

    if name is not None or nodes is not None:
        _show(load(DEFAULT if name is None else name, number_of_nodes(nodes)), as_json)
        return 0
    known = [load(profile) for profile in profiles()]
    if as_json:
        output.write_json([{"name": h.name, "title": h.title, "devices": len(h.kinds)} for h in known])
        return 0
    from rich.text import Text

    listed = output.table("name", "devices", "what it is", right="1")
    for h in known:
        listed.add_row(Text(h.name), str(len(h.kinds)), Text(h.title))
    output.lay_out(listed)
    return 0


def _show(hardware: Hardware, as_json: bool) -> None:
    from distir.cost import describe

    if as_json:
        figures = [
            {"name": f.name, "value": f.value, "unit": f.unit, "source": f.source, "basis": f.basis, "note": f.note}
            for f in hardware.figures
        ]
        output.write_json(
            {
                "name": hardware.name,
                "title": hardware.title,
                "devices": hardware.devices,
                "figures": figures,
                "sources": dict(hardware.sources),
            }
        )
        return
    from rich.text import Text

    listed = output.table("figure", "value", "unit", "source", right="1")
    for row in describe(hardware):
        listed.add_row(*map(Text, row))
    parts: list[Any] = [Text(hardware.name, style="bold"), Text(hardware.title), "", listed]
    if hardware.sources:
        sources = output.table("source", "text")
        for key, text in hardware.sources.items():
            sources.add_row(Text(key), Text(text))
        parts += ["", sources]
    output.lay_out(*parts)
