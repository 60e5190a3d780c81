"""The options of `distir search` that say what is tried, and the `Space` of what they say. Refuses all invalid ones.

Those of the fields of a strategy are made of what these declare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from distir.cli.arguments import taking
from distir.cli.endings import Refused
from distir.cli.forms import Label
from distir.transform.strategy import AXES, DEGREES, FIELDS, RECOMPUTED, Question, Requirement, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from distir.search import Space, Subject
    from distir.search.plans import Plans

REPLICATED: Final = DEGREES[:3]
"""The fields of D, T and P, to which `--fix` restricts a space, too."""

ELSEWHERE = "a size selects for one program alone; here `--max-memory` says it, with `--checkpoint off,products,on`"
"""Where to go with what the step `checkpoint` has and a search has not."""

NUMBERS = "comma-separated numbers, such as 128,256"


def _asked(question: Question) -> Any:
    """The option of a command for a field of a strategy."""
    label, meaning = Label(question.label), question.help
    if question.kind == "switch":
        return Annotated[bool | None, typer.Option(f"--{question.flag}/--no-{question.flag}", help=meaning), label]
    if question.kind == "factor":
        return Annotated[float | None, typer.Option(metavar=question.shape, help=meaning), label]
    return Annotated[str | None, typer.Option(metavar=question.shape, help=meaning), label]


def _numbers(help: str, label: str) -> Any:
    return Annotated[str | None, typer.Option(metavar="N,N,…", help=help), Label(label)]


QUESTIONS: Final = {
    field.asked.name: (field.name, field.asked)
    for field in (*(FIELDS[name] for name in REPLICATED), *AXES)
    if field.asked is not None
}
"""By option: the field of a strategy that it asks for, and how."""

OPTIONS: Final = {
    **{name: _asked(question) for name, (_, question) in QUESTIONS.items()},
    "accumulate": _numbers(
        "K to try where P is 1: gradients of K microbatches. [default: 1]", "Microbatches without a pipeline"
    ),
    "micro_batch": _numbers("Instead of K, for any P: examples in a replica's microbatch.", "Microbatch sizes"),
    "fix": Annotated[
        list[str] | None,
        typer.Option(metavar="D=2", help="Fix a degree to one or more values."),
        Label("Fixed degrees"),
    ],
    "all_divisors": Annotated[
        bool,
        typer.Option("--all-divisors", help="Try all divisors as degrees, not only powers of two."),
        Label("All divisors"),
    ],
}
"""The options of `distir search` that say what is tried, by the names of parameters."""


@dataclass(frozen=True, slots=True)
class Tries:
    """The values to try: `asked` by field of a strategy; empty or None where an option does not say."""

    asked: Mapping[str, Any]
    accumulate: tuple[int, ...]
    micro_batch: tuple[int, ...]
    fixed: Mapping[str, tuple[int, ...]]
    all_divisors: bool

    def space(self, subject: Subject, devices: int, batches: tuple[int, ...], trained: bool) -> Space:
        """The space: all that a training step admits, or the paper's, but for what is said. Raises Refused."""
        from dataclasses import replace

        from distir.search import Space
        from distir.search.whole import whole

        if trained and all(size > 0 for size in batches):
            space = whole(subject, devices, batches)
        else:
            space = Space(devices, batches)
        usual = {} if self.all_divisors else space.fixed
        held = {**usual, **{name: values for name, values in self.fixed.items() if name != "K"}}
        axes = {name: values for name, values in self.asked.items() if name not in (*REPLICATED, "microbatches")}
        left = tuple((name, value) for name, value in space.of_the_best if name not in axes)
        return replace(
            space, **axes, **self._counts(space), fixed=held, all_divisors=self.all_divisors, of_the_best=left
        )

    def _counts(self, space: Space) -> dict[str, Any]:
        """How many microbatches are tried, or of which sizes."""
        counts = self.fixed.get("K") or self.asked.get("microbatches", ())
        stated = bool(counts or self.accumulate)
        accumulate = self.accumulate or ((1,) if stated else space.accumulate)
        counts = counts or space.microbatches
        if self.micro_batch:
            counts = accumulate = _counts(space.batch_sizes, self.micro_batch, stated)
        own = self.micro_batch or (() if stated else space.micro_batches)
        return {"microbatches": counts, "accumulate": accumulate, "micro_batches": own}


def _tried(given: Mapping[str, Any]) -> Tries:
    """What options say is tried. Raises Refused."""
    asked = dict[str, Any]()
    for option, (field, question) in QUESTIONS.items():
        if given[option] is not None:
            asked |= _recomputed(given[option]) if field == "checkpoint" else {field: _values(question, given[option])}
    if given["passes"]:
        if given["overlap"] is False:
            raise Refused("`--passes` excludes `--no-overlap`", "passes overlap what layers communicate")
        asked["overlap"] = (False, True)
    own = {name: integers(given[name], name.replace("_", "-")) for name in ("accumulate", "micro_batch") if given[name]}
    for name, values in own.items():
        _require(min(values) >= 1, name.replace("_", "-"), "1 or more", min(values))
    fixed = _fixed(given["fix"] or (), asked)
    return Tries(asked, own.get("accumulate", ()), own.get("micro_batch", ()), fixed, given["all_divisors"] or False)


takes_tries = taking("tries", OPTIONS, _tried)
"""A command with all of `OPTIONS` in the place of its parameter `tries`, which gets what they say is tried."""


def refuse_unused(tries: Tries, space: Space, subject: Subject) -> None:
    """Raises Refused for an option that no plan would use, and SpaceError where there are no plans."""
    from distir.search.plans import Plans

    degrees = Plans.of(Strategy(d, t, p, context=c) for d, t, p, c in space.degrees())
    whole = space.for_experts(subject.experts)
    if tries.accumulate and degrees.column("pipeline").min() > 1:
        lacking = "`--accumulate` is for plans without a pipeline, and P exceeds 1 in all"
        raise Refused(lacking, "`--microbatches` says K of pipelines")
    for field, question in QUESTIONS.values():
        if _says_more(tries.asked.get(field), FIELDS[field].default):
            for need in question.needs:
                if not _is_met(need, degrees, whole):
                    raise Refused(f"`{question.named or f'--{question.flag}'}` is for {need.what}", need.hint)


def _says_more(asked: Any, default: Any) -> bool:
    """Whether an option says other values than a field has anyway."""
    return asked is not None and (asked if isinstance(asked, tuple) else (asked,)) != (default,)


def _is_met(need: Requirement, degrees: Plans, space: Space) -> bool:
    """Whether some plan of a space has what a field needs."""
    plans = degrees
    for axis in AXES:
        if axis.name in need.depends and axis.name not in DEGREES:
            plans = plans.along(axis, space)
    first, _ = plans.groups(*need.depends)
    return any(need.met(plan) for plan in plans.take(first))


def _values(question: Question, given: Any) -> Any:
    """The values to try that an option says. Raises Refused for one that the field cannot have."""
    match question.kind:
        case "switch":
            return question.on if given else question.off
        case "factor":
            _require(not given or given >= question.least, question.flag, question.expected, f"{given:g}")
            return given
        case "words":
            return _words(given, question)
        case _:
            found = integers(given, question.flag)
            for number in found:
                inside = question.least <= number and (question.most is None or number <= question.most)
                _require(inside, question.flag, question.expected, number)
            return found


def _require(is_so: bool, flag: str, expected: str, found: object) -> None:
    if not is_so:
        raise Refused(f"`--{flag}` expected {expected}, found {found}")


def _words(text: str, question: Question) -> tuple[str, ...]:
    """Comma-separated words of an option. Raises Refused for one that there is not, with the nearest."""
    from distir.diagnostics import suggestion

    known = [*question.values()]
    found = tuple(dict.fromkeys(question.alias.get(word := part.strip(), word) for part in text.split(",")))
    for word in found:
        if word not in known:
            some = f"{', '.join(known[:-1])} or {known[-1]}"
            raise Refused(f"`--{question.flag}` expected {some}, found `{word}`", suggestion(word, known))
    return found


def _recomputed(text: str) -> dict[str, Any]:
    """Fields of a space for what `--checkpoint` says. Raises Refused."""
    from distir.diagnostics import suggestion

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
            hint = ELSEWHERE if word[:1].isdigit() else hint
            raise Refused(f"`--checkpoint` expected some of {', '.join(known)}, found `{word}`", hint)
    return {"checkpoint": tuple(whether), "recompute": tuple(what) or ("",)}


def _counts(batches: tuple[int, ...], sizes: tuple[int, ...], counted: bool) -> tuple[int, ...]:
    """The numbers of microbatches that microbatches of these sizes may have, over any number of replicas."""
    if counted:
        raise Refused("`--micro-batch` excludes `--microbatches` and `--accumulate`", "K is batch / (D * micro-batch)")
    if not batches:
        raise Refused("`--micro-batch` needs `--batch-size`", "K is batch / (D * micro-batch)")
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


def _fixed(texts: Any, asked: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The degrees that are restricted, and K, by the columns of rows. Raises Refused."""
    flags = {FIELDS[name].column: (name, FIELDS[name].asked) for name in (*REPLICATED, "microbatches")}
    found = dict[str, tuple[int, ...]]()
    for text in texts:
        column, equals, values = text.partition("=")
        if not equals or column not in flags:
            raise Refused(f"`--fix` expected D, T, P or K with numbers, as in D=2,4, found `{text}`")
        if column in found:
            raise Refused(f"`--fix {column}=` is given twice", f"`--fix {column}=2,4` tries several")
        found[column] = integers(values, f"fix {column}=")
        _require(column != "K" or min(found[column]) >= 1, "fix K=", "1 or more", min(found[column]))
    for column, (name, question) in flags.items():
        if name in asked:
            if column in found and question is not None:
                raise Refused(f"`--{question.flag}` excludes `--fix {column}=`", "both say what is tried")
            if column != "K":
                found[column] = asked[name]
    return found


def integers(text: str, flag: str) -> tuple[int, ...]:
    """Comma-separated numbers, each once. `flag`: the option that says them. Raises Refused."""
    try:
        return tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        raise Refused(f"`--{flag}` expected {NUMBERS}, found `{text}`") from None
