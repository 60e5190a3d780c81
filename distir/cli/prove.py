"""`distir prove`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused, Wrong
from distir.cli.files import shown
from distir.cli.programs import fold_on_one_core, settings, sound_program
from distir.diagnostics import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distir.ir import Module
    from distir.prove import Proof

MOST = 5
"""How many places that are not proved are shown."""


def prove(
    distributed: Annotated[str, typer.Argument(metavar="DISTRIBUTED", help="A .dir program.", show_default=False)],
    against: Annotated[
        str, typer.Option("--against", metavar="SEQUENTIAL", help="The program on one device.", show_default=False)
    ],
    bind: options.Bindings = None,
) -> int:
    """Prove that a program computes what a sequential one does.

    For all values, at the programs' real sizes: nothing is run. Parameters are related by `@main.scatter`, results by
    `@main.gather`. Each value is followed through the program: it is all of a value of the sequential program, some
    rows of it, or a partial sum.

    Exit code 1 says that it is not proved, with the first statement of which nothing is known, or something else than
    is due. Such a program may still be right: some ops have no rule. `transform --verify` runs both programs.

    For example:

        distir prove distributed.dir --against training.dir
    """
    fold_on_one_core()
    programs = [sound_program(file) for file in (distributed, against)]
    entry = simulating.entry(programs[1], None, settings(against))
    sizes = simulating.binding(bind or (), settings(against), entry)
    with output.progress(f"proving {shown(distributed)}"):
        found = proof(programs[0].module, programs[1].module, {n: v for n, v in sizes.items() if isinstance(v, int)})
    if found.proved:
        tell(found)
        return 0
    diagnostics = found.diagnostics(programs[0].module)
    if len(diagnostics) > MOST:
        output.tell(f"the first {MOST} of {len(diagnostics)} places that are not proved:")
    raise Wrong([Report(programs[0].source, programs[0].located(diagnostics[:MOST]))])


def proof(distributed: Module, sequential: Module, sizes: Mapping[str, int]) -> Proof:
    """What proving finds. Raises Refused for programs that cannot be compared."""
    from distir.prove import ProveError
    from distir.prove import prove as find

    try:
        return find(distributed, sequential, sizes)
    except ProveError as error:
        raise Refused(f"cannot compare the programs: {error}") from None


def tell(found: Proof) -> None:
    """Say that all results are proved, and by which laws."""
    count = len(found.results)
    output.tell(f"proved: {count} result{'s' * (count != 1)}, for all values, at these sizes")
    if found.laws:
        output.tell("up to rounding, as these laws of real numbers were used: " + "; ".join(found.laws))
