"""No wrong program is proved: each of many mistakes that change values, as the executor finds, is found.

With DISTIR_TEST_ALL they are 2,000.
"""

from random import Random

from program_mutations import mutants
from proof_samples import CASES, distributed, is_proved, sequential
from thorough import ALL

from distir.analysis import check
from distir.transform import verify

COUNT = 2000 if ALL else 10
"""How many mutants that check are tried. The executor runs those that are proved: others cannot have slipped."""


def test_no_wrong_program_is_proved():
    random = Random(22)
    slipped, refused, tried = [], 0, 0
    while tried < COUNT:
        case = random.choice(CASES)
        name, words, training = case
        original = sequential(name, training)
        ((kind, mutant),) = mutants(distributed(name, words, training), random, 1)
        if check(mutant).errors:
            continue
        tried += 1
        if not is_proved(mutant, original):
            refused += 1
        elif not verify(original, mutant).equal:
            slipped.append((case, kind))
    assert slipped == []
    assert refused > COUNT / 2
