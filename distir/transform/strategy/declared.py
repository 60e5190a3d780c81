"""How a field of a strategy is declared: all that is said of it, once.

`declared` goes where the field is, and gives its default. From it follow the words and the steps of a strategy, what a
search tries and in what order, how it is shown, the columns of rows, and the options of commands with their help,
their messages, and what they are of no use for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias

from distir.transform.strategy.choices import Choices

Strategy: TypeAlias = Any
"""That of `record`, which is made of these declarations."""

Options = Mapping[str, Any]
"""Options of a step by name, and its value under an empty one."""

VALUE: Final = ""
"""The name of a step's value among its options."""

Kind = Literal["numbers", "words", "switch", "factor"]
"""What an option of a command takes: several numbers, several words, on or off, one number."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """What strategies must have for a field to count: in words that follow `is for`, and which options give it."""

    met: Callable[[Strategy], bool]
    what: str
    help: str | Callable[[], str]
    depends: Sequence[str]
    """The fields on which that depends."""

    @property
    def hint(self) -> str:
        """Which options give it."""
        return self.help if isinstance(self.help, str) else self.help()


@dataclass(frozen=True, slots=True)
class Question:
    """How a command asks which values of a field are tried: an option, its label in forms, its help.

    `values`: the words that it takes. `least`, `most`: the numbers, of which a message says that they are `expected`.
    `alias`: other words for some of these. `needs`: what strategies must have for it to count, of which messages speak
    as `named`. `on`, `off`: what is tried if a switch is on, or off.
    """

    flag: str
    label: str
    help: str
    kind: Kind = "numbers"
    values: Callable[[], Collection[str]] = lambda: ()
    expected: str = "degrees from 1"
    least: int = 1
    most: int | None = None
    metavar: str = ""
    alias: Mapping[str, str] = field(default_factory=dict[str, str])
    needs: Sequence[Requirement] = ()
    named: str = ""
    on: Any = (False, True)
    off: Any = (False,)

    @property
    def name(self) -> str:
        """The option as a parameter."""
        return self.flag.replace("-", "_")

    @property
    def shape(self) -> str:
        """What follows the option, as help says it."""
        return self.metavar or {"numbers": "N,N,…", "words": "S,S,…", "factor": "X", "switch": ""}[self.kind]


@dataclass(frozen=True, slots=True)
class Declared:
    """A field of a strategy, with all that is said of it.

    `column`: that of rows. `step`: the step of which options are `said` for a strategy, if it has them, and from which
    the field is `read`. `tried`: the values that a space tries for a strategy of which this field, and those that are
    tried behind it, have their defaults; they are the same for strategies that agree in the fields `depends`.
    `searched`: whether a search tries any.
    `shown`: how it is shown where it is not as usual. `asked`: by which option commands ask for it.
    """

    name: str
    default: Any
    column: str
    step: str
    said: Callable[[Strategy], Options | None]
    read: Callable[[Options], Any]
    searched: bool
    tried: Callable[[Choices, Strategy], Sequence[Any]]
    depends: Sequence[str]
    shown: Callable[[Strategy], str]
    asked: Question | None


def declared(
    default: Any,
    column: str,
    *,
    step: str = "dtp",
    option: str | None = None,
    said: Callable[[Strategy], Options | None] | None = None,
    read: Callable[[Options], Any] | None = None,
    tried: Callable[[Choices, Strategy], Sequence[Any]] | None = None,
    depends: Sequence[str] = (),
    shown: str | Callable[[Strategy], str] = "",
    asked: Question | None = None,
) -> Any:
    """Declare a field of `Strategy`: its default, with what `Declared` says.

    `option`: that of the step which says it where it is not the default; without one the step itself does. `shown`:
    also a text, with `{}` for the value, of any but the default. Without `tried` a space tries what is `asked` for
    where what that needs is there, else the default; and nothing where no command asks.
    """
    said_of_it: dict[str, Any] = {"column": column, "step": step, "option": option, "said": said, "read": read}
    said_of_it |= {"tried": tried, "depends": tuple(depends), "shown": shown, "asked": asked}
    return field(default=default, metadata={"declared": said_of_it})


def declarations(record: type) -> dict[str, Declared]:
    """What is declared of the fields of a record, by name."""
    return {f.name: _declared(f.name, f.default, **f.metadata["declared"]) for f in fields(record)}


def _declared(
    name: str, default: Any, option: str | None, said: Any, read: Any, tried: Any, depends: Sequence[str],
    shown: Any, asked: Question | None, **more: Any,
) -> Declared:  # fmt: skip
    def by_option(strategy: Strategy) -> Options | None:
        value = getattr(strategy, name)
        return None if value == default else {} if option is None else {option: value}

    def of_option(options: Options) -> Any:
        return True if option is None else options.get(option, default)

    def where_needed(space: Choices, strategy: Strategy) -> Sequence[Any]:
        return getattr(space, name) if all(need.met(strategy) for need in needs) else (default,)

    def as_text(strategy: Strategy) -> str:
        value = getattr(strategy, name)
        return "" if value == default else (shown or f"{more['column']}={{}}").format(value)

    needs = asked.needs if asked is not None else ()
    own = dict.fromkeys(field for need in needs for field in need.depends)
    return Declared(
        name,
        default,
        said=said or by_option,
        read=read or of_option,
        searched=tried is not None or asked is not None,
        tried=tried or where_needed,
        depends=tuple(depends or own),
        shown=as_text if isinstance(shown, str) else shown,
        asked=asked,
        **more,
    )
