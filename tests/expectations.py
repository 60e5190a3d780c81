"""What a text says about its own diagnostics and types, in comments at the ends of lines.

`// error: DIR301` and `// warning: DIR901` name a diagnostic that begins on this line; words behind the number must
occur in its message. `// type: %x Tensor[Float32, (2,), 1]` states the type found for a value of the function that
the line is in. Several may stand on one line, one behind the other.
"""

import re
from collections import Counter
from dataclasses import dataclass

from distir.analysis.program import read
from distir.ops import type_of

EXPECTATION = re.compile(r"//\s*(error|warning|type):\s*(.*?)\s*(?=//|$)")


@dataclass(frozen=True)
class Expected:
    line: int
    severity: str
    code: str
    words: str


def expected_diagnostics(text):
    for number, line in enumerate(text.split("\n"), 1):
        for kind, rest in EXPECTATION.findall(line):
            if kind != "type":
                code, _, words = rest.partition(" ")
                yield Expected(number, kind, code, words.strip())


def expected_types(text):
    """Function, value and type as written."""
    function = None
    for line in text.split("\n"):
        if head := re.match(r"\s*func @([\w.-]+)", line):
            function = head.group(1)
        for kind, rest in EXPECTATION.findall(line):
            if kind == "type":
                name, _, stated = rest.partition(" ")
                yield function, name.removeprefix("%"), stated.strip()


def surprises(text, more=None):
    """Where what is expected and what is found differ, as lines for people; nothing if all is well.

    `more`: from the program to diagnostics beside the checker's.
    """
    program = read(text)
    found = [
        (program.source.position(d.site.start)[0], d.severity.value, d.code.number, d.message)
        for d in [*program.diagnostics, *(more(program) if more else ())]
    ]
    missing = list(expected_diagnostics(text))
    for line, severity, code, message in found:
        fits = [e for e in missing if (e.line, e.severity, e.code) == (line, severity, code) and e.words in message]
        if fits:
            missing.remove(max(fits, key=lambda e: len(e.words)))
        else:
            yield f"line {line}: unexpected {severity} {code}: {message}"
    for e in missing:
        near = [message for line, _, code, message in found if line == e.line and code == e.code]
        yield f"line {e.line}: missing {e.severity} {e.code} {e.words}".rstrip() + (f"; found {near}" if near else "")
    for function, name, stated in expected_types(text):
        state = program.analysis.states[function]
        actual = str(type_of(state[name])) if name in state else "nothing"
        if actual != stated:
            yield f"@{function}: expected %{name} {stated}, found {actual}"


def codes_in(text):
    return Counter(e.code for e in expected_diagnostics(text))
