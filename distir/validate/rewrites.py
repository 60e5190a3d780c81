"""What frameworks do in a training step that no step of `distir transform` does: one function each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from distir.ir import (
    DISCARD,
    DTYPES,
    NO_FACTS,
    Apply,
    Arg,
    Attributes,
    Constant,
    Function,
    Literal,
    Module,
    Statement,
    names,
    ops_in,
)
from distir.ir.dataflow import definitions
from distir.ir.rewrite import Rewriter
from distir.ir.roles import is_held
from distir.transform.entry import entry_of


def with_metrics(module: Module, count: int) -> Module:
    """The training step with `count` cross entropies of the logits in Float32 besides, computed behind its gradients.

    As metrics of what is trained on are, which are updated with each microbatch. Behind the step's other results.
    """
    entry = entry_of(module)
    made = {name: s for s in ops_in(entry) for name in s.results}
    given = {p.name for p in entry.params if not is_held(p)}
    embedded = [s for s in made.values() if s.op == "GatherGrad" and s.args[1] in given]
    logits, labels = _logits_and_labels(made)
    edit = Rewriter(entry)

    def put(op: str, *args: Arg, **attrs: Constant) -> str:
        return edit.builder.apply(op, *args, results=("metric",), **attrs)[0]

    later = put("After", logits, *(s.args[0] for s in embedded))
    found: list[str] = []
    for _ in range(count):
        rows = put("Flatten", put("Cast", later, to=DTYPES["Float32"]), axis=2)
        found.append(put("NegativeLogLikelihoodLoss", put("LogSoftmax", rows, axis=1), labels, reduction="sum"))
    edit.before(edit.end, *edit.written())
    edit.returns((*entry.returned, *found))
    return module.replacing(edit.done(result_types=None))


def with_logits_again(module: Module) -> Module:
    """The training step whose backward pass begins by computing the logits again, as it does the results of layers.

    Where the output layer is recomputed, too, its product is done once more, when the gradient of its result is there.
    """
    entry = entry_of(module)
    made = {name: s for s in ops_in(entry) for name in s.results}
    product = made[str(_logits_and_labels(made)[0])]
    while product.op == "Reshape":  # of a tied embedding's product, whose rows are those of all sequences
        product = made[str(product.args[0])]
    (gradient,) = next(s for s in made.values() if s.op == "SoftmaxCrossEntropyLossGrad").results
    while True:
        users = [s for s in made.values() if gradient in s.args]
        if len(users) != 1 or users[0].op not in ("Cast", "Reshape"):
            break
        (gradient,) = users[0].results
    edit = Rewriter(entry)
    again, ready = (edit.fresh(f"{name}.again") for name in (product.results[0], gradient))
    edit.rename({gradient: ready})
    wait = Apply((ready,), "After", (gradient, again))
    edit.behind(definitions(entry)[gradient], replace(product, results=(again,)), wait, facts=NO_FACTS)
    return module.replacing(edit.done())


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
    made = {s.results[0] for s in ops_in(function, "Where")}
    masked = {s.args[0]: s for s in ops_in(function, "Softmax") if s.args[0] in made}
    edit = Rewriter(function)
    for number, statement in edit:
        if isinstance(statement, Apply) and statement.results and statement.results[0] in masked:
            seen, scores, least = statement.args
            (exact,) = edit.builder.apply("Cast", scores, results=(f"{scores}.exact",), to=DTYPES["Float32"])
            _write(edit, number, *edit.written(), replace(statement, args=(seen, exact, least)))
        elif statement in masked.values():
            assert isinstance(statement, Apply)
            exact = edit.fresh(f"{statement.results[0]}.exact")
            cast = Apply(statement.results, "Cast", (exact,), Attributes({"to": DTYPES["BFloat16"]}))
            _write(edit, number, replace(statement, results=(exact,)), cast)
    return edit.done()


def _write(edit: Rewriter, number: int, *statements: Statement) -> None:
    """Write statements in place of one, with the facts that they state themselves."""
    edit.behind(number, *statements, facts=NO_FACTS)
    edit.erase(number)


SCATTERS: Final = ("MPIReduceScatter", "GroupReduceScatter")
"""The ops that sum gradients to parts."""

MOVES: Final = ("MPIAlltoall", "GroupAlltoall", "Permute", "Unpermute")
"""The ops that bring rows to experts and their results back."""


def with_bias_apart(module: Module) -> Module:
    """The module that adds the biases of experts' last products in Float32, by kernels of their own.

    As NVIDIA/Megatron-LM, core/transformer/moe/experts.py, `_apply_bias`, does: each bias times the weights of its rows
    is written in Float32, added to the rows, the sums are copied into one tensor and cast to the rows' type. That is 28
    bytes for each element, and here, too: what is copied there is cast apart from the sum here. Backward it is 40: the
    gradient of a bias is the sum of rows in Float32 times their weights (which rows have here already), that of weights
    the sum of each row times the bias; and what rows are given, expert by expert, is copied into one tensor.
    """
    return Module(_with_bias_apart(function) for function in module)


def _with_bias_apart(function: Function) -> Function:
    ops = [*ops_in(function)]
    made = {name: s for s in ops for name in s.results}
    used = {name: s for s in reversed(ops) for name in names(s.args)}
    edit = Rewriter(function)

    def put(op: str, *args: Arg, **attrs: Constant) -> str:
        return edit.builder.apply(op, *args, results=(f"{op.lower()}_of_bias",), **attrs)[0]

    def widened(name: Arg) -> str:
        """A copy in Float32, in memory: what follows is another kernel."""
        wide = put("Cast", name, to=DTYPES["Float32"])
        return put("After", wide, wide)

    def is_made_by(name: Arg, ops: tuple[str, ...]) -> bool:
        return isinstance(name, str) and name in made and made[name].op in ops

    for number, statement in edit:
        body = edit.builder.body
        if not isinstance(statement, Apply) or len(statement.results) != 1:
            continue
        (result,) = statement.results
        moved = result in used and used[result].op in MOVES
        if statement.op == "Add" and is_made_by(statement.args[1], ("RaggedExpand",)) and moved:
            product, bias = statement.args[0], made[str(statement.args[1])]
            wide, each = put("Cast", bias.args[0], to=DTYPES["Float32"]), edit.fresh("weighed_bias")
            body.append(replace(bias, results=(each,), args=(wide, *bias.args[1:])))
            total = put("Add", widened(product), each)
            body.append(Apply((result,), "CastLike", (put("After", total, total), product)))
            _write(edit, number, *edit.written())
        elif statement.op == "RaggedSum" and is_made_by(statement.args[0], MOVES):
            rows, *others = statement.args
            wide, total = widened(rows), edit.fresh("sum_of_bias")
            weighed = put("Mul", wide, Literal(1.0))
            body.append(replace(statement, results=(total,), args=(put("After", weighed, weighed), *others)))
            body.append(Apply((result,), "CastLike", (total, rows)))
            by_bias = put("Mul", wide, Literal(1.0))
            weights = put("ReduceSum", put("After", by_bias, by_bias), Literal((-1,)), keepdims=False)
            narrow = put("CastLike", wide, rows)
            copied = put("Mul", put("After", narrow, narrow, weights), Literal(1.0))
            instead = {str(rows): put("After", copied, copied)}
            _write(edit, number, *edit.written())
            edit.rename(instead, [user for user in edit.users(str(rows)) if number < user < len(function.body)])
    for number, statement in edit:
        if isinstance(statement, Apply) and statement.op == "RaggedExpand" and not edit.users(statement.results[0]):
            edit.erase(number)
    return edit.done()


def with_clamps_apart(module: Module) -> Module:
    """The module whose experts' gates are clamped by kernels of their own, and joined again.

    As NVIDIA/Megatron-LM, core/fusions/fused_bias_geglu.py, `weighted_bias_quick_geglu_impl`, does before its fused
    kernel: both halves of the first product are clamped, and concatenated. Then the host copies a number to the device
    (`torch.tensor`), and waits for all before. Backward, gradients of both are masked, and concatenated.
    """
    return Module(_with_clamps_apart(function) for function in module)


def _with_clamps_apart(function: Function) -> Function:
    made = {name: s for s in ops_in(function) for name in s.results}
    edit = Rewriter(function)

    def put(op: str, *args: Arg) -> str:
        return edit.builder.apply(op, *args, results=(f"{op.lower()}_of_clamp",))[0]

    def in_memory(name: Arg) -> str:
        return put("After", name, name)

    def is_clamped(statement: Statement) -> bool:
        """Whether it clamps, or masks a gradient where a value was clamped."""
        if not isinstance(statement, Apply) or statement.op not in ("Clip", "Where"):
            return False
        seen = made.get(str(statement.args[0]))
        return statement.op == "Clip" or (seen is not None and seen.op in ("And", "LessOrEqual", "GreaterOrEqual"))

    last = max((i for i, s in enumerate(function.body) if isinstance(s, Apply) and s.op == "Clip"), default=0)
    for number, statement in edit:
        if not isinstance(statement, Apply) or not is_clamped(statement):
            continue
        (result,), at = statement.results, 0 if statement.op == "Clip" else 1
        args = list(statement.args)
        args[at] = in_memory(args[at])
        each = edit.fresh(f"{result}_apart")
        edit.builder.body.append(replace(statement, results=(each,), args=tuple(args)))
        joined = put("Mul", in_memory(each), Literal(1.0))
        awaited = Attributes({"blocking": True} if statement.op == "Clip" and number == last else {})
        _write(edit, number, *edit.written(), Apply((result,), "After", (joined, joined), awaited))
    return edit.done()


def with_sorted_rows(module: Module) -> Module:
    """The module that copies rows behind an all-to-all that brings them to experts, and before the one back.

    In a program of a representative, whose all-to-alls state the size of their group.

    As NVIDIA/Megatron-LM, core/transformer/moe/token_dispatcher.py, `MoEAlltoAllTokenDispatcher`, does with several
    experts on a device: rows come by device, and are sorted by expert (`sort_chunks_by_idxs`). Products of ours take
    them as they come; here a copy of them has their order.
    """
    return Module(_with_sorted_rows(function) for function in module)


def _with_sorted_rows(function: Function) -> Function:
    counts = {s.results[1] for s in ops_in(function, "Dispatch")}
    edit = Rewriter(function)

    def copied(name: Arg, result: str) -> list[Statement]:
        made = edit.fresh("copy")
        return [Apply((made,), "Mul", (name, Literal(1.0))), Apply((result,), "After", (made, made))]

    for number, statement in edit:
        if not isinstance(statement, Apply) or statement.op != "GroupAlltoall" or statement.args[0] in counts:
            continue
        if statement.attrs.get("concat_axis") == 0:
            (result,), come = statement.results, edit.fresh("come")
            _write(edit, number, replace(statement, results=(come,)), *copied(come, result))
        else:
            going = edit.fresh("going")
            _write(edit, number, *copied(statement.args[0], going), replace(statement, args=(going,)))
    return edit.done()


def with_gathered_routes(module: Module) -> Module:
    """The module that gathers which experts all tokens of a group go to, before it exchanges how many each has.

    In a program of a representative. As deepseek-ai/DeepEP, branch hybrid-ep, csrc/hybrid_ep/executor,
    `allgather_routing_map`, does: a byte for each token and each expert, from every device, once in a layer's forward
    pass (the backward pass has the same handle). Its kernel that counts them is the exchange of counts here.
    """
    return Module(_with_gathered_routes(function) for function in module)


def _with_gathered_routes(function: Function) -> Function:
    routes = {s.results[1]: s for s in ops_in(function, "Route")}
    counted = {s.results[1]: str(s.args[0]) for s in ops_in(function, "Dispatch")}
    edit = Rewriter(function)
    for number, statement in edit:
        exchanged = statement.args[0] if isinstance(statement, Apply) and statement.op == "GroupAlltoall" else ""
        route = routes.get(counted.get(exchanged, "")) if isinstance(exchanged, str) else None
        if isinstance(statement, Apply) and route is not None:
            scores, chosen = route.args[0], route.results[1]
            f, group = edit.builder, {name: statement.attrs[name] for name in ("size", "stride")}
            (none,) = f.apply("Less", scores, scores, results=("none",))
            (some,) = f.apply("Equal", chosen, chosen, results=("some",))
            (taken,) = f.apply("ScatterElements", none, chosen, some, results=("taken",), axis=-1)
            f.apply("GroupAllgather", taken, results=(DISCARD,), **group)  # not asynchronous
            edit.before(number, *edit.written(), facts=NO_FACTS)
    return edit.done()


def with_flat_gradients(module: Module) -> Module:
    """The module that copies gradients into one tensor before they are summed to parts, and divides that.

    As FSDP does in PyTorch, in which a layer's weights are views of one tensor: torch/distributed/fsdp/_flat_param.py,
    `_get_unflat_views_unaligned`, whose backward pass joins their gradients; _runtime_utils.py, `_div_if_needed`, by a
    part of the number of replicas, before the sum. The rest of it divides the parts (not expressed).
    """
    return Module(_with_flat_gradients(function) for function in module)


def _with_flat_gradients(function: Function) -> Function:
    summed = {arg for s in ops_in(function, *SCATTERS) if s.stream for arg in names(s.args)}
    packed = {s.results[0] for s in ops_in(function, "MakeTuple")}
    edit = Rewriter(function)

    def flat(gradient: Arg) -> Arg:
        if gradient in packed or gradient == DISCARD:
            return gradient
        for part in ("joined", "divided"):
            (gradient,) = edit.builder.apply("Mul", gradient, Literal(1.0), results=(f"{gradient}_{part}",))
        return gradient

    for number, statement in edit:
        if isinstance(statement, Apply):
            is_sum = statement.op in SCATTERS and bool(statement.stream)
            if is_sum or (statement.op == "MakeTuple" and statement.results[0] in summed):
                edit.replace(number, replace(statement, args=tuple(map(flat, statement.args))))
                edit.before(number, *edit.written(), facts=NO_FACTS)
    return edit.done()
