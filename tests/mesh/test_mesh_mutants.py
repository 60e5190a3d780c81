"""Programs on a mesh with one change each: none checks, erases to the same program, and is wrong on some device.

Of each that checks, every copy is what its erasure computes; and of each that is proved, what the right program does.
"""

import random
from collections import Counter

import pytest
from mesh_mutations import mutants
from mesh_programs import ATTENTION, MLP, OWNERS, STAGES, STATE_IN_PARTS, TRAINING, ZIGZAG
from random_mesh_programs import random_program
from test_mesh_step import meant, placed
from test_reported_bugs import CLIPPED, EXPERTS, SEQUENCE, VOCABULARY
from thorough import ALL

from distir.analysis import check
from distir.analysis.program import read
from distir.diagnostics import ProgramError
from distir.ir.rolling import unrolled
from distir.prove import ProveError, prove
from distir.syntax import print_module
from distir.transform.mesh import erase, expand
from distir.transform.verification import VerifyError, verify

BASES = {
    "mlp": MLP.replace("B@", "4@"),
    "attention": ATTENTION,
    "training": TRAINING,
    "state in parts": STATE_IN_PARTS,
    "stages": STAGES,
    "zigzag": ZIGZAG,
    "sequence": SEQUENCE,
    "vocabulary": VOCABULARY,
    "experts": EXPERTS,
    "clipped": CLIPPED,
    "owners": OWNERS,
}

WRITTEN = [
    ("llama", "clipped", "dp=2 tp=2 zero=1"),
    ("mixtral", "accumulated", "dp=2 zero=1"),
    ("gpt2", "step", "dp=2 tp=2 sequence"),
    ("mixtral", "step", "ep=2 cp=2"),
    ("llama", "checkpointed", "dp=2 zero=3"),
    ("bert", "fp8 mx", "dp=2 zero=1"),
    ("llama", "step", "dp=2 cp=2 cp_kind=ring"),
    ("llama", "muon", "dp=2 tp=2 zero=1"),
]
"""Models, what is done before, and strategies, of which the step `mesh` writes programs."""

RANDOM = 4
"""How many random programs are changed besides."""

EACH = 170 if ALL else 17
"""How many changes of each program are tried."""


def bases():
    """By name, programs that are right."""
    for name, text in BASES.items():
        yield name, unrolled(read(text).module)
    for seed in range(RANDOM):
        yield f"random {seed}", random_program(seed)


def found(module, erased):
    """What becomes of a program: it does not check, its erasure is another, or it is right; else it is wrong."""
    if check(module).errors:
        return "refused"
    try:
        expanded = expand(module)
    except ProgramError:  # what is written on parts of several axes at once, which no rule says how to
        return "not written out"
    if wrong(erase(module), expanded, all_claimed=False):  # a state in a weight's place: no proof claims its copies
        return "WRONG: a device has another value than its type says"
    try:
        proved = prove(module, erased).proved
    except ProveError:
        return "of other parameters or results"
    if not proved:
        return "its erasure is another"
    return "WRONG: proved" if wrong(erased, expanded) else "right"


def wrong(sequential, expanded, all_claimed=True):
    """Whether a result differs on any device; with `all_claimed` also where no claim says what a copy of it is."""
    try:
        compared = verify(sequential, expanded)
    except VerifyError:  # a value is not finite in one alone, or no inputs can be made
        return False
    unclaimed = all_claimed and bool(compared.unclaimed)
    return unclaimed or any(not row.max_abs_error <= row.tolerance for row in compared.results)


@pytest.mark.parametrize(("name", "base"), [*bases()], ids=[name for name, _ in bases()])
def test_no_change_is_well_typed_and_wrong(name, base):
    tried(name, base, erase(base))


@pytest.mark.by_turns
@pytest.mark.parametrize("case", WRITTEN, ids=" ".join)
def test_no_change_of_what_a_strategy_writes_is_well_typed_and_wrong(case):
    tried(str(case), unrolled(placed(*case)), meant(*case))


def tried(name, base, erased):
    counts = Counter()
    for kind, module in mutants(base, random.Random(name), EACH):
        became = found(module, erased)
        counts[became] += 1
        assert not became.startswith("WRONG"), f"{kind}: {became}\n{print_module(module)}"
    assert counts["refused"] > EACH / 4
