"""The options of `distir search` as a `Space`. Refuses all invalid options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from distir.cli.endings import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distir.search import Space, Subject

DEGREES = {"D": "dp", "T": "tp", "P": "pp"}
"""The options that say which degrees are tried."""

ALIASES = {"ulysses": "a2a", "all-gather": "allgather", "all-to-all": "a2a"}
"""Other words for kinds of context parallelism."""

ELSEWHERE = {
    "selects": "a size selects for one program alone; here `--max-memory` says it, with `--checkpoint off,products,on`",
}
"""Where to go with what steps have and a search has not."""

NUMBERS = "comma-separated numbers, such as 128,256"


class Tries(NamedTuple):
    """The values to try, by option; None if an option is not given."""

    sizes: dict[str, tuple[int, ...]]
    schedule: str | None
    sums: str
    checkpoint: str | None
    balance: str | None
    cp_kind: str | None
    sequence: bool | None
    fuse: bool | None
    overlap: bool | None
    passes: bool | None
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
        axes = self._axes()
        stated = set(axes)
        left = tuple((name, value) for name, value in space.of_the_best if name not in stated)
        made = replace(
            space, **self._counts(held, space), **axes, fixed=held, all_divisors=self.all_divisors, of_the_best=left
        )
        _check_schedules(made.schedule, self.sizes)
        return made

    def _axes(self) -> dict[str, Any]:
        """By field of a space: what is said."""
        sizes, found = self.sizes, dict[str, Any]()
        if bad := [stage for stage in sizes.get("zero", ()) if stage not in (0, 1, 2, 3)]:
            raise Refused(f"`--zero` expected stages from 0 to 3, found {bad[0]}")
        for name, flag in (
            ("ep", "ep"),
            ("cp", "cp"),
            ("virtual", "virtual"),
            ("shard", "shard"),
            ("chunks", "chunks"),
        ):
            if name in sizes and min(sizes[name]) < 1:
                raise Refused(f"`--{flag}` expected degrees from 1, found {min(sizes[name])}")
        if self.skew and self.skew < 1:
            raise Refused(f"`--skew` expected a multiple of the mean from 1, or 0, found {self.skew:g}")
        if bad := [n for n in sizes.get("etp", ()) if n < 0]:
            raise Refused(f"`--etp` expected 0 (each expert split over all shards) or a number of them, found {bad[0]}")
        fields = {"ep": "experts", "cp": "context", "etp": "etp"}
        fields |= {name: name for name in ("virtual", "shard", "zero", "chunks")}
        found |= {field: sizes[name] for name, field in fields.items() if name in sizes}
        found["sums"] = _words(self.sums, "sums")
        if self.schedule is not None:
            found["schedule"] = _words(self.schedule, "schedule")
        if self.cp_kind is not None:
            found["kind"] = _words(self.cp_kind, "cp-kind")
        if self.balance is not None:
            found["balance"] = _words(self.balance, "balance")
        if self.checkpoint is not None:
            found |= _recomputed(self.checkpoint)
        switches = {"sequence": self.sequence, "cp_experts": self.cp_experts}
        switches |= {"overlap": True if self.passes else self.overlap, "passes": self.passes}
        for name, asked in switches.items():
            if asked is not None:
                found[name] = (False, True) if asked else (False,)
        found |= {} if self.fuse is None else {"fuse": self.fuse}
        return found | ({} if self.skew is None else {"skew": self.skew})

    def _held(self, usual: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """The degrees that are restricted."""
        held = dict[str, tuple[int, ...]]()
        for text in self.fix:
            name, values = _held(text)
            if name in held:
                raise Refused(f"`--fix {name}=` is given twice", f"`--fix {name}=2,4` tries several")
            held[name] = values
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
        if "K" in held and "K" in sizes:
            raise Refused("`--microbatches` excludes `--fix K=`", "both say what is tried")
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


def _check_schedules(schedules: tuple[str, ...], sizes: Mapping[str, object]) -> None:
    """Raises Refused for an option that no schedule which is tried has."""
    from distir.transform.pipeline import SCHEDULES

    for option, what in {"chunks": "cut sequences", "virtual": "have any number of stages on a device"}.items():
        takes = [name for name, known in SCHEDULES.items() if (known.cuts if option == "chunks" else known.virtual)]
        if option in sizes and not set(takes) & set(schedules):
            hint = " or ".join(f"`--schedule {name}`" for name in takes)
            raise Refused(f"`--{option}` is for schedules that {what}", hint)


def _recomputed(text: str) -> dict[str, Any]:
    """Fields of a space for what `--checkpoint` says. Raises Refused."""
    from distir.diagnostics import suggestion
    from distir.transform.strategy import RECOMPUTED

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
            if word[:1].isdigit():
                hint = ELSEWHERE["selects"]
            raise Refused(f"`--checkpoint` expected some of {', '.join(known)}, found `{word}`", hint)
    return {"checkpoint": tuple(whether), "recompute": tuple(what) or ("",)}


def _words(text: str, option: str) -> tuple[str, ...]:
    """Comma-separated words of an option. Raises Refused for one that there is not, with the nearest."""
    from distir.diagnostics import suggestion
    from distir.ops.attention import CONTEXTS
    from distir.transform.pipeline import SCHEDULES, SUMS
    from distir.transform.strategy import BALANCES

    known = {"schedule": sorted(SCHEDULES), "sums": SUMS, "cp-kind": CONTEXTS, "balance": BALANCES}[option]
    found = tuple(dict.fromkeys(ALIASES.get(word := part.strip(), word) for part in text.split(",")))
    for word in found:
        if word not in known and option == "schedule":
            raise Refused(f"there is no schedule `{word}`", suggestion(word, known))
        if word not in known:
            some = ", ".join(known[:-1])
            hint = ELSEWHERE.get(word) or suggestion(word, known)
            raise Refused(f"`--{option}` expected {some} or {known[-1]}, found `{word}`", hint)
    return found


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
        near = min(
            (n for batch in batches for n in range(1, batch + 1) if batch % n == 0), key=lambda n: abs(n - sizes[0])
        )
        raise Refused(
            f"`--micro-batch` expected sizes that divide the batch {', '.join(map(str, batches))}, found {found}",
            f"{near} would do",
        )
    return tuple(sorted({k for total in most for k in range(1, total + 1) if total % k == 0}))


def _held(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, values = text.partition("=")
    if not equals or name not in ("D", "T", "P", "K"):
        raise Refused(f"`--fix` expected D, T, P or K with numbers, as in D=2,4, found `{text}`")
    return name, integers(values, f"fix {name}=")


def integers(text: str, name: str) -> tuple[int, ...]:
    """Comma-separated numbers, each once. `name`: what they are of, for messages. Raises Refused."""
    flag = {"K": "microbatches", "micro": "micro-batch", "batch": "batch-size", **DEGREES}.get(name, name)
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise Refused(f"`--{flag}` expected {NUMBERS}, found `{text}`") from None
