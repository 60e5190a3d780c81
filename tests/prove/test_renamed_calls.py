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


@pytest.mark.by_turns
@pytest.mark.parametrize("name", MODELS)
def test_what_is_proved_is_proved_of_formals(name):
    """Nothing has to be looked for in the calls themselves: then large programs would take long."""
    every = 1 if ALL else 3
    for _, words, training in [case for case in CASES if case[0] == name][::every]:
        reference = proving.reference(sequential(name, training))
        assert proving.follow(distributed(name, words, training), reference).proof.failures == (), words


@pytest.mark.parametrize(
    ("few", "many"),
    [
        ("pp=2 microbatches=4", "pp=2 microbatches=16"),
        ("dtp=2,1,2 microbatches=4", "dtp=8,1,2 microbatches=4"),
        ("dtp=1,2,2 microbatches=2 schedule=1f1b", "dtp=4,2,2 microbatches=4 schedule=1f1b"),
    ],
)
def test_microbatches_and_replicas_are_interpreted_once(few, many, monkeypatch):
    """Their calls differ in rows, in devices, and in which microbatches were added up: none of it costs again."""
    step = transform(gpt2(2, 8, 2, 4, 96, vocabulary=16, dtype="Float32"), "grad", "loss=cross_entropy")
    less, more = (transform(step, *words.split()) for words in (few, many))
    statements = [sum(len(f.body) for f in module if f.name.startswith("main")) for module in (less, more)]
    counts = [interpreted(module, step, monkeypatch) for module in (less, more)]
    assert counts[1] - counts[0] <= statements[1] - statements[0]
