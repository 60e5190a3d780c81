"""Planted bugs: the statement that is named is the planted one, or the first that needs what it lacks.

And the reason is in terms of what the program has: shards, replicas, or microbatches.
"""

from dataclasses import replace

import pytest
from proof_samples import distributed, sequential

import distir
from distir.analysis import check
from distir.ir import Apply, Attributes, Call, Literal, Module, Return
from distir.models.perceptron import mlp
from distir.prove import prove
from distir.prove.proving import follow, reference
from distir.transform import transform


def planted(module, function, change):
    """A program of which a function's body is another one."""
    found = module.functions[function]
    return Module([replace(f, body=tuple(change(list(f.body)))) if f is found else f for f in module])


def using(statements, names):
    """Statements with other operands, by name."""
    return [
        replace(s, args=tuple(names.get(a, a) if isinstance(a, str) else a for a in s.args))
        if isinstance(s, (Apply, Call, Return))
        else s
        for s in statements
    ]


def place(body, result):
    return next(i for i, s in enumerate(body) if isinstance(s, Apply) and result in s.results)


def unused(result, of=slice(None)):
    """What a collective gives, or some of it, is not used: its operands are."""

    def change(body):
        at = place(body, result)
        names = dict(list(zip(body[at].results, body[at].args, strict=True))[of])
        return [*body[: at + 1], *using(body[at + 1 :], names)]

    return change


def twice(result):
    """What was summed is summed again."""

    def change(body):
        at = place(body, result)
        once = tuple(f"{name}.once" for name in body[at].results)
        return [*body[:at], replace(body[at], results=once), replace(body[at], args=once), *body[at + 1 :]]

    return change


def halved(result):
    """What was summed is divided by the number of shards."""

    def change(body):
        at = place(body, result)
        whole = tuple(f"{name}.whole" for name in body[at].results)
        halves = [Apply((r,), "Mul", (w, Literal(0.5))) for r, w in zip(body[at].results, whole, strict=True)]
        return [*body[:at], replace(body[at], results=whole), *halves, *body[at + 1 :]]

    return change


def bias_before(result):
    """Each shard adds the bias before the sum."""

    def change(body):
        at = place(body, result)
        total = body[at]
        added = {s.args[0]: s for s in body if isinstance(s, Apply) and s.op == "Add" and s.args[0] in total.results}
        biased = tuple(f"{name}.biased" for name in total.args)
        adds = [
            Apply((b,), "Add", (x, added[r].args[1])) for b, x, r in zip(biased, total.args, total.results, strict=True)
        ]
        rest = [
            Apply(s.results, "Identity", s.args[:1]) if any(s is a for a in added.values()) else s
            for s in body[at + 1 :]
        ]
        return [*body[:at], *adds, replace(total, args=biased), *rest]

    return change


def given(result, *args):
    """A statement has other operands; None: its own."""

    def change(body):
        at = place(body, result)
        new = [own if other is None else other for own, other in zip(body[at].args, args, strict=True)]
        return [*body[:at], replace(body[at], args=tuple(new)), *body[at + 1 :]]

    return change


def written(result, **changes):
    """A statement with other attributes or operands."""

    def change(body):
        at = place(body, result)
        return [*body[:at], replace(body[at], **changes), *body[at + 1 :]]

    return change


def turned(result):
    """A collective has its devices in the opposite order."""

    def change(body):
        at = place(body, result)
        s = body[at]
        return [*body[:at], replace(s, args=s.args[::-1], results=s.results[::-1]), *body[at + 1 :]]

    return change


def without_last(result):
    """A statement is not given its last operand."""

    def change(body):
        at = place(body, result)
        return [*body[:at], replace(body[at], args=body[at].args[:-1]), *body[at + 1 :]]

    return change


def groups_swapped(result, other):
    """Two collectives have half of each other's devices."""

    def change(body):
        first, second = (body[place(body, name)] for name in (result, other))
        crossed = [
            replace(s, args=(s.args[0], t.args[1]), results=(s.results[0], t.results[1]))
            for s, t in ((first, second), (second, first))
        ]
        at, then = place(body, result), place(body, other)
        return [*body[:at], *body[at + 1 : then], *crossed, *body[then + 1 :]]

    return change


MISSING = "and `{}` needs the sum: an all-reduce is missing"

BUGS = {
    "a sum over a vocabulary": (
        *("gpt2", "tp=2", "main", unused("sum_1"), "log_1"),
        "`%reducesum_1_1` is a partial sum over 2 shards, " + MISSING.format("Log"),
        "`%sum_1` is this sum, and nothing uses it",
    ),
    "of an embedding, which a layer is given": (
        *("gpt2", "tp=2", "main", unused("embedded_sum_1"), "normal_1_1"),
        "`%x_1` is a partial sum over 2 shards, " + MISSING.format("LayerNormalization"),
        "`%embedded_sum_1` is this sum, and nothing uses it",
    ),
    "of a product, in one of two shards": (
        *("gpt2", "tp=2", "layer", unused("mixed_product_sum_1", slice(1)), "normal_2_1"),
        "`%attended_1` is a partial sum over 2 shards, " + MISSING.format("LayerNormalization"),
        "`%mixed_product_sum_1` is this sum, and nothing uses it",
    ),
    "of a norm's gradient, with sequence parallelism": (
        *("gpt2", "tp=2 sequence=true", "main", unused("dln_f.weight_sum_1"), "ln_f.weight_new_1"),
        "`%dln_f.weight_1` is a partial sum over 2 shards, " + MISSING.format("SGD"),
        "`%dln_f.weight_sum_1` is this sum, and nothing uses it",
    ),
    "of a gradient, over replicas": (
        *("gpt2", "dp=2", "main", unused("dln_f.bias_sum_1"), "ln_f.bias_new_1"),
        "`%dln_f.bias_1` is a partial sum over 2 replicas, " + MISSING.format("SGD"),
        "`%dln_f.bias_sum_1` is this sum, and nothing uses it",
    ),
    "of a gradient, of replicas with microbatches": (
        *("gpt2", "dtp=2,2,2 microbatches=2", "main", unused("dh.1.ln_2.weight_1_sum_1"), "h.1.ln_2.weight_new_1_1"),
        "a partial sum over 2 replicas, " + MISSING.format("SGD"),
        "`%dh.1.ln_2.weight_1_sum_1` is this sum, and nothing uses it",
    ),
    "of a loss": (
        *("llama", "dp=2", "main", unused("mean_loss_sum_1"), None),
        "expected `%mean_loss`, found a partial sum of ",
        " over 2 replicas: an all-reduce is missing",
        "`%mean_loss_sum_1` is this sum, and nothing uses it",
    ),
    "a bias before the sum, which the next layer takes": (
        *("gpt2", "tp=2", "layer", bias_before("changed_product_sum_1"), "changed_product_sum_1"),
        "`%changed_product_sum_1` counts `%h.0.mlp.c_proj.bias` 2 times, and it is due once: "
        "each of 2 devices has it before the sum",
    ),
    "a bias before the sum, which the same layer takes": (
        *("gpt2", "tp=2", "layer", bias_before("mixed_product_sum_1"), "normal_2_1"),
        "`%mixed_product_sum_1` counts `%h.0.attn.c_proj.bias` 2 times, and it is due once: "
        "each of 2 devices has it before the sum",
    ),
    "a gradient, divided by the shards": (
        *("gpt2", "tp=2", "layerGrad", halved("dnormal_1_sum_1"), "dx_1_1"),
        "`LayerNormalizationGrad` is given 0.5 times `%dnormal_1`",
        "`%dnormal_1_sum_1` is summed over 2 devices and divided by 2",
    ),
    "a product, summed twice": (
        *("gpt2", "tp=2", "layer", twice("changed_product_sum_1"), "changed_product_sum_1"),
        "`%changed_product_sum_1` counts `%changed_product` 2 times, and it is due once",
    ),
    "another operand": (
        *("gpt2", "dp=2", "layerGrad", given("dcausal", "shares", None), "dcausal"),
        "`SoftmaxGrad` is given `%shares`, where the sequential program gives it `%dshares`",
    ),
    "a residual of another value": (
        *("gpt2", "tp=2", "layer", given("y_1", None, "ln_1.weight_1"), "y_1"),
        "`%y_1` is the sum of",
        "and `%y` is due",
    ),
    "shards of another replica": (
        *("llama", "dtp=2,2,1", "main", groups_swapped("embedded_sum_1_1", "embedded_sum_1_2"), "embedded_sum_1_1"),
        "of dimension 0, one operand has the places",
    ),
    "parts gathered in another order": (
        *("llama", "tp=2 sequence=true", "main", turned("norm_whole_1"), "norm_whole_1"),
        "`%norm_whole_1` has places in another order than the whole value",
    ),
    "another attribute": (
        *("mlp", "dp=2", "main", written("w2_new_2", attrs=Attributes({"beta2": 0.95})), "w2_new_2"),
        "`Adam` has `beta2 = 0.95`, and in the sequential program `beta2 = 0.999`",
    ),
    "an operand left out": (
        *("llama", "dp=2", "main", without_last("model.norm.weight_new_2"), "model.norm.weight_new_2"),
        "`Adam` is not given `%gradient_factor`, which the sequential program gives it",
    ),
    "weights from before the step": (
        *("gpt2", "tp=2", "main", lambda body: using(body, {"h.0.mlp.c_fc.bias_new_1": "h.0.mlp.c_fc.bias_1"}), None),
        "found rows 0–15 of `%h.0.mlp.c_fc.bias`, then rows 16–31 of `%h.0.mlp.c_fc.bias_new`",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_what_is_named(bug):
    name, words, function, change, named, *said = BUGS[bug]
    module = planted(distributed(name, words, training=True), function, change)
    assert not check(module).errors
    first, *_ = prove(module, sequential(name, training=True)).diagnostics(module)
    notes = "\n".join((first.message, *(note.message for note in first.notes)))
    assert all(words in notes for words in said), notes
    assert "microbatch" not in notes
    sites = [first.site, *(note.site for note in first.notes if note.site)]
    statements = [module.functions[s.function].body[s.index] for s in sites]
    results = [statement.results for statement in statements if not isinstance(statement, Return)]
    assert named is None or any(named in own for own in results), results


def test_the_op_in_the_place_of_another_is_the_one_that_is_due():
    """Weights in 16 bits are those of the master copy from before the step: of many casts, that of `w1` is due."""
    one_device = transform(mlp(2, 8, 8, "Float32"), "grad", "optimizer=adam", "precision=fp16")
    module = transform(one_device, "dp=2")
    module = planted(module, "main", given("w1_new_2", None, "w1.master_2"))
    (found,) = prove(module, one_device).diagnostics(module)
    due = "where the sequential program gives it `%w1.master_new`"
    assert found.message == f"not proved: `Cast` is given `%w1.master`, {due}"
    assert module.functions["main"].body[found.site.index].results == ("w1_new_2",)


def test_a_value_that_gather_passes_on_is_marked_where_it_is_returned():
    module = planted(distributed("mlp", "dp=2", training=True), "main", written("step_new", args=("step", Literal(0))))
    (found,) = prove(module, sequential("mlp", training=True)).diagnostics(module)
    assert found.message == "not proved: expected `%step_new`, found `%step`"
    assert found.site.function == "main"
    assert module.entry().returned[found.site.part.key] == "step_new"


RIGHT = [
    ("llama", "tp=2 cp=2 cp_kind=ring"),
    ("experts", "dtp=2,2,1 experts=2"),
]


@pytest.mark.parametrize(("name", "words"), RIGHT)
def test_nothing_of_a_right_program_contradicts_the_sequential_one(name, words):
    against = reference(sequential(name, training=True), renames=False)
    assert follow(distributed(name, words, training=True), against).proof.proved
    assert [atom for atom in against.algebra.terms if against.words.contradicts(atom)] == []


def test_a_factor_that_is_nearly_one_is_told_from_one():
    text = "func @main(%x: Tensor[Float32, (4,), 1]) {{\n  %a = Mul(%x, {})\n  %y = Relu(%a)\n  return %y\n}}\n"
    given, due = (distir.parse(text.format(factor)) for factor in ("1.0000001", "1.0"))
    (failure,) = prove(given, due).failures
    assert "given 1.0000001 times `%x`" in failure.reason
