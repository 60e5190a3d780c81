"""Steps: transforms by name, with options, as the command line and the API write them.

    @step
    def pp(module: Module, value: int, *, microbatches: int = 1, schedule: str = "1f1b") -> Module:
        '''Pipeline parallelism over `value` devices.'''

A step is a function Module -> Module. A parameter after the module, if there is one, is what follows `=`
(`pp=4`); keyword-only parameters are options, which words of their own give (`microbatches=8`). The docstring is what
`distir transform --list` shows. A step that cannot be applied raises ProgramError with a DIR6xx diagnostic; so does one
that gives a program that does not check, with DIR606. What a step has to say beside its result, it tells (`tell`), and
who wants to know is `listening`.

Its place among others stands with it: what it makes of a program, and before which such properties it comes (`order`).
A program that has one is refused, also one from a file; documentation and the order of a chain follow from it. `after`
names the steps behind which it is of use, where both are applied. So do the words to which an option is limited, and
examples where there is no end of them, for forms that ask:

    @step(before=(DISTRIBUTED,), makes=SPREAD, after=("cse",), choices={"schedule": SCHEDULES})

What depends on the step's value is given by value: `before={"activations": (DISTRIBUTED,)}`.

So does what `distir advise` tries with it on a program, in the words of `distir transform`:

    @step(tries=doubling("tp={}"))

A step may consist of *parts*, of which its value chooses some: each is registered by itself, with a docstring and
options of its own, which the step passes on as keywords that it does not name:

    @step(parts=KINDS)
    def overlap(module: Module, value: tuple[str, ...] = (), **options: Any) -> Module:
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias, TypeVar, cast, overload

from distir.analysis import refuse_mesh
from distir.cost.units import parse_bytes
from distir.diagnostics import Diagnostic, ProgramError, Span
from distir.diagnostics.codes import transforms as codes
from distir.diagnostics.spelling import nearest
from distir.ir import Constant, Module, Site
from distir.ir.collection import paused_collection
from distir.ir.counted import times_in
from distir.ir.errors import DistirError
from distir.ir.registry import DefinitionError, Registry
from distir.ir.rolling import Unrolled, rolled, unrolled_from
from distir.transform.checking import check_result
from distir.transform.order import ON_MESH, Property, listed

Transform = Callable[..., Module]

Properties: TypeAlias = "Mapping[str, tuple[Property, ...]]"


Tries = Callable[[int], Iterable[str]]
"""What to try with a step, each as the words of `distir transform`, on a machine that has room for so many times the
devices of the program. What does not apply to a program is refused by the step itself."""


def always(*words: str) -> Tries:
    """The same on every machine: what leaves the program on its devices."""
    return lambda room: words


def doubling(words: str) -> Tries:
    """On 2, 4, 8, … times as many devices, as far as there is room: `words` have `{}` for the number."""
    return lambda room: [words.format(1 << power) for power in range(1, room.bit_length())]


class StepError(DistirError, ValueError):
    """A step or option that does not exist, or a value that does not fit."""


@dataclass(frozen=True, slots=True)
class Option:
    """What a step takes: its kind is the parameter's annotation as written; `required` if it has no default.

    `choices`: the words that it is limited to, perhaps a registry, which plugins add to; None where others will do.
    `examples`: words where there is no end of them.
    """

    name: str
    kind: str
    required: bool
    default: Any = None
    choices: Collection[str] | None = None
    examples: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class StepPart:
    """Something that a step does by a name of its own, which is a word of the step's value.

    `after`: the parts behind which it comes. `asked`: whether it is done only where it is named.
    """

    name: str
    transform: Callable[..., Any]
    options: Mapping[str, Option]
    after: tuple[str, ...] = ()
    asked: bool = False

    @property
    def documentation(self) -> str:
        """The docstring of its transform."""
        return inspect.getdoc(self.transform) or ""


@dataclass(frozen=True, slots=True)
class Step:
    """One transform by name. `after`: the steps behind which it is of use, where both are applied.

    `before`: the properties of programs that it cannot be applied to; `makes`: those that its result has; both by the
    step's value, those for any under an empty word. `own`: the options that the transform itself names. `tries`: what
    advice tries with it; nothing where it changes what a program computes.
    """

    name: str
    transform: Transform
    value: Option | None
    own: Mapping[str, Option]
    after: tuple[str, ...] = ()
    before: Properties = field(default_factory=dict[str, tuple[Property, ...]])
    makes: Properties = field(default_factory=dict[str, tuple[Property, ...]])
    parts: Mapping[str, StepPart] = field(default_factory=dict[str, StepPart])
    tries: Tries = field(default=always(), repr=False)
    changes_results: bool = False
    """Whether it makes another program on purpose: later steps are compared with its result."""
    on_mesh: bool = False
    """Whether it takes programs on a mesh, too, and gives them on it."""

    @property
    def options(self) -> Mapping[str, Option]:
        """Its options by name, those of its parts included."""
        return {**self.own, **{o.name: o for part in self.parts.values() for o in part.options.values()}}

    @property
    def documentation(self) -> str:
        """The docstring of its transform, and of each of its parts."""
        said = [inspect.getdoc(self.transform) or ""]
        said += [f"`{part.name}`: {part.documentation}" for part in self.parts.values()]
        said += self.places
        return "\n\n".join(said)

    @property
    def places(self) -> list[str]:
        """Sentences on its place among other steps."""
        behind = {*self.after, *(step.name for step in STEPS.values() if step.comes_before(self))}
        found = [f"Comes after {listed(sorted(behind))}."] if behind else []
        for value, properties in self.before.items():
            which = f"`{self.name}={value}` comes" if value else "Comes"
            found += [f"{which} before the steps that {p.words}: {listed(makers(p))}." for p in properties]
        return [" ".join(found)] if found else []

    def given(self, declared: Properties, value: Any = None) -> tuple[Property, ...]:
        """Those of its `before` or `makes` that go with a value, by default with its own."""
        default = None if self.value is None else self.value.default
        return (*declared.get("", ()), *declared.get(str(default if value is None else value), ()))

    def comes_before(self, other: Step) -> bool:
        """Whether it can be applied before another one, and not behind it."""
        return self._excludes(other) and not other._excludes(self)

    def _excludes(self, other: Step) -> bool:
        return not set(self.given(self.before)).isdisjoint(other.given(other.makes))


@dataclass(frozen=True, slots=True)
class Application:
    """A step with what it is given."""

    step: Step
    value: Any
    options: Mapping[str, Any]
    behind: tuple[Application, ...] = field(default=(), repr=False)
    """The steps that are applied to its result, where it is one of several."""

    def __call__(self, module: Module) -> Module:
        """Apply it, and check the result. Raises ProgramError where it cannot be applied, or the result is wrong."""
        made = self.unchecked(module)
        check_result(str(self), module, made)
        return made

    def unchecked(self, module: Module) -> Module:
        """Apply it, for callers that check the result themselves. Raises ProgramError where it cannot be applied.

        Counted calls are written out before.
        """
        given = unrolled_from(module)
        values = () if self.step.value is None or self.value is None else (self.value,)
        token = _behind.set(self.behind)
        try:
            self._refuse_late(given.module)
            made = self.step.transform(given.module, *values, **self.options)
        except ProgramError as error:
            raise ProgramError([_where_given(found, given) for found in error.diagnostics]) from None
        finally:
            _behind.reset(token)
        if not isinstance(made, Module):  # pyright: ignore[reportUnnecessaryIsInstance] - of a package's step
            raise DefinitionError(f"the step `{self.step.name}` gives {type(made).__name__}, expected Module")
        return made

    def _refuse_late(self, module: Module) -> None:
        """Raises ProgramError, DIR605, where the program has a property that the step comes before.

        DIR691 where it has a mesh, and the step takes none.
        """
        has_mesh = any(function.mesh for function in module)  # which steps come before imports them all
        if has_mesh and (not self.step.on_mesh or ON_MESH in self.step.given(self.step.before, self.value)):
            later = [name for name in makers(ON_MESH) if self.step.comes_before(STEPS[name])]
            refuse_mesh(module, f"the order is `{self}`, then {listed(later, 'or')}" if later else "")
        for found in self.step.given(self.step.before, self.value):
            if evidence := found.evidence(module):
                site, shown = evidence
                message = f"`{self}` comes before the steps that {found.words}; {shown}"
                later = self._later(found)
                order = f": the order is `{self}`, then {listed(later, 'or')}" if later else ""
                hint = f"apply it to the program before that{order}"
                raise ProgramError([Diagnostic(codes.WRONG_ORDER, site, message, (), hint)])

    def _later(self, wanted: Property) -> list[str]:
        """The steps that give programs a property, and can be applied behind this one."""
        own = set(self.step.given(self.step.makes, self.value))
        if ON_MESH in own:
            return []
        found = {name: STEPS[name.partition("=")[0]] for name in makers(wanted)}
        values = {name: name.partition("=")[2] or None for name in found}
        return [name for name, step in found.items() if own.isdisjoint(step.given(step.before, values[name]))]

    @property
    def words(self) -> list[str]:
        """The step as it is written, with its options: `parse_steps` reads the same."""
        return [str(self), *(f"{name}={written(value)}" for name, value in self.options.items())]

    def __str__(self) -> str:
        """The step as it is written, without its options."""
        if self.step.value is None or self.value is None:
            return self.step.name
        return f"{self.step.name}={written(self.value)}"


def _where_given(found: Diagnostic, given: Unrolled) -> Diagnostic:
    """A diagnostic of a program whose counted calls are written out, with its sites in the program as it was."""
    notes = tuple(replace(note, site=_site_given(note.site, given)) for note in found.notes)
    return replace(found, site=_site_given(found.site, given), notes=notes)


def _site_given(site: Site | Span | None, given: Unrolled) -> Site | Span | None:
    if not isinstance(site, Site) or site.index is None or site.function not in given.origins:
        return site
    origins = given.origins[site.function]
    at = origins[site.index]
    is_counted = origins[site.index - 1 : site.index] == [at] or origins[site.index + 1 : site.index + 2] == [at]
    return Site(site.function, at, None if is_counted else site.part)


STEPS: Registry[Step] = Registry()
"""Every step by its name: ours, of which `all_steps` says where they are, and those of plugins."""


def makers(wanted: Property) -> list[str]:
    """The steps that give programs a property, by name, with the value that does so."""
    return sorted(
        f"{step.name}={value}" if value else step.name
        for step in STEPS.values()
        for value, properties in step.makes.items()
        if wanted in properties
    )


@overload
def step(transform: Transform, /) -> Transform: ...


@overload
def step(
    *,
    after: Sequence[str] = (),
    before: Properties | Sequence[Property] = (),
    makes: Properties | Sequence[Property] = (),
    choices: Mapping[str, Collection[str]] | None = None,
    examples: Mapping[str, Collection[str]] | None = None,
    parts: Mapping[str, StepPart] | None = None,
    tries: Tries = ...,
    changes_results: bool = False,
    on_mesh: bool = False,
) -> Callable[[Transform], Transform]: ...


def step(
    transform: Transform | None = None,
    /,
    *,
    after: Sequence[str] = (),
    before: Properties | Sequence[Property] = (),
    makes: Properties | Sequence[Property] = (),
    choices: Mapping[str, Collection[str]] | None = None,
    examples: Mapping[str, Collection[str]] | None = None,
    parts: Mapping[str, StepPart] | None = None,
    tries: Tries = always(),  # noqa: B008 - a function
    changes_results: bool = False,
    on_mesh: bool = False,
) -> Transform | Callable[[Transform], Transform]:
    """Register a transform under its own name. Raises TypeError for a parameter that no word could give a value.

    `after`: the steps behind which this one is of use; `before`: the properties of programs that it cannot be applied
    to, perhaps by its value; `makes`: those that its result has; `choices`: by parameter, the words that it is limited
    to; `examples`: words where there is no end of them; `parts`: what it consists of, perhaps a registry, whose options
    it takes too; `tries`: what advice tries with it; `changes_results`: whether its result is another program;
    `on_mesh`: whether it takes programs on a mesh, too.
    """
    limited, shown = choices or {}, examples or {}

    def register(transform: Transform) -> Transform:
        parameters = list(inspect.signature(transform).parameters.values())[1:]
        options = options_of(transform, limited, shown)
        values = [_option(p, limited, shown) for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
        unknown = (limited.keys() | shown.keys()) - {p.name for p in parameters}
        if unknown:
            raise TypeError(f"the words for `{transform.__name__}`: it has no parameter `{min(unknown)}`")
        name = transform.__name__
        value, places = values[0] if values else None, (_by_value(before), _by_value(makes))
        consists = dict[str, StepPart]() if parts is None else parts
        found = Step(name, transform, value, options, tuple(after), *places, consists, tries, changes_results, on_mesh)
        STEPS.register(name, found, transform.__module__)
        return transform

    return register if transform is None else register(transform)


def _by_value(declared: Properties | Sequence[Property]) -> Properties:
    if isinstance(declared, Mapping):
        return declared
    return {"": tuple(declared)} if declared else {}


Words: TypeAlias = Mapping[str, Collection[str]]
NO_WORDS: Words = MappingProxyType({})


def options_of(
    transform: Callable[..., Any], choices: Words = NO_WORDS, examples: Words = NO_WORDS
) -> dict[str, Option]:
    """The options that a transform names: its keyword-only parameters. Raises TypeError as `step` does."""
    parameters = inspect.signature(transform).parameters.values()
    return {p.name: _option(p, choices, examples) for p in parameters if p.kind is p.KEYWORD_ONLY}


Placed = TypeVar("Placed", "Step", StepPart)


def in_order(steps: Iterable[Placed]) -> list[Placed]:
    """Steps, or parts of a step, in the order in which they are applied: each behind those that come before it.

    Else by name: modules that register them are imported in no particular order.
    """
    waiting = {found.name: found for found in sorted(steps, key=lambda found: found.name)}
    order: list[Placed] = []
    while waiting:
        ready = (found for found in waiting.values() if not any(_is_behind(found, o) for o in waiting.values()))
        chosen = next(ready, None) or next(iter(waiting.values()))  # plugins that want each other first: by name
        order.append(waiting.pop(chosen.name))
    return order


def _is_behind(found: Step | StepPart, other: Step | StepPart) -> bool:
    if other.name in found.after:
        return True
    return isinstance(found, Step) and isinstance(other, Step) and other.comes_before(found)


_behind: ContextVar[tuple[Application, ...]] = ContextVar("behind", default=())


def steps_behind() -> tuple[Application, ...]:
    """The steps that will be applied to the result of the one that is being applied, for one that looks ahead."""
    return _behind.get()


_reported: ContextVar[list[str] | None] = ContextVar("reported", default=None)


def tell(message: str) -> None:
    """Report something beside the result of the step that is being applied: a line, for listeners."""
    lines = _reported.get()
    if lines is not None:
        lines.append(message)


def is_heard() -> bool:
    """Whether there is a listener, so that what costs time to find out is worth it."""
    return _reported.get() is not None


@contextmanager
def unheard() -> Generator[None]:
    """Apply steps to see what they give, without reporting what they tell."""
    token = _reported.set(None)
    try:
        yield
    finally:
        _reported.reset(token)


@contextmanager
def listening() -> Generator[list[str]]:
    """Hear what steps report while they are applied: a list that grows."""
    lines: list[str] = []
    token = _reported.set(lines)
    try:
        yield lines
    finally:
        _reported.reset(token)


def parse_steps(
    words: Sequence[str], keywords: Mapping[str, Any] | None = None, defaults: Mapping[str, Any] | None = None
) -> list[Application]:
    """Steps as words: `grad`, `pp=4`, and options, which belong to the step before them, also if a step has that name.

    `keywords` go to every step that takes them; so do `defaults`, which need not be taken by any. Raises StepError,
    also for an option that a step is given twice.
    """
    found: list[tuple[Step, Any, dict[str, Any]]] = []
    places: dict[str, int] = {}
    for place, word in enumerate(words, start=1):
        name, equals, text = word.partition("=")
        is_option = bool(found) and name in found[-1][0].options
        if not is_option and name in STEPS:
            chosen = STEPS[name]
            found.append((chosen, _given(chosen.value, name, text) if equals else _absent(chosen), {}))
            places = {}
        elif is_option:
            if name in places:
                both = f"words {places[name]} and {place}, `{words[places[name] - 1]}` and `{word}`"
                raise StepError(f"`{found[-1][0].name}` is given its option `{name}` twice: {both}")
            places[name] = place
            found[-1][2][name] = _given(found[-1][0].options[name], name, text if equals else "true")
        else:
            chain = [STEPS[given] for given in (other.partition("=")[0] for other in words) if given in STEPS]
            raise StepError(_unknown(name, found[-1][0] if found else None, chain))
    for name, value in (keywords or {}).items():
        takers = [options for chosen, _, options in found if name in chosen.options]
        if not takers:
            raise StepError(f"none of the steps takes the option `{name}`")
        for options in takers:
            options.setdefault(name, value)
    for name, value in (defaults or {}).items():
        for chosen, _, options in found:
            if name in chosen.options:
                options.setdefault(name, value)
    applications: list[Application] = []
    for chosen, value, options in reversed(found):
        applications.insert(0, Application(chosen, value, options, tuple(applications)))
    return applications


def transform(module: Module, *words: str, **keywords: Any) -> Module:
    """Apply steps in turn. Raises StepError for steps that do not exist, ProgramError where one cannot be applied.

    Where the program has counted calls, so does the result.
    """
    return applied(module, parse_steps(words, keywords))


def applied(module: Module, steps: Iterable[Application]) -> Module:
    """Apply steps in turn. Raises ProgramError where one cannot be applied. Counted calls stay counted."""
    with paused_collection():
        made = module
        for application in steps:
            made = application(made)
    return rolled(made) if any(map(times_in, module)) else made


def bound_sizes(words: Iterable[str]) -> dict[str, Constant]:
    """Named dimensions with sizes, of an option that takes words such as `B=64`. Raises StepError."""
    found: dict[str, Constant] = {}
    for word in words:
        name, _, size = word.partition("=")
        if not name or not size.isdecimal():
            raise StepError(f"`bind` expected names with sizes, as in `bind=B=64`, found `{word}`")
        found[name] = int(size)
    return found


def _option(parameter: inspect.Parameter, choices: Words, examples: Words) -> Option:
    required = parameter.default is inspect.Parameter.empty
    default = None if required else parameter.default
    kind = inspect.formatannotation(parameter.annotation).strip("'")  # in quotes where annotations are postponed
    if kind.removesuffix(" | None") not in KINDS:
        kinds = ", ".join(f"`{known}`" for known in KINDS)
        raise TypeError(f"the annotation of `{parameter.name}`: expected one of {kinds}, found `{kind}`")
    name = parameter.name
    return Option(name, kind, required, default, choices.get(name), examples.get(name, ()))


def _absent(chosen: Step) -> None:
    if chosen.value is not None and chosen.value.required:
        raise StepError(f"the step `{chosen.name}` needs a value: `{chosen.name}=…`")


def _integers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


Bytes: TypeAlias = int
"""The annotation of an option that is a number of bytes: `26214400` and `25MiB` are the same."""


def _bytes(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return parse_bytes(text)


Count: TypeAlias = int
"""The annotation of an option that is a number of devices, or of other things of which there is one at least."""


def _count(text: str) -> int:
    if (found := int(text)) < 1:
        raise ValueError
    return found


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _flag(text: str) -> bool:
    return {"true": True, "false": False, "1": True, "0": False}[text]


KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "int": ("an integer", int),
    "Count": ("an integer from 1", _count),
    "Bytes": ("a number of bytes, such as `25MiB`", _bytes),
    "float": ("a number", float),
    "float | str": ("a number or a word", _number_or_word),
    "bool": ("true or false", _flag),
    "str": ("a word", str),
    "tuple[int, ...]": ("integers with commas between them", _integers),
    "tuple[str, ...]": ("words with commas between them", lambda text: tuple(text.split(","))),
}
"""What options can be, by the annotation of their parameter: in words, and how a text is read as one."""


def written(value: Any) -> str:
    """A value of one of `KINDS` as a text that is read as it."""
    if isinstance(value, tuple):
        return ",".join(map(str, cast("tuple[object, ...]", value)))
    if isinstance(value, bool):
        return str(value).lower()
    short = f"{value:g}" if isinstance(value, float) else str(value)
    return short if not isinstance(value, float) or float(short) == value else repr(value)


def _given(option: Option | None, name: str, text: str) -> Any:
    if option is None:
        raise StepError(f"the step `{name}` takes no value")
    words, read = KINDS[option.kind.removesuffix(" | None")]
    try:
        return read(text)
    except (ValueError, KeyError):
        raise StepError(f"`{name}` expected {words}, found `{text}`") from None


def _unknown(name: str, before: Step | None, chain: Sequence[Step]) -> str:
    """The message for a word that is no step, nor an option of the step before it. `chain`: all steps given."""
    after = f" after `{before.name}`" if before else ""
    return f"there is no step or option `{name}`{after}; {_instead(name, before, chain)}"


def _instead(name: str, before: Step | None, chain: Sequence[Step]) -> str:
    given = dict.fromkeys(step.name for step in chain if name in step.options)
    if given:
        return f"it is an option of {listed(given, 'or')}, and comes behind that step"
    taking = sorted(known for known in STEPS if name in STEPS[known].options)
    if taking:
        return f"it is an option of {listed(taking, 'or')}"
    if near := nearest(name, [*STEPS, *(before.options if before else ())]):
        return f"did you mean `{near}`?"
    for step in chain:
        if near := nearest(name, step.options):
            return f"did you mean `{near}`, an option of `{step.name}`?"
    own = f"options of `{before.name}` are {', '.join(before.options)}; " if before and before.options else ""
    return f"{own}the steps are {', '.join(sorted(STEPS))}"
