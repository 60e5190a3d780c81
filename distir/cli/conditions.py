"""`distir diff --fail-if`: conditions on what a program costs, in itself or against another one.

    CONDITION = METRIC (">" | "<") AMOUNT
    AMOUNT    = ("+" | "-") NUMBER "%"       by so much of what A costs: latency>+5%
              | ("+" | "-") QUANTITY         by so much more, or less, than A: memory>+1GB, bubble>+2%
              | QUANTITY                     what B costs itself: latency>20ms, bubble>30%

A metric is one entry of METRICS. Shares, as the bubble, are percent of a whole, so their change is in points.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distir.cli.endings import Refused
from distir.cost import UnitError, parse_bytes, parse_seconds, show_bytes, show_seconds
from distir.diagnostics import nearest

if TYPE_CHECKING:
    from distir.transform import Side


def _share(text: str) -> float:
    """`"30%"` is 0.3. Raises UnitError."""
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+) ?%", text)
    if match is None:
        raise UnitError(f"expected a share such as `30%`, found `{text}`")
    return float(match[1]) / 100


def _count(text: str) -> float:
    """`"1000"`. Raises UnitError."""
    if not re.fullmatch(r"\d{1,18}", text):
        raise UnitError(f"expected a whole number such as `1000`, found `{text}`")
    return int(text)


def _money(text: str) -> float:
    """`"0.05"`, in the currency of the profile's prices. Raises UnitError."""
    if not re.fullmatch(r"\d{1,18}(?:\.\d*)?|\.\d+", text):
        raise UnitError(f"expected an amount such as `0.05`, in the currency of the profile's prices, found `{text}`")
    return float(text)


def _show_share(share: float) -> str:
    return f"{100 * share:.1f}%"


@dataclass(frozen=True, slots=True)
class Unit:
    """How amounts of a kind are read and shown."""

    parse: Callable[[str], float]
    show: Callable[[float], str]
    example: str
    is_share: bool = False


SECONDS = Unit(parse_seconds, show_seconds, "5ms")
BYTES = Unit(parse_bytes, show_bytes, "1GB")
SHARE = Unit(_share, _show_share, "2%", is_share=True)
COUNT = Unit(_count, lambda count: f"{count:.0f}", "1000")
MONEY = Unit(_money, lambda amount: f"{amount:.3g}", "0.05")


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that a condition can test. `of` is None if a program lacks what `needs` says."""

    unit: Unit
    of: Callable[[Side], float | None]
    documentation: str
    needs: str = ""


METRICS: dict[str, Metric] = {
    "latency": Metric(SECONDS, lambda side: side.latency_s, "the simulated latency"),
    "memory": Metric(BYTES, lambda side: side.most_memory_bytes, "the largest peak memory of a device"),
    "communication": Metric(BYTES, lambda side: side.total_communication_bytes, "the payload of all messages"),
    "bubble": Metric(SHARE, lambda side: side.bubble, "the share of the devices' time that is idle"),
    "exposed-communication": Metric(
        SHARE, lambda side: side.exposed_communication, "the share of it that is communication without computing"
    ),
    "ops": Metric(COUNT, lambda side: side.ops, "how many ops run"),
    "cost": Metric(
        MONEY,
        lambda side: None if side.cost is None else side.cost.step.amount,
        "the cost of one run, in the currency of the profile's prices",
        'the hardware profile has no prices: add `price = "2.5USD/h"` to each of its `kinds`',
    ),
}
"""By name: all that conditions can speak of."""

TIMED = "latency"
"""The one that traces have, too."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition. `amount` is signed where it is `against` A, a part of what A costs where it is `relative`."""

    text: str
    metric: str
    above: bool
    amount: float
    against: bool
    relative: bool

    def judged(self, a: float, b: float) -> Judged:
        """Whether it holds where A costs `a` and B costs `b`."""
        limit = a * (1 + self.amount) if self.relative else a + self.amount if self.against else self.amount
        return Judged(self, a, b, b > limit if self.above else b < limit)


@dataclass(frozen=True, slots=True)
class Judged:
    """A condition, what the programs cost, and whether it holds."""

    condition: Condition
    a: float
    b: float
    holds: bool

    def __str__(self) -> str:
        unit = METRICS[self.condition.metric].unit
        return f"{unit.show(self.a)} → {unit.show(self.b)}" + (f" ({change})" if (change := self._change()) else "")

    def _change(self) -> str:
        if METRICS[self.condition.metric].unit.is_share:
            return points(self.a, self.b)
        return percent(self.a, self.b)


def percent(a: float, b: float) -> str:
    """By how much of `a` it changes to `b`: `+7.8%`; nothing where it does not, or there is nothing to compare with."""
    return "" if a == b or not a else f"{100 * (b - a) / a:+.1f}%"


def points(a: float, b: float) -> str:
    """By how many percent points a share changes: `+2.1 points`; nothing where it does not."""
    return "" if a == b else f"{100 * (b - a):+.1f} points"


def parsed(texts: Sequence[str]) -> list[Condition]:
    """The conditions. Raises Refused for one that is none, with what can be said."""
    return [_parsed(text) for text in texts]


def judged(conditions: Sequence[Condition], a: Side, b: Side) -> list[Judged]:
    """Evaluates conditions for two programs. Raises Refused for an unknown metric."""
    return [c.judged(_measured(c, a), _measured(c, b)) for c in conditions]


def _measured(condition: Condition, side: Side) -> float:
    metric = METRICS[condition.metric]
    found = metric.of(side)
    if found is None:
        raise Refused(f"`--fail-if '{condition.text}'`: the {condition.metric} is unknown", metric.needs)
    return found


def as_document(found: Sequence[Judged]) -> list[dict[str, object]]:
    """Conditions for JSON: seconds, bytes, shares from 0 to 1."""
    return [
        {"condition": one.condition.text, "metric": one.condition.metric, "a": one.a, "b": one.b, "holds": one.holds}
        for one in found
    ]


def as_markdown(found: Sequence[Judged]) -> str:
    """The results of conditions as a Markdown table; empty without conditions."""
    if not found:
        return ""
    rows = [("fails if", "A → B", ""), ("---", "---", "---")]
    rows += [(f"`{one.condition.text}`", str(one), "**fails**" if one.holds else "passes") for one in found]
    return "\n#### conditions\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


_CONDITION = re.compile(r"\s*([\w-]+)\s*([<>])\s*([+-]?)\s*([^+\-<>=\s].*?)\s*")
_PERCENT = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?%")


def _parsed(text: str) -> Condition:
    text = " ".join(text.split())
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise _refused(text, "expected a metric, `>` or `<`, and an amount", _sayable())
    metric, sign, against, amount = match.groups()
    if metric not in METRICS:
        likely = nearest(metric, METRICS)
        raise _refused(
            text, f"unknown metric `{metric}`", (f"did you mean `{likely}`? " if likely else "") + _sayable()
        )
    unit = METRICS[metric].unit
    part = _PERCENT.fullmatch(amount)
    if part is not None and not unit.is_share:
        if not against:
            hint = (
                f"write `{metric}{sign}+{amount}` for an amount above A, `{metric}{sign}-{amount}` for an amount below"
            )
            raise _refused(text, f"`{amount}` of what?", hint)
        number = float(part[1]) / 100
    else:
        try:
            number = unit.parse(amount)
        except UnitError as error:
            raise _refused(text, str(error), error.help or _sayable()) from None
    signed = -number if against == "-" else number
    return Condition(text, metric, sign == ">", signed, bool(against), part is not None and not unit.is_share)


def _sayable() -> str:
    """All that can be said, in a sentence."""
    listed = ", ".join(f"`{name}`" for name in METRICS)
    forms = "`latency>+5%` (by more than 5 % of A), `latency>+1ms` (by more than 1 ms), `latency>20ms` (B itself)"
    return f"write for example {forms}, or `bubble>+2%` (by more than 2 points); metrics are {listed}"


def _refused(text: str, why: str, hint: str) -> Refused:
    return Refused(f"`--fail-if '{text}'`: {why}", hint)
