"""The text of programs: `parse` reads it whatever it is, `print_module` and `format` write it."""

from distir.syntax.carrying import Carried, carried
from distir.syntax.core import Syntax
from distir.syntax.decoding import decode
from distir.syntax.formatting import format  # noqa: A004 (as in the API)
from distir.syntax.function import FunctionSyntax
from distir.syntax.parser import parse
from distir.syntax.printing import (
    print_function,
    print_literal,
    print_module,
    print_rolled,
    print_statement,
    print_type,
)
from distir.syntax.statements import Spelling, SyntaxProblem, parse_example, parse_literal, parse_type

__all__ = [
    "Carried",
    "FunctionSyntax",
    "Spelling",
    "Syntax",
    "SyntaxProblem",
    "carried",
    "decode",
    "format",
    "parse",
    "parse_example",
    "parse_literal",
    "parse_type",
    "print_function",
    "print_literal",
    "print_module",
    "print_rolled",
    "print_statement",
    "print_type",
]
