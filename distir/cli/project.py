"""`distir project`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused, judged
from distir.cli.files import replace_file, shown
from distir.cli.programs import settings, sized_mesh

if TYPE_CHECKING:
    from distir.analysis.program import Program
    from distir.ir import Function, Module


def project(
    file: options.File,
    rank: Annotated[
        int | None, typer.Option(metavar="N", help="The rank, named by its device.", show_default=False)
    ] = None,
    function: options.FunctionName = None,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="OUT.dir", help="Write the program here.")
    ] = None,
    bind: options.Bindings = None,
) -> int:
    """Show the program of one rank.

    It has the statements that run on the rank's device, in program order. A communication op keeps the operands and
    results of all members of its group. Values of other ranks are {remote} parameters, which have a type but no value.
    Without --rank, lists the ranks.

    For example:

        distir project program.dir --rank 2

        distir project program.dir
    """
    program = sized_mesh(file, bind)
    entry = simulating.entry(program, function, settings(file))
    with output.progress(f"projecting {shown(file)}"), judged(program):
        ranks = _ranks(program, entry)
    if rank is None:
        _list(ranks)
        return 0
    if rank not in ranks:
        known = ", ".join(map(str, ranks))
        raise Refused(f"`@{entry.name}` has no rank {rank}", f"its ranks are {known}, named by their devices")
    text = _text(ranks[rank])
    if out is None:
        output.write(text)
    else:
        replace_file(out, text.encode())
        output.tell_terminal(f"wrote {out}")
    return 0


def _ranks(program: Program, entry: Function) -> dict[int, Module]:
    """The programs of the ranks, which are shown to agree. Raises ProgramError."""
    from distir.lower import check_order, project

    analysis = program.analysis
    ranks = project(analysis, analysis.instance(entry, [p.type for p in entry.params]))
    check_order(ranks, entry.name)
    return ranks


def _list(ranks: dict[int, Module]) -> None:
    from distir.lower import communications

    listed = output.table("rank", "statements", "functions", "communications", right="0123")
    for device, module in ranks.items():
        statements = sum(len(f.body) for f in module)
        messages = len(communications(module, list(module.functions)[-1]))
        listed.add_row(str(device), str(statements), str(len(module.functions)), str(messages))
    output.lay_out(listed)


def _text(module: Module) -> str:
    from distir.syntax import print_module

    return print_module(module)
