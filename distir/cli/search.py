"""`distir search`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from distir.cli import named, options, output, searching, simulating
from distir.cli.endings import REFUSED, Refused
from distir.cli.forms import Label
from distir.files.reading import why_not

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distir.config import Config
    from distir.cost.price import Price
    from distir.ir import Constant, Module
    from distir.search import Log, Row, Search, Space, Subject, Table
    from distir.search.proving import ProofOfRow

METHODS = ("grid", "bounded", "anneal")
DEGREES = {"D": "dp", "T": "tp", "P": "pp"}
"""The options that say which degrees are tried."""

TRAINING = "grad optimizer=adamw precision=mixed"
"""The steps that make a forward pass the training step that `--global-batch` means."""

BUDGET = 64
"""How many configurations of a training step are simulated, unless an option says."""

STEPS, FEW_STEPS = 200, 8
"""How many steps annealing takes, and behind a best-first search that no option asks for."""

PER_DEVICE = 16
"""Sequences of a step for each device, where no option says how many."""

ALIASES = {"ulysses": "a2a", "all-gather": "allgather", "all-to-all": "a2a"}
"""Other words for kinds of context parallelism."""

NUMBERS = "comma-separated numbers, such as 128,256"


@named.takes_model_options
def search(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A sequential .dir program, or a model name, such as llama3-8b.")
    ],
    devices: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="The number of devices, D·T·P. [default: all of the hardware]"),
        Label("Devices"),
    ] = None,
    hardware: options.HardwareName = None,
    nodes: options.Nodes = None,
    batch_size: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Batch sizes to try, for the program's batch dimension."),
        Label("Batch sizes"),
    ] = None,
    global_batch: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="The same of training: a model by its name becomes a training step, and all that it and the hardware "
            "admit is tried, but for what other options say.",
        ),
        Label("Batch sizes of training"),
    ] = None,
    dp: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="D to try. [default: all that there are]"),
        Label("Degrees of data parallelism"),
    ] = None,
    tp: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="T to try. [default: all that there are]"),
        Label("Degrees of tensor parallelism"),
    ] = None,
    pp: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="P to try. [default: all that there are]"),
        Label("Degrees of pipeline parallelism"),
    ] = None,
    cp: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="How many devices share a sequence. [default: 1; of training all]"),
        Label("Degrees of context parallelism"),
    ] = None,
    cp_kind: Annotated[
        str | None,
        typer.Option(
            metavar="S,S,…", help="Of these: allgather, a2a (Ulysses), ring. [default: allgather; of training all]"
        ),
        Label("Kinds of context parallelism"),
    ] = None,
    ep: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Over how many of D experts are split. [default: all that divide them]"),
        Label("Degrees of expert parallelism"),
    ] = None,
    skew: Annotated[
        float | None,
        typer.Option(metavar="X", help="Tokens of the busiest device, to the mean; 0: room for all. [default: 1]"),
        Label("Skew of experts"),
    ] = None,
    microbatches: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="K to try. [default: 2,4,…,128]"), Label("Microbatches")
    ] = None,
    accumulate: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="K to try where P is 1: gradients of K microbatches. [default: 1]"),
        Label("Microbatches without a pipeline"),
    ] = None,
    micro_batch: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Instead of K, for any P: examples in a replica's microbatch."),
        Label("Microbatch sizes"),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="S,S,…", help="Pipeline schedules to try, such as 1f1b,zb-h1. [default: 1f1b]"),
        Label("Schedules"),
    ] = None,
    virtual: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Stages of a device to try, for interleaved. [default: 2]"),
        Label("Virtual stages"),
    ] = None,
    sums: Annotated[
        str,
        typer.Option(metavar="layer,stage", help="Gradients of microbatches: added by layer, or by stage."),
        Label("Sums of gradients"),
    ] = "layer",
    zero: Annotated[
        str | None, typer.Option(metavar="N,N,…", help="ZeRO stages to try, 0 to 3. [default: 0]"), Label("ZeRO stages")
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Replicas that partition state by ZeRO, beside all: HSDP."),
        Label("Groups that partition state"),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="S,S,…",
            help="What to recompute: off, on (full), selective, products; of so many layers, as full:16; both: off,on. "
            "[default: off]",
        ),
        Label("Checkpointing"),
    ] = None,
    balance: Annotated[
        str | None,
        typer.Option(
            metavar="uniform,cost", help="Layers of stages: equally many, or for equal times. [default: uniform]"
        ),
        Label("Layers of stages"),
    ] = None,
    etp: Annotated[
        str | None,
        typer.Option(metavar="0,1", help="Experts of T shards: split (0), or whole in each (1). [default: 0]"),
        Label("Experts of shards"),
    ] = None,
    cp_experts: Annotated[
        bool | None,
        typer.Option("--cp-experts/--no-cp-experts", help="Also divide experts among devices that share sequences."),
        Label("Experts over sequence groups"),
    ] = None,
    fp8: Annotated[
        str | None,
        typer.Option(metavar="tensor|block|delayed", help="Products in 8-bit floats, where the hardware has them."),
        Label("8-bit products"),
    ] = None,
    sequence_parallel: Annotated[
        bool | None,
        typer.Option("--sequence-parallel/--no-sequence-parallel", help="Also split what T leaves whole."),
        Label("Sequence parallelism"),
    ] = None,
    fuse: Annotated[
        bool | None, typer.Option("--fuse/--no-fuse", help="Fuse each program's ops into kernels."), Label("Fusion")
    ] = None,
    overlap: Annotated[
        bool | None,
        typer.Option("--overlap/--no-overlap", help="Try each plan with communication beside computation, too."),
        Label("Overlap"),
    ] = None,
    fix: Annotated[
        list[str] | None,
        typer.Option(metavar="D=2", help="Fix a degree to one or more values."),
        Label("Fixed degrees"),
    ] = None,
    sustained: Annotated[
        bool | None,
        typer.Option(
            "--sustained/--no-sustained",
            help="Devices as after minutes of work, at the limit of their power. [default: of training]",
        ),
        Label("Sustained work"),
    ] = None,
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="How much of a device's memory to use at most, such as 70GB."),
        Label("Memory to use"),
    ] = None,
    all_divisors: Annotated[
        bool,
        typer.Option("--all-divisors", help="Try all divisors as degrees, not only powers of two."),
        Label("All divisors"),
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(metavar="|".join(METHODS), help="The search method. [default: grid; of training anneal]"),
        Label("Method"),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Simulate the N best by estimate at most. [default: all; of training 64]"
        ),
        Label("Configurations"),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="anneal: the number of steps. [default: 200; behind best-first 8]"),
        Label("Steps of anneal"),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="anneal: the random seed."), Label("Seed of anneal")] = 0,
    bind: Annotated[options.Bindings, Label("Sizes of dimensions")] = None,
    jobs: Annotated[
        int, typer.Option(metavar="N", min=0, help="The number of processes; 0: one per core."), Label("Processes")
    ] = 0,
    backend: Annotated[
        str, typer.Option(metavar="B", help="processes, dask://HOST:PORT or ray://HOST:PORT."), Label("Where it runs")
    ] = "processes",
    csv: Annotated[
        str | None, typer.Option(metavar="OUT.csv", help="Write each row here as soon as it is found.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the rows in the CSV file.")] = False,
    plot: Annotated[
        list[str] | None, typer.Option(metavar="OUT", help="Plot throughput over memory: .png, .svg, .pdf or .html.")
    ] = None,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="How many rows to list.")] = 10,
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="List the Pareto front of two of time, memory, throughput, cost, devices and batch."
        ),
    ] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="N", help="Say how many days training on so many takes, such as 15T.")
    ] = None,
    price: Annotated[
        str | None, typer.Option(metavar="P", help="Of a device, such as 2.5USD/h. [default: the hardware's]")
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(metavar="WATT", min=0, help="Of a device, with its share of the node: says kWh."),
    ] = None,
    explain: Annotated[
        bool | None,
        typer.Option("--explain/--no-explain", help="Say what binds each row and what would change the best."),
    ] = None,
    measure: Annotated[
        int, typer.Option(metavar="N", min=0, help="Run the best N here, one process per device, and measure them.")
    ] = 0,
    measure_backend: Annotated[str, typer.Option(metavar="gloo|nccl", help="--measure: CPUs or GPUs.")] = "gloo",
    measure_timeout: Annotated[str, typer.Option(metavar="TIME", help="--measure: how long each may take.")] = "10min",
    prove: Annotated[
        bool, typer.Option("--prove", help="Prove of the rows that are listed that they compute what the model does.")
    ] = False,
    prove_timeout: Annotated[
        str, typer.Option(metavar="TIME", help="--prove: how long the proof of a row may take.")
    ] = "10min",
    export: Annotated[
        str | None,
        typer.Option(metavar="megatron|deepspeed|torchtitan", help="Write a row as options for another framework."),
    ] = None,
    row: Annotated[int, typer.Option(metavar="N", min=1, help="--export: which of the listed rows.")] = 1,
    apply: Annotated[
        str | None,
        typer.Option(metavar="STEPS", help="Steps to apply first, such as 'grad optimizer=adamw precision=mixed'."),
        Label("Steps to apply first"),
    ] = None,
    *,
    of: named.ModelOptions,
    as_json: options.AsJson = False,
    progress: Annotated[
        str, typer.Option(metavar="text|json", help="json: one line per configuration on standard error.")
    ] = "text",
) -> int:
    """Search for the best strategy to distribute a program.

    Tries data (D), tensor (T) and pipeline (P) parallelism, experts over devices (EP, a part of D, for models that have
    experts), microbatches (K) and batch sizes. Configurations that do not fit into the devices' memory are recorded but
    not ranked; infeasible ones are rows with a reason. `bounded`
    skips configurations that lower bounds exclude and finds the grid's best; `anneal` starts from it and tries stages
    of unequal size. With --csv, --resume continues an interrupted search.

    `distir model --list` has the names of models, whose sizes can be overridden. They are forward passes, but for the
    paper's MLPs: --apply 'grad optimizer=adamw precision=mixed' makes one a training step first.

    For example:

        distir search mlp-1b --batch-size 8192 --hardware dgx2-v100

        distir search llama3-8b --seq 4096 --batch-size 64 --hardware dgx-h100 --apply 'grad precision=mixed'

        distir search mixtral-8x7b --hardware dgx-h100 --nodes 2 --global-batch 256 --ep 1,4,8 --tp 1,2

        distir search model.dir --devices 8 --batch-size 128,256 --csv rows.csv --plot rows.png

        distir search mlp-17b --batch-size 65536 --method bounded --export megatron
    """
    from dataclasses import replace

    from distir.search import SpaceError, Table
    from distir.search.export import ExportError
    from distir.search.log import LogError
    from distir.search.plot import PlotError, check_suffix

    asked = {"K": microbatches, "accumulate": accumulate, "micro": micro_batch, "batch": batch_size, "zero": zero}
    asked |= {"D": dp, "T": tp, "P": pp, "ep": ep, "cp": cp, "virtual": virtual, "shard": shard, "etp": etp}
    trained = global_batch is not None or (batch_size is None and apply is None and _is_forward(model))
    if trained:
        if batch_size is not None:
            raise Refused("`--global-batch` excludes `--batch-size`", "both are the batch of a step")
        asked["batch"] = global_batch
        apply = TRAINING if apply is None and _is_forward(model) else apply
    apply = apply if fp8 is None else f"{_in_fp8(fp8, _On(hardware, nodes, None, False))} {apply or ''}".strip()
    chosen_model = _Model(model, of, apply)
    try:
        for path in plot or ():
            check_suffix(path)
        if export is not None:
            _check_export(export)
        wanted = searching.Wanted(top, _front(pareto), _tokens(tokens), _price(price), power)
        if progress not in searching.PROGRESS:
            raise Refused(f"`--progress` expected {' or '.join(searching.PROGRESS)}, found `{progress}`")
        sizes = {name: _integers(text, name) for name, text in asked.items() if text is not None}
        hot = trained if sustained is None else sustained
        subject = _subject_on(
            chosen_model, _On(hardware, nodes, max_memory, hot), bind or (), "batch" in sizes or trained
        )
        count = subject.hardware.devices if devices is None else devices
        if trained and "batch" not in sizes:
            sizes["batch"] = (_usual_batch(count),)
            said = f"the batch of a step is not stated: {sizes['batch'][0]}, {PER_DEVICE} for each device"
            output.tell(f"{said}; `--global-batch N` says another")
        how = (schedule, sums, checkpoint, balance, cp_kind, sequence_parallel, fuse, overlap, cp_experts, skew)
        space = _Tries(sizes, *how, fix or (), all_divisors).space(subject, count, trained)
        few = BUDGET if budget is None and trained and method in (None, "anneal") else budget
        long = steps or (STEPS if few is None or method == "anneal" else FEW_STEPS)
        chosen = _search(subject, space, method or ("anneal" if trained else "grid"), jobs, backend, long, seed)
        chosen = replace(chosen, budget=few)
        with _log(csv, resume) as log:
            there = log.rows(chosen.digest) if log is not None else []
            _tell_lacking(chosen)
            known = chosen.asked_for(there)
            table = Table((*known, *_found(chosen, known, log, progress)))
            if measure:
                table = _measured(table, chosen, model, measure, measure_backend, measure_timeout)
                if csv is not None:
                    _rewritten(csv, [*(row for row in there if row not in known), *table])
        _pictures(table, chosen, plot or ())
        if export is not None:
            return _exported(table, export, row)
    except (SpaceError, LogError, PlotError, ExportError) as error:
        message, _, hint = str(error).partition("; ")
        raise Refused(message, hint or None) from None
    wanted = wanted._replace(explain=trained if explain is None else explain, training=trained)
    if prove:
        wanted = wanted._replace(proofs=_proofs(wanted.rows(table)[:top], chosen, prove_timeout))
    if as_json:
        output.write_json(searching.document(table, chosen, wanted))
    else:
        searching.show(table, chosen, wanted)
    return 0 if len(table.failed) < len(table) else REFUSED


def _front(text: str | None) -> tuple[str, str] | None:
    """Two measures of rows. Raises Refused."""
    from distir.diagnostics import suggestion
    from distir.search.rows import MEASURES

    if text is None:
        return None
    first, comma, second = (part.strip() for part in text.partition(","))
    for name in (first, second):
        if name not in MEASURES or not comma:
            known = f"two of {', '.join(MEASURES)}, such as time,memory"
            raise Refused(f"`--pareto` expected {known}, found `{text}`", suggestion(name, MEASURES))
    return first, second


def _tokens(text: str | None) -> float | None:
    """A number such as 15T or 300B. Raises Refused."""
    if text is None:
        return None
    factors = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
    number, factor = (text[:-1], factors[text[-1].upper()]) if text[-1:].upper() in factors else (text, 1.0)
    try:
        found = float(number) * factor
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise Refused(f"`--tokens` expected a number of tokens, such as 15T or 300B, found `{text}`")
    return found


def _price(text: str | None) -> Price | None:
    from distir.cost.units import UnitError, parse_price

    try:
        return None if text is None else parse_price(text)
    except UnitError as error:
        raise Refused(f"`--price`: {error}", "such as 2.5USD/h") from None


class _Tries(NamedTuple):
    """What the options say is tried; None where one says nothing."""

    sizes: dict[str, tuple[int, ...]]
    schedule: str | None
    sums: str
    checkpoint: str | None
    balance: str | None
    cp_kind: str | None
    sequence: bool | None
    fuse: bool | None
    overlap: bool | None
    cp_experts: bool | None
    skew: float | None
    fix: Any
    all_divisors: bool

    def space(self, subject: Subject, devices: int, trained: bool) -> Space:
        """The space: all that a training step admits, or the paper's, but for what is said. Raises Refused."""
        from dataclasses import replace

        from distir.search import Space
        from distir.search.whole import whole

        batches = self.sizes.get("batch", ())
        if trained and all(size > 0 for size in batches):
            space = whole(subject, devices, batches)
        else:
            space = Space(devices, batches)
        held = self._held({} if self.all_divisors else space.fixed)
        return replace(space, **self._counts(held, space), **self._axes(), fixed=held, all_divisors=self.all_divisors)

    def _axes(self) -> dict[str, Any]:
        """By field of a space: what is said."""
        sizes, found = self.sizes, dict[str, Any]()
        if bad := [stage for stage in sizes.get("zero", ()) if stage not in (0, 1, 2, 3)]:
            raise Refused(f"`--zero` expected stages from 0 to 3, found {bad[0]}")
        for name, flag in (("ep", "ep"), ("cp", "cp"), ("virtual", "virtual"), ("shard", "shard")):
            if name in sizes and min(sizes[name]) < 1:
                raise Refused(f"`--{flag}` expected degrees from 1, found {min(sizes[name])}")
        if self.skew and self.skew < 1:
            raise Refused(f"`--skew` expected a multiple of the mean from 1, or 0, found {self.skew:g}")
        if bad := [n for n in sizes.get("etp", ()) if n not in (0, 1)]:
            raise Refused(f"`--etp` expected 0 (experts split over shards) or 1 (whole in each), found {bad[0]}")
        fields = {"ep": "experts", "cp": "context", "etp": "etp"}
        fields |= {name: name for name in ("virtual", "shard", "zero")}
        found |= {field: sizes[name] for name, field in fields.items() if name in sizes}
        found["sums"] = _words(self.sums, "sums")
        if self.schedule is not None:
            found["schedules"] = _words(self.schedule, "schedule")
        if self.cp_kind is not None:
            found["kinds"] = _words(self.cp_kind, "cp-kind")
        if self.balance is not None:
            found["balance"] = _words(self.balance, "balance")
        if self.checkpoint is not None:
            found |= _recomputed(self.checkpoint)
        switches = {"sequence": self.sequence, "overlap": self.overlap, "cp_experts": self.cp_experts}
        for name, asked in switches.items():
            if asked is not None:
                found[name] = (False, True) if asked else (False,)
        found |= {} if self.fuse is None else {"fuse": self.fuse}
        return found | ({} if self.skew is None else {"skew": self.skew})

    def _held(self, usual: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The degrees that are restricted."""
        held = dict(_held(text) for text in self.fix)
        for axis, flag in DEGREES.items():
            if axis in self.sizes:
                if axis in held:
                    raise Refused(f"`--{flag}` excludes `--fix {axis}=`", "both say what is tried")
                if min(self.sizes[axis]) < 1:
                    raise Refused(f"`--{flag}` expected degrees from 1, found {min(self.sizes[axis])}")
                held[axis] = self.sizes[axis]
        return {**usual, **held}

    def _counts(self, held: dict[str, tuple[int, ...]], space: Space) -> dict[str, Any]:
        """How many microbatches are tried, or of which sizes; takes K out of what is held."""
        sizes = self.sizes
        stated = "K" in held or sizes.keys() & {"K", "accumulate"}
        counts = held.pop("K", sizes.get("K", space.microbatches))
        accumulate = sizes.get("accumulate", (1,) if stated else space.accumulate)
        if of_each := sizes.get("micro", ()):
            counts = accumulate = _counts(sizes.get("batch", ()), of_each, bool(stated))
        if min(counts) < 1:
            raise Refused(f"`--microbatches` expected 1 or more, found {min(counts)}")
        if min(accumulate) < 1:
            raise Refused(f"`--accumulate` expected 1 or more, found {min(accumulate)}")
        own = of_each or (() if stated else space.micro_batches)
        return {"microbatches": counts, "accumulate": accumulate, "micro_batches": own}


def _recomputed(text: str) -> dict[str, Any]:
    """Fields of a space for what `--checkpoint` says. Raises Refused."""
    from distir.diagnostics import suggestion
    from distir.search.plan import RECOMPUTED

    whether, what = dict[bool, None](), dict[str, None]()
    for part in text.replace("both", "off,on").split(","):
        word = part.strip()
        name, colon, layers = word.partition(":")
        if word in ("off", "on"):
            whether[word == "on"] = None
            what |= {"": None} if word == "on" else {}
        elif name in RECOMPUTED and (not colon or (layers.isdigit() and int(layers))):
            whether[True] = None
            what["" if word == "full" else word] = None
        else:
            known = ("off", "on", "both", *RECOMPUTED)
            hint = "of so many layers: as in full:16" if name in known else suggestion(name, known)
            raise Refused(f"`--checkpoint` expected some of {', '.join(known)}, found `{word}`", hint)
    return {"checkpoint": tuple(whether), "recompute": tuple(what) or ("",)}


def _words(text: str, option: str) -> tuple[str, ...]:
    """Comma-separated words of an option. Raises Refused for one that there is not, with the nearest."""
    from distir.diagnostics import suggestion
    from distir.ops.attention import CONTEXTS
    from distir.search.plan import BALANCES
    from distir.transform.pipeline import SCHEDULES, SUMS

    known = {"schedule": sorted(SCHEDULES), "sums": SUMS, "cp-kind": CONTEXTS, "balance": BALANCES}[option]
    found = tuple(dict.fromkeys(ALIASES.get(word := part.strip(), word) for part in text.split(",")))
    for word in found:
        if word not in known and option == "schedule":
            raise Refused(f"there is no schedule `{word}`", suggestion(word, known))
        if word not in known:
            some = ", ".join(known[:-1])
            raise Refused(f"`--{option}` expected {some} or {known[-1]}, found `{word}`", suggestion(word, known))
    return found


def _usual_batch(devices: int) -> int:
    """The batch of a training step where none is stated."""
    return PER_DEVICE * devices


def _is_forward(model: str) -> bool:
    """Whether a model is one that DistIR has by name, as a forward pass."""
    return not model.endswith(".dir") and model != "-" and not model.startswith("mlp")


def _counts(batches: tuple[int, ...], sizes: tuple[int, ...], counted: bool) -> tuple[int, ...]:
    """The numbers of microbatches that microbatches of these sizes may have, over any number of replicas."""
    if counted:
        raise Refused("`--micro-batch` excludes `--microbatches` and `--accumulate`", "K is batch / (D * micro-batch)")
    if not batches:
        raise Refused("`--micro-batch` needs `--batch-size`", "K is batch / (D * micro-batch)")
    if min(sizes) < 1:
        raise Refused(f"`--micro-batch` expected 1 or more, found {min(sizes)}")
    most = {batch // size for batch in batches for size in sizes if batch > 0 and batch % size == 0}
    if not most:
        found = ", ".join(map(str, sizes))
        raise Refused(
            f"`--micro-batch` expected sizes that divide the batch {', '.join(map(str, batches))}, found {found}"
        )
    return tuple(sorted({k for total in most for k in range(1, total + 1) if total % k == 0}))


def _held(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, values = text.partition("=")
    if not equals or name not in ("D", "T", "P", "K"):
        raise Refused(f"`--fix` expected D, T, P or K with numbers, as in D=2,4, found `{text}`")
    return name, _integers(values, f"fix {name}=")


def _integers(text: str, name: str) -> tuple[int, ...]:
    flag = {"K": "microbatches", "micro": "micro-batch", "batch": "batch-size", **DEGREES}.get(name, name)
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise Refused(f"`--{flag}` expected {NUMBERS}, found `{text}`") from None


class _Model(NamedTuple):
    """What is searched for: a program or a model, with its options, and steps that come first."""

    name: str
    options: named.ModelOptions
    steps: str | None

    @property
    def title(self) -> str:
        """The name of the subject."""
        of = self.options.given
        given = [f"{name}={value}" for name, value in of.items() if name != "dtype"]
        given += [self.options.dtype] if self.options.dtype else []
        said = f"{self.name} ({', '.join(given)})" if given else self.name
        return " ".join([*said.split(), *((self.steps or "").split())])


def _search(subject: Subject, space: Space, method: str, jobs: int, backend: str, steps: int, seed: int) -> Search:
    from distir.search import Annealing, Search, Workers

    if method not in METHODS:
        raise Refused(f"`--method` expected one of {', '.join(METHODS)}, found `{method}`")
    return Search(subject, space, method, Workers(jobs, backend), Annealing(steps, seed))  # type: ignore[arg-type]


def _in_fp8(scaling: str, on: _On) -> str:
    """The step that has products in 8-bit floats. Raises Refused where the hardware has none."""
    from pathlib import Path

    from distir.config import find
    from distir.ir import DTYPES
    from distir.transform.float8 import SCALINGS

    if scaling not in SCALINGS:
        raise Refused(f"`--fp8` expected {' or '.join(SCALINGS)}, found `{scaling}`")
    machine = simulating.machine(on.hardware, find(Path()), on.nodes).hardware
    if any(kind.rates[DTYPES["Float8E4M3FN"]].instead for kind in machine.kinds.distinct):
        raise Refused(f"`--fp8`: `{machine.name}` has no arithmetic of 8-bit floats", "`dgx-h100` has, and later ones")
    return f"fp8={scaling}"


class _On(NamedTuple):
    """On what it runs: hardware, its number of nodes, the most memory to use, and whether it is busy for minutes."""

    hardware: str | None
    nodes: str | None
    max_memory: str | None
    sustained: bool


def _subject_on(model: _Model, on: _On, bind: Any, batch_given: bool) -> Subject:
    """The program on the machine."""
    from distir.search import Subject

    module, config, bound = _subject(model, bind, batch_given)
    machine = simulating.machine(on.hardware, config, on.nodes).hardware
    if on.sustained:
        machine = machine.sustained()
    if on.max_memory is not None:
        machine = machine.with_memory(_bytes(on.max_memory))
    return Subject(model.title, module, machine, tuple(sorted(bound.items())))


def _bytes(text: str) -> int:
    from distir.cost.units import UnitError, parse_bytes

    try:
        return parse_bytes(text)
    except UnitError as error:
        raise Refused(f"`--max-memory`: {error}", "such as 70GB") from None


def _subject(model: _Model, bind: Any, batch_given: bool) -> tuple[Module, Config, dict[str, Constant]]:
    """The program, its settings, and the sizes of all its dimensions but the batch."""
    from distir.cli.programs import settings, sound_program
    from distir.config import find

    if not model.name.endswith(".dir") and model.name != "-":
        from pathlib import Path

        module = named.made(model.name, model.options, None)
        return _applied(module, model.steps), find(Path()), {}
    given = model.options.given
    if given:
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise Refused(f"`{option}` is for a model by its name, and `{model.name}` is a program", "write it into it")
    program, config = sound_program(model.name), settings(model.name)
    entry = simulating.entry(program, None, config)
    bound = simulating.binding(bind, config, entry)
    module = program.module
    if batch_given:
        from distir.search.subject import batch_dimension

        bound.pop(batch_dimension(entry) or "", None)
    if module.entry() is not entry:
        raise Refused(
            f"`@{entry.name}` is neither the last function nor `@main`", "name the function to search `@main`"
        )
    return _applied(module, model.steps), config, bound


def _applied(module: Module, steps: str | None) -> Module:
    """The program after the steps that come before the search. Raises Refused."""
    if steps is None:
        return module
    from distir.diagnostics import ProgramError
    from distir.transform import StepError, transform

    words = steps.split()
    if stated := next((word for word in words if word.partition("=")[0] == "accumulate"), None):
        # The search would not know how large the microbatches are.
        raise Refused(f"`--apply`: `{stated}` is what a search tries itself", "give it `--accumulate N,N`")
    try:
        return transform(module, *words)
    except StepError as error:
        raise Refused(f"`--apply`: {error}", "`distir transform --list` names the steps") from None
    except ProgramError as error:
        first = error.diagnostics[0]
        raise Refused(f"`--apply`: {first.message} ({first.code.number})", first.help) from None


def _check_export(name: str) -> None:
    from distir.search.export import EXPORTERS, export
    from distir.search.rows import Row

    if name not in EXPORTERS:
        export(Row("", None, 1, 1, 1, 1, None, None, None, fits=False), name)


@contextmanager
def _log(csv: str | None, resume: bool) -> Generator[Log | None]:
    """The CSV file, locked during the search. Raises Refused."""
    from distir.files.locking import InUseError
    from distir.search import Log

    if csv is None:
        if resume:
            raise Refused("`--resume` needs `--csv`, the file with the earlier rows")
        yield None
        return
    try:
        log = Log(csv, resume=resume)
    except InUseError as error:
        by = f" (process {error.process})" if error.process is not None else ""
        raise Refused(f"another search{by} writes `{csv}`", "wait until it ends, or choose another file") from None
    except OSError as error:
        raise Refused(f"cannot write `{csv}`: {why_not(error)}") from None
    with log:
        yield log


def _tell_lacking(chosen: Search) -> None:
    """Warn of element types that the machine lacks."""
    from distir.diagnostics import ProgramError
    from distir.diagnostics.codes.simulation import LACKING_PRECISION
    from distir.search.subject import batch_dimension
    from distir.simulate import BindError, simulate

    subject, sizes = chosen.subject, chosen.space.batch_sizes
    batch = batch_dimension(subject.entry)
    bind = dict(subject.bind) | ({batch: sizes[0]} if batch and sizes else {})
    try:
        notices = simulate(subject.module, subject.hardware, subject.entry.name, bind).lacking()
    except (ProgramError, BindError):
        return  # which the search says of its rows
    for notice in notices:
        output.complain("warning", f"{notice.message} ({LACKING_PRECISION.number})")


def _found(chosen: Search, known: list[Row], log: Log | None, progress: str) -> list[Row]:
    """The rows that are not known yet, written to the CSV file as they come."""
    from contextlib import closing
    from dataclasses import replace

    search = replace(chosen, known=tuple(known))
    csv = None if log is None else log.path
    total = search.configurations if search.budget is None else min(search.budget, search.configurations)
    total += search.annealing.steps if search.budget is not None and search.method == "anneal" else 0
    found: list[Row] = []
    try:
        with (
            searching.PROGRESS[progress](chosen.subject.model, total, known) as tick,
            closing(search.rows()) as rows,
        ):
            for row in rows:
                if log is not None:
                    log.add(row)
                found.append(row)
                tick(row)
    except KeyboardInterrupt:
        output.tell(searching.interrupted([*known, *found], total, csv))
        raise
    except OSError as error:
        if csv is None or error.filename != csv:
            raise
        kept = f"its {len(known) + len(found)} rows are saved; free some space and continue with --resume"
        raise Refused(f"cannot write `{csv}`: {why_not(error)}", kept if found else None) from None
    return found


def _measured(table: Table, chosen: Search, model: str, count: int, backend: str, timeout: str) -> Table:
    """The table with the times of its best rows as they ran here."""
    from importlib.util import find_spec

    from distir.cli import memory
    from distir.cli.launch import seconds_of
    from distir.cli.programs import folder_of
    from distir.cli.tensors import loader
    from distir.cost import show_bytes, show_seconds
    from distir.search import Table
    from distir.search.measuring import Measuring, measured

    if backend not in ("gloo", "nccl"):
        raise Refused(f"`--measure-backend` expected gloo or nccl, found `{backend}`")
    if find_spec("torch") is None:
        raise Refused("`--measure` needs torch, which is not installed", "install `distir[torch]`")
    limit = seconds_of(timeout, "--measure-timeout")
    most = memory.available_bytes() if backend == "gloo" else None  # all ranks share the memory of this machine
    how = Measuring(backend, timeout_s=limit, load=loader(folder_of(model)), most_bytes=most)
    found: dict[Any, Row] = {}
    for row in measured(chosen.subject, table.ranked[:count], how):
        found[row.key] = row
        latency, nbytes = row.measured_latency_s or 0.0, row.measured_memory_bytes or 0
        shown = row.reason or f"{show_seconds(latency)} and {show_bytes(nbytes)} measured"
        output.tell(f"{row.plan}: {shown}")
    return Table(tuple(found.get(row.key, row) for row in table))


def _proofs(rows: Sequence[Row], chosen: Search, timeout: str) -> tuple[ProofOfRow, ...]:
    """Whether the programs of rows compute what the model does."""
    from distir.cli.launch import seconds_of
    from distir.search.proving import proofs

    limit = seconds_of(timeout, "--prove-timeout")
    with output.progress("proving the best"):
        return tuple(proofs(chosen.subject, rows, limit))


def _rewritten(csv: str, rows: list[Row]) -> None:
    """Put rows in the place of what the CSV file has, at once or not at all."""
    from distir.cli.files import write_with
    from distir.search import write_rows

    def write(path: str) -> None:
        with open(path, "w", newline="", encoding="utf-8") as file:
            write_rows(file, rows)

    write_with(csv, write)


def _exported(table: Table, framework: str, row: int) -> int:
    from distir.search.export import export

    ranked = table.ranked
    if len(ranked) < row:
        raise Refused(f"there is no row {row}: {len(ranked)} configurations fit in memory")
    output.write(export(ranked[row - 1], framework))
    return 0


def _pictures(table: Table, chosen: Search, paths: Any) -> None:
    import os

    from distir.cli.files import write_with
    from distir.search.plot import plot

    machine = chosen.subject.hardware
    title = f"{chosen.subject.model} on {machine.name}, {chosen.space.devices} devices"
    for path in paths:
        suffix = os.path.splitext(path)[1]
        write_with(path, lambda name, suffix=suffix: plot(table, name, title, machine.capacity(0), suffix))
        output.tell_terminal(f"wrote {path}")
