"""A diff of two texts as by `diff -u`, in about linear time.

`difflib` takes the square of it where every second line of a long text has changed. So lines that occur once in both
texts are matched first (Bram Cohen's patience diff), and what lies between them likewise, down to pieces that are
short, which `difflib` does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

CONTEXT = 3
"""Lines shown around a difference."""

SHORT = 1_000_000
"""Pairs of lines that `difflib` may compare in one piece."""

DEEPEST = 30
"""How often the pieces between matched lines are matched again."""

Block = tuple[int, int, int]
"""Equal lines: a start in each text, and a count."""


def unified(first: Sequence[str], second: Sequence[str], name: str, new_name: str) -> Iterator[str]:
    """The lines of a unified diff, without line ends; none if the texts are equal."""
    matcher = _Matcher(first, second)
    for number, group in enumerate(matcher.get_grouped_opcodes(CONTEXT)):
        if not number:
            yield from (f"--- {name}\n", f"+++ {new_name}\n")
        (_, start, _, new_start, _), (_, _, end, _, new_end) = group[0], group[-1]
        yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (f" {line}" for line in first[i:i_end])
            else:
                yield from (f"-{line}" for line in first[i:i_end])
                yield from (f"+{line}" for line in second[j:j_end])


def matching(first: Sequence[str], second: Sequence[str]) -> list[Block]:
    """Blocks of equal lines, in order in both texts."""
    found: list[Block] = []
    pending = [(0, len(first), 0, len(second), 0)]
    while pending:
        start, end, new_start, new_end, depth = pending.pop()
        same = _common(first, second, start, end, new_start, new_end)
        if same:
            found.append((start, new_start, same))
            start, new_start = start + same, new_start + same
        while end > start and new_end > new_start and first[end - 1] == second[new_end - 1]:
            end, new_end = end - 1, new_end - 1
            found.append((end, new_end, 1))
        if start == end or new_start == new_end:
            continue
        anchors = _anchors(first, second, start, end, new_start, new_end) if depth < DEEPEST else []
        if anchors:
            places = [*anchors, (end, new_end)]
            for (i, j), (next_i, next_j) in zip([(start, new_start), *anchors], places, strict=True):
                pending.append((i, next_i, j, next_j, depth + 1))
        elif (end - start) * (new_end - new_start) <= SHORT:
            inner = SequenceMatcher(None, first[start:end], second[new_start:new_end], autojunk=False)
            found += [(start + i, new_start + j, size) for i, j, size in inner.get_matching_blocks() if size]
    return sorted(found)


class _Matcher(SequenceMatcher[str]):
    """difflib's, which makes groups of what this module has matched."""

    def __init__(self, first: Sequence[str], second: Sequence[str]) -> None:
        super().__init__(None, (), ())
        blocks: list[Block] = []
        for i, j, size in matching(first, second):
            if blocks and (i, j) == (blocks[-1][0] + blocks[-1][2], blocks[-1][1] + blocks[-1][2]):
                blocks[-1] = (*blocks[-1][:2], blocks[-1][2] + size)
            else:
                blocks.append((i, j, size))
        self.blocks = [Match(*block) for block in [*blocks, (len(first), len(second), 0)]]

    def get_matching_blocks(self) -> list[Match]:
        """Blocks that touch are one."""
        return self.blocks


def _common(first: Sequence[str], second: Sequence[str], start: int, end: int, new_start: int, new_end: int) -> int:
    size = 0
    while start + size < end and new_start + size < new_end and first[start + size] == second[new_start + size]:
        size += 1
    return size


def _anchors(
    first: Sequence[str], second: Sequence[str], start: int, end: int, new_start: int, new_end: int
) -> list[tuple[int, int]]:
    """Lines that occur once in both pieces: a longest common subsequence of them."""
    counts, new_counts = Counter(first[start:end]), Counter(second[new_start:new_end])
    places = {second[j]: j for j in range(new_start, new_end) if new_counts[second[j]] == 1}
    pairs = [(i, places[first[i]]) for i in range(start, end) if counts[first[i]] == 1 and first[i] in places]
    # The longest increasing subsequence: `ends[n]` is the smallest end of one of n + 1 pairs.
    ends: list[int] = []
    last: list[int] = []
    before: list[int | None] = []
    for number, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        before.append(last[length - 1] if length else None)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [number]
    chosen: list[tuple[int, int]] = []
    number = last[-1] if last else None
    while number is not None:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _range(start: int, end: int) -> str:
    """As POSIX has it: the first line, counted from 1, and how many; the line before for none."""
    length = end - start
    return str(start + 1) if length == 1 else f"{start + (length > 0)},{length}"
