"""Ranges of names: `%w_{1..4}` means `%w_1, %w_2, %w_3, %w_4`, wherever values are listed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from distir.diagnostics.codes import syntax as codes
from distir.files import limits
from distir.syntax.fault import Fault, placed

RANGE = re.compile(r"\{(\d+)\.\.(\d+)(?:\.\.(\d+))?\}")
_NUMBER = re.compile(r"\d+")
_DIGITS = 9
SHORTEST = 3
"""The least number of names in a counted call's list that is written as a range."""
MANY = 8
"""The least number of other operands, or results, that is."""
LEAST = 4
"""The least number of parameters, or groups of them, that is written as a range."""
LONGEST_PERIOD = 100
"""The most parameters that count on together."""


def is_range(name: str) -> bool:
    """Whether a name, as it is written, means several."""
    return "{" in name


def names_of(written: str, tokens: tuple[int, int] | None = None) -> list[str]:
    """The names that a name means, as it is written. Raises Fault, placed at `tokens`."""
    if not is_range(written):
        return [written]
    found = RANGE.search(written)
    assert found is not None
    before, behind = written[: found.start()], written[found.end() :]
    if is_range(behind):
        raise placed(Fault(codes.BAD_COUNTED_CALL, f"`%{written}` has two ranges", "write one in a name"), tokens)
    try:
        return [f"{before}{number}{behind}" for number in _numbers(written, found)]
    except Fault as fault:
        raise placed(fault, tokens) from None


def _numbers(written: str, found: re.Match[str]) -> range:
    """The numbers of a range: the first, the last, and how far the next one is. Raises Fault."""
    return _counted_up([number for number in found.groups() if number is not None], f"%{written}", "names")


def devices_of(written: str) -> range:
    """The devices of a range: `1..7..3` means 1, 4 and 7. Raises Fault."""
    return _counted_up(written.split(".."), written, "devices")


def _counted_up(digits: Sequence[str], written: str, what: str) -> range:
    if any(len(number) > 1 and number[0] == "0" for number in digits):
        hint = "numbers of a range begin with another digit than 0"
        raise Fault(codes.BAD_COUNTED_CALL, f"`{written}` has a number that begins with 0", hint)
    first, last, *steps = (int(number[: _DIGITS + 1]) for number in digits)
    step = steps[0] if steps else 1
    if max(map(len, digits)) > _DIGITS or abs(last - first) >= limits.CALLS * max(step, 1):
        raise Fault(codes.BAD_COUNTED_CALL, f"`{written}` means more than {limits.CALLS} {what}", "write fewer")
    if not step or abs(last - first) % step:
        message = f"`{written}` does not reach its last number"
        hint = "the third number is how far each is from the one before: `{1..7..3}` means 1, 4 and 7"
        raise Fault(codes.BAD_COUNTED_CALL, message, hint)
    return range(first, last + 1, step) if first <= last else range(first, last - 1, -step)


def width(written: str) -> int:
    """How many names a name means, as it is written; 1 where that is wrong."""
    found = RANGE.search(written) if is_range(written) else None
    try:
        return 1 if found is None else len(_numbers(written, found))
    except Fault:
        return 1


def means(written: str, name: str) -> bool:
    """Whether a name, as it is written, means a value. The names are not listed: ranges may be long."""
    found = RANGE.search(written) if is_range(written) else None
    if found is None:
        return written == name
    before, behind = written[: found.start()], written[found.end() :]
    number = name[len(before) : len(name) - len(behind)]
    fits = len(name) > len(before) + len(behind) and name.startswith(before) and name.endswith(behind)
    if not fits or not _NUMBER.fullmatch(number) or len(number) > _DIGITS or (len(number) > 1 and number[0] == "0"):
        return False
    try:
        return int(number) in _numbers(written, found)
    except Fault:
        return False


def first_name(written: str) -> str:
    """The first name that a name means, as it is written; itself where it is wrong."""
    found = RANGE.search(written) if is_range(written) else None
    return written if found is None else f"{written[: found.start()]}{found[1]}{written[found.end() :]}"


def readable_names(written: str) -> list[str]:
    """The names that a name means, as it is written; none where that is wrong."""
    try:
        return names_of(written)
    except Fault:
        return []


def shortened(names: Sequence[str], least: int = SHORTEST) -> list[str]:
    """The names, runs of which are ranges where the text is shorter so; the inverse of `names_of`."""
    found: list[str] = []
    index = 0
    while index < len(names):
        end, shown = _longest(names, index, least)
        found.append(shown)
        index = end
    return found


def _longest(names: Sequence[str], start: int, least: int) -> tuple[int, str]:
    """The longest run of names that are one range: where it ends, and how it is written."""
    first = names[start]
    if start + least > len(names):
        return start + 1, first
    best, shown = start + 1, first
    for number in _NUMBER.finditer(first):
        text = number.group()
        if (len(text) > 1 and text[0] == "0") or len(text) > _DIGITS:
            continue
        before, behind, value = first[: number.start()], first[number.end() :], int(text)
        second = names[start + 1]
        at = slice(number.start(), len(second) - len(behind))
        following = _NUMBER.fullmatch(second, at.start, max(at.start, at.stop))
        if following is None or (step := int(following.group()[: _DIGITS + 1]) - value) == 0:
            continue
        end = start + 1
        while end < len(names) and end - start < limits.CALLS and (reached := value + step * (end - start)) >= 0:
            if names[end] != f"{before}{reached}{behind}":
                break
            end += 1
        if end > best and end - start >= least:
            by = f"..{abs(step)}" if abs(step) > 1 else ""
            best, shown = end, f"{before}{{{text}..{value + step * (end - start - 1)}{by}}}{behind}"
    return best, shown


def spread_of(devices: Sequence[int | None]) -> str | None:
    """The range of devices of which each has equally many of a list, one behind the other; None where there is none."""
    found = [*dict.fromkeys(devices)]
    each, step = len(devices) // len(found), (found[1] or 0) - (found[0] or 0) if len(found) > 1 else 0
    if step < 1 or [*devices] != [device for device in found for _ in range(each)]:
        return None
    if any(after != (before or 0) + step for before, after in pairwise(found)):
        return None
    return f"{found[0]}..{found[-1]}" + (f"..{step}" if step > 1 else "")


def period_of(items: Sequence[tuple[str, object]], start: int) -> tuple[int, int]:
    """How many items from `start` on count on together, and how often they do so; (0, 0) where they do not.

    An item is a name and what else is said of it, which is the same in each round.
    """
    name, said = items[start]
    for number in _NUMBER.finditer(name):
        if (step := _next(name, number.group(), number.start())) is None:
            continue
        last = min(len(items), start + LONGEST_PERIOD + 1)
        end = next((i for i in range(start + 1, last) if items[i] == (step, said)), None)
        if end is not None and (times := _rounds(items, start, end - start)) >= LEAST:
            return end - start, times
    return 0, 0


def range_of(name: str, following: str, times: int) -> str:
    """The range of `times` names from one on whose second is `following`."""
    for number in _NUMBER.finditer(name):
        if _next(name, number.group(), number.start()) == following:
            first = int(number.group())
            return f"{name[: number.start()]}{{{first}..{first + times - 1}}}{name[number.end() :]}"
    raise AssertionError(following)


def _next(name: str, number: str, at: int) -> str | None:
    """The name with the number at a place one higher; None where that is not written as a range."""
    if (len(number) > 1 and number[0] == "0") or len(number) > _DIGITS:
        return None
    return f"{name[:at]}{int(number) + 1}{name[at + len(number) :]}"


def _rounds(items: Sequence[tuple[str, object]], start: int, period: int) -> int:
    """How often a round of items is repeated, each name with a number that is one higher than in the round before."""
    places: list[tuple[str, int, str, object]] = []
    for (name, said), (following, again) in zip(items[start : start + period], items[start + period :], strict=False):
        numbers = (n for n in _NUMBER.finditer(name) if _next(name, n.group(), n.start()) == following)
        found = next(numbers, None)
        if found is None or said != again:
            return 1
        places.append((name[: found.start()], int(found.group()), name[found.end() :], said))
    if len(places) < period:
        return 1
    rounds = 1
    while all(
        items[at] == (f"{before}{number + rounds}{behind}", said)
        for at, (before, number, behind, said) in enumerate(places, start + rounds * period)
        if at < len(items)
    ) and start + (rounds + 1) * period <= len(items):
        rounds += 1
    return rounds
