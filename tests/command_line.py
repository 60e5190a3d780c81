"""The command line, called in the process of the tests."""

import io
import sys
from dataclasses import dataclass

import pytest

from distir.cli import main


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


@pytest.fixture
def distir(capsysbinary, monkeypatch):
    """Calls the command line in this process: `distir("check", path, stdin=b"...")` gives an `Ended`."""

    def call(*words, stdin=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(word) for word in words])
        out, err = capsysbinary.readouterr()
        return Ended(code, out.decode(), err.decode())

    return call
