"""What frameworks do in a training step that no step of `distir transform` does: one function each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from distir.ir import DTYPES, Apply, Arg, Attributes, Constant, Function, Module, Return, Statement
from distir.ir.builder import namer
from distir.ir.roles import is_held
from distir.transform.entry import entry_of
from distir.transform.operands import with_operands


def with_metrics(module: Module, count: int) -> Module:
    """The training step with `count` cross entropies of the logits in Float32 besides, computed behind its gradients.

    As metrics of what is trained on are, which are updated with each microbatch. Behind the step's other results.
    """
    entry = entry_of(module)
    made = {name: s for s in entry.body if isinstance(s, Apply) for name in s.results}
    given = {p.name for p in entry.params if not is_held(p)}
    embedded = [s for s in made.values() if s.op == "GatherGrad" and s.args[1] in given]
    logits, labels = _logits_and_labels(made)
    builder = namer(entry)
    body: list[Statement] = []

    def put(op: str, *args: Arg, **attrs: Constant) -> str:
        name = builder.fresh("metric")
        body.append(Apply((name,), op, args, Attributes(attrs)))
        return name

    later = put("After", logits, *(s.args[0] for s in embedded))
    found: list[str] = []
    for _ in range(count):
        rows = put("Flatten", put("Cast", later, to=DTYPES["Float32"]), axis=2)
        found.append(put("NegativeLogLikelihoodLoss", put("LogSoftmax", rows, axis=1), labels, reduction="sum"))
    *others, end = entry.body
    assert isinstance(end, Return)
    changed = replace(entry, body=(*others, *body, Return((*end.args, *found))), result_types=None)
    return Module(changed if f.name == entry.name else f for f in module)


def with_logits_again(module: Module) -> Module:
    """The training step whose backward pass begins by computing the logits again, as it does the results of layers.

    Where the output layer is recomputed, too, its product is done once more, when the gradient of its result is there.
    """
    entry = entry_of(module)
    made = {name: s for s in entry.body if isinstance(s, Apply) for name in s.results}
    product = made[str(_logits_and_labels(made)[0])]
    (gradient,) = next(s for s in made.values() if s.op == "SoftmaxCrossEntropyLossGrad").results
    while True:
        users = [s for s in made.values() if gradient in s.args]
        if len(users) != 1 or users[0].op not in ("Cast", "Reshape"):
            break
        (gradient,) = users[0].results
    builder = namer(entry)
    again, ready = (builder.fresh(f"{name}.again") for name in (product.results[0], gradient))
    body: list[Statement] = []
    instead: dict[str, str] = {}
    for statement in entry.body:
        body.append(with_operands(statement, instead))
        if isinstance(statement, Apply) and gradient in statement.results:
            body.append(replace(product, results=(again,)))
            body.append(Apply((ready,), "After", (gradient, again), Attributes({})))
            instead[gradient] = ready
    changed = replace(entry, body=tuple(body))
    return Module(changed if f.name == entry.name else f for f in module)


def _logits_and_labels(made: Mapping[str, Apply]) -> tuple[Arg, Arg]:
    """The operands of the loss, the logits as the output layer gives them. `made`: by value, what makes it."""
    loss = next(s for s in made.values() if s.op == "SoftmaxCrossEntropyLoss")
    logits, labels = loss.args[0], loss.args[1]
    while isinstance(logits, str) and made[logits].op in ("Cast", "Flatten"):
        logits = made[logits].args[0]
    return logits, labels


def with_exact_softmax(module: Module) -> Module:
    """The module whose attention, written out, masks in Float32 and takes the softmax of that.

    As frameworks do without a kernel for it: NVIDIA/Megatron-LM, megatron/model/fused_softmax.py,
    `forward_torch_softmax` with `softmax_in_fp32`; huggingface/transformers, `softmax(…, dtype=torch.float32)`.
    """
    return Module(_exact(function) for function in module)


def _exact(function: Function) -> Function:
    made = {s.results[0]: s for s in function.body if isinstance(s, Apply) and s.op == "Where"}
    masked = {s.args[0]: s for s in function.body if isinstance(s, Apply) and s.op == "Softmax" and s.args[0] in made}
    builder = namer(function)
    body: list[Statement] = []
    for statement in function.body:
        if isinstance(statement, Apply) and statement.results and statement.results[0] in masked:
            seen, scores, least = statement.args
            exact = builder.fresh(f"{scores}.exact")
            body.append(Apply((exact,), "Cast", (scores,), Attributes({"to": DTYPES["Float32"]})))
            body.append(replace(statement, args=(seen, exact, least)))
        elif statement in masked.values():
            assert isinstance(statement, Apply)
            exact = builder.fresh(f"{statement.results[0]}.exact")
            body.append(replace(statement, results=(exact,)))
            body.append(Apply(statement.results, "Cast", (exact,), Attributes({"to": DTYPES["BFloat16"]})))
        else:
            body.append(statement)
    return replace(function, body=tuple(body))
