"""`distir prove`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from distir.cli import options, output, simulating
from distir.cli.endings import Refused, Wrong
from distir.cli.files import shown
from distir.cli.programs import fold_on_one_core, settings, sized_program, sound_program
from distir.cli.verifying import warn_of, with_copies
from distir.diagnostics import Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distir.config import Config
    from distir.ir import Module
    from distir.prove import Proof, Stated

MOST = 5
"""How many places that are not proved are shown."""


def prove(
    distributed: Annotated[str, typer.Argument(metavar="DISTRIBUTED", help="A .dir program.", show_default=False)],
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="SEQUENTIAL",
            help="The program on one device. [default: `sequential` in distir.toml]",
            show_default=False,
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="FILE.toml",
            help="What parameters and results are of the sequential program's, instead of `@main.scatter` and "
            "`@main.gather`.",
        ),
    ] = None,
    bind: options.Bindings = None,
) -> int:
    """Prove that a program computes what a sequential one does.

    For all values, at the programs' real sizes: nothing is run. Parameters are related by `@main.scatter`, results by
    `@main.gather`; a program without them is compared by the placements that a file states. Each value is followed
    through the program: it is all of a value of the sequential program, some rows of it, or a partial sum. All that the
    program returns must be right, on each device: copies of results, and the weights and state of the next step.

    A program on a mesh is proved by its types and its erasure. That it checks says that each device of the mesh has
    parts, copies or terms of sums of what its erasure computes; and the erasure (`distir erase`) is compared with the
    sequential program, statement by statement, wherever functions begin, for all sizes; where it differs, by what is
    known of equal terms, as above. No device is written out: it takes as long for 16,384 devices as for two.

    Exit code 1 says that it is not proved, with the first statement of which nothing is known, or something else than
    is due. Such a program may still be right: some ops have no rule. `transform --verify` runs both programs.

    For example:

        distir prove distributed.dir --against training.dir

        distir prove shards.dir --against model.dir --where placements.toml
    """
    fold_on_one_core()
    against = _sequential(settings(distributed)) if against is None else against
    placed, bind = sized_program(distributed, bind, "kept")
    programs = [placed, sound_program(against, "kept")]
    stated = None if where is None else _stated(where)
    entry = simulating.entry(programs[1], None, settings(against))
    sizes = simulating.binding(bind or (), settings(against), entry)
    with output.progress(f"proving {shown(distributed)}"):
        numbers = {n: v for n, v in sizes.items() if isinstance(v, int)}
        found = proof(programs[0].module, programs[1].module, numbers, stated)
    if found.proved:
        tell(found)
        return 0
    if found.any_size:
        output.tell(
            "statements were compared one by one; for sizes that `--bind` gives, equal terms are looked for, too"
        )
    diagnostics = found.diagnostics(programs[0].module)
    if len(diagnostics) > MOST:
        output.tell(f"the first {MOST} of {len(diagnostics)} places that are not proved:")
    raise Wrong([Report(programs[0].source, programs[0].located(diagnostics[:MOST]))])


def proof(distributed: Module, sequential: Module, sizes: Mapping[str, int], stated: Stated | None = None) -> Proof:
    """The result of a proof. Raises Refused for programs that cannot be compared, Wrong for impossible placements."""
    from distir.prove import ProveError, StatedError
    from distir.prove import prove as find

    try:
        return find(distributed, sequential, sizes, stated)
    except ProveError as error:
        raise Refused(f"cannot compare the programs: {error}") from None
    except StatedError as error:
        raise Wrong([error.report]) from None


def _sequential(config: Config) -> str:
    """The program that the settings name. Raises Refused where they name none, ConfigError where it is not there."""
    from distir.config import problem
    from distir.files.reading import advice, opened, why_not

    if config.sequential is None:
        raise Refused("expected `--against SEQUENTIAL`", 'or set `sequential = "model.dir"` in distir.toml')
    try:
        with opened(config.sequential):
            return config.sequential
    except OSError as error:
        message = f"cannot read `{shown(config.sequential)}`: {why_not(error)}"
        raise problem(config, ("sequential",), message, advice(error)) from None


def _stated(path: str) -> Stated:
    """The placements in a file. Raises Wrong; OSError is the commands'."""
    from distir.prove import StatedError, read_stated

    try:
        return read_stated(path)
    except StatedError as error:
        raise Wrong([error.report]) from None


def tell(found: Proof, behind: str = "") -> None:
    """Say that all results are proved, on which devices, and by which laws; `behind`: of what follows which step."""
    count = len(found.results)
    at = "for all values and sizes" if found.any_size else "for all values, at these sizes"
    where = f", each copy and part of them on each device of `{found.meshes}`" if found.meshes else ""
    output.tell(
        f"proved: {count} result{'s' * (count != 1)}, {at}{where}{with_copies(found.copies)}"
        + (f": what follows `{behind}`" if behind else "")
    )
    warn_of(found.unclaimed)
    if found.laws:
        output.tell("up to rounding, as these laws of real numbers were used: " + "; ".join(found.laws))
