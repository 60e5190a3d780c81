"""Calls that differ in the terms of their operands alone are interpreted once, and give what they give one by one."""

import pytest
from proof_samples import CASES, MODELS, distributed, sequential
from thorough import ALL

from distir.models.transformer import gpt2
from distir.prove import proving
from distir.prove.domain import Relations
from distir.transform import transform


def interpreted(module, original, monkeypatch):
    """How many ops were applied to prove a program."""
    count = 0
    of_op = Relations.of_op

    def counted(*given):
        nonlocal count
        count += 1
        return of_op(*given)

    monkeypatch.setattr(Relations, "of_op", counted)
    assert proving.prove(module, original).proved
    monkeypatch.undo()
    return count


def test_layers_are_interpreted_once(monkeypatch):
    def made(layers):
        model = gpt2(layers, 8, 2, 4, 4, vocabulary=16, dtype="Float32")
        step = transform(model, "grad", "loss=cross_entropy")
        return transform(step, "tp=2"), step

    few, many = (interpreted(*made(layers), monkeypatch) for layers in (2, 12))
    main = sum(len(f.body) for f in made(12)[0] if f.name.startswith("main"))
    assert many - few < main


@pytest.mark.parametrize("name", MODELS)
def test_what_is_proved_is_proved_of_formals(name):
    """Nothing has to be looked for in the calls themselves: then large programs would take long."""
    every = 1 if ALL else 3
    for _, words, training in [case for case in CASES if case[0] == name][::every]:
        reference = proving.reference(sequential(name, training))
        assert proving.follow(distributed(name, words, training), reference).proof.failures == (), words
