"""An hour at the keyboard: keys, line by line, with what an editor asks meanwhile; memory must not grow.

A key a second for an hour is 3,600 edits. `DISTIR_TEST_ALL=1`: three such hours, and every key is waited for.
"""

import random

from server_session import Session
from thorough import ALL

KEYS = 10_800 if ALL else 3_600
WARM = KEYS // 4
GROWTH = 8_000_000
"""Bytes. A version of the text below with its analysis and simulation takes about a tenth of that."""

URI = "file:///nowhere/hour.dir"
STATEMENTS = 200


def program():
    lines = ["func @main(%a: Tensor[Float32, (8, 8), 1], %b: Tensor[Float32, (8, 8), 2]) {"]
    now = {1: "%a", 2: "%b"}
    for i in range(STATEMENTS):
        device = i % 2 + 1
        op = "Relu" if i % 3 else "MatMul"
        lines.append(f"  %v{i} = {op}({now[device]}{'' if op == 'Relu' else ', ' + now[device]})")
        now[device] = f"%v{i}"
    return [*lines, f"  return {now[1]}, {now[2]}", "}"]


def keys(dice, lines):
    """Keys without end, as edits: statements are typed and taken back, constants changed, lines cut and put back."""
    while True:
        at = dice.randrange(2, STATEMENTS)
        value = lines[at].split()[0]
        match dice.randrange(4):
            case 0:  # typed key by key, with a slip, and taken back
                typed = f"  %t{dice.randrange(10**6)} = Exp({value})"
                yield at + 1, 0, at + 1, 0, "\n"
                for column, key in enumerate(typed):
                    yield at + 1, column, at + 1, column, key
                yield at + 1, len(typed) - 1, at + 1, len(typed), ""
                yield at + 1, len(typed) - 1, at + 1, len(typed) - 1, ")"
                yield at + 1, 0, at + 2, 0, ""
            case 1:  # another op, and back
                column = lines[at].index("= ") + 2
                end = lines[at].index("(")
                for name in ("Softmax", "Nothing", lines[at][column:end]):
                    yield at, column, at, end, name
                    end = column + len(name)
            case 2:  # a line cut, which others need, and put back
                yield at, 0, at + 1, 0, ""
                yield at, 0, at, 0, lines[at] + "\n"
            case _:  # a comment behind it
                for column, key in enumerate(f" // {dice.random()}", len(lines[at])):
                    yield at, column, at, column, key
                yield at, len(lines[at]), at, column + 1, ""


def ask(session, dice):
    """What editors ask as the cursor moves."""
    line = dice.randrange(1, STATEMENTS)
    document = {"textDocument": {"uri": URI}}
    span = {"start": {"line": line, "character": 0}, "end": {"line": line + 40, "character": 0}}
    session.ask("textDocument/hover", {**document, "position": {"line": line, "character": 4}})
    session.ask("textDocument/inlayHint", {**document, "range": span})
    session.ask("textDocument/semanticTokens/full", document)
    session.ask("textDocument/codeAction", {**document, "range": span, "context": {"diagnostics": []}})
    session.ask("textDocument/documentSymbol", document)


def test_an_hour_of_keys_takes_no_more_memory():
    dice, lines = random.Random(1), program()
    with Session() as session:
        session.open(URI, "\n".join([*lines, ""]))
        session.diagnostics(URI)
        before = None
        for number, key in zip(range(KEYS), keys(dice, lines), strict=False):
            session.change(URI, key)
            if ALL or number % 12 == 11:
                session.diagnostics(URI)
                session.kept.clear()
            if number % 120 == 119:
                ask(session, dice)
            if number == WARM:
                before = session.resident()
        assert before is not None
        assert session.resident() - before < GROWTH
