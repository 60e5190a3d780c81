"""From a PyTorch module to a module of ours, by way of `torch.export` and ONNX.

By way of ONNX because its ops are ours already; ATen's would be a second set. The data of weights takes no part in it:
they are lifted out of the exported graph first, so a model of any size, on the meta device too, is imported by types.
The training step is traced with gradients and with core ATen decompositions: without these the exporter writes a wrong
gradient of the cross-entropy (seen in PyTorch 2.13).
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr
from dataclasses import dataclass
from typing import Any, cast

from distir.analysis import check
from distir.analysis.executor import result_names
from distir.diagnostics import ProgramError
from distir.diagnostics.codes.names import UNKNOWN_OP
from distir.importers import huggingface
from distir.importers.bags import bags_as_products
from distir.importers.comparison import ComparedModule, Results, TorchComparison, compared
from distir.importers.core import Imported, ImportRefused, Weight
from distir.importers.names import value_name
from distir.importers.onnx_graph import SMALL
from distir.importers.onnx_import import BATCH, import_model
from distir.importers.repeating import Unlike, stretched, thinned
from distir.importers.torch_refusals import place_of_value, refusing, written_inputs
from distir.importers.torch_simplification import simplify
from distir.importers.torch_state import changes, held_by, state_of
from distir.importers.torch_translations import keep_signatures, keep_translations, translations, with_complex_ops
from distir.importers.weight_roles import module_roles
from distir.ir import DTYPES, Module, Site, results
from distir.transform.seeding import seeded

OPSET = 23
"""The operator set that models are exported to: the first that has `Attention`."""

FIXED = "Constraints violated"
"""What PyTorch says of a module that it could export for one size of the batch only."""

COUNTER = "num_batches_tracked"
"""What batch normalisations count, which is no result: nothing that is computed depends on it."""

REAL = "let the module take and give real and imaginary parts (`torch.view_as_complex`, `torch.view_as_real`)"


def import_torch(
    nn_module: Any,
    example_inputs: Sequence[Any] = (),
    weights: bool = True,
    *,
    kwargs: Mapping[str, Any] | None = None,
    cache: bool = False,
    training: bool = False,
    dynamic_batch: bool = False,
    batch: Mapping[str, int] | None = None,
    outline: bool = True,
    dropout: bool = False,
    compare: bool = True,
) -> Imported:
    """The program of an `nn.Module`: what it computes of inputs like the examples, tensors in order or by name.

    Its results are called as the module calls them (`logits`), where it gives them by name. A model of `transformers`
    comes in with its attention and its experts as single ops; keys and values are results of it only with `cache`.

    Its parameters are `{param}` parameters under their own names, `{param, frozen}` where they ask for no gradient, and
    its buffers `{buffer}`; one that the module changes, in place or by assignment, is also a result, as `NAME_new`.
    `weights` of the result has their data, none without `weights`. Module and inputs may be on the meta device. `batch`
    names the inputs that carry the batch, with the axis; `dynamic_batch` says that all do, along their first dimension.
    These dimensions are called `B`.

    With `training` the module is run as in training and gives a loss; the program returns it and the gradient of every
    parameter that asks for one, as `grad.NAME`, and what it changes, such as running statistics, as `NAME_new`.

    With `dropout` the module drops as in training, from the seed `%seed`, a parameter of the program (the step
    `seeded`); normalisations use their running statistics nevertheless. Else it has no dropout.

    With `compare` the program and the module are run with random weights and inputs, if the module has weights and is
    small enough (`importers.comparison`); `comparison` of the result says what was found.

    Raises ImportRefused for a module that PyTorch cannot export, for a program that computes something else, and with
    `dropout` for a module that has none.
    """
    torch = _package("torch")
    if not isinstance(nn_module, torch.nn.Module):
        raise ImportRefused(f"expected an `nn.Module`, found {type(nn_module).__name__}")
    if dropout:
        _check_dropout(nn_module, training)
    given = {name: value for name, value in (kwargs or {}).items() if value is not None}
    names = _input_names(nn_module, tuple(example_inputs), given)
    inputs = (*example_inputs, *(given[name] for name in names[len(example_inputs) :]))
    _check_inputs(names, inputs)
    tensors = [name for name, value in zip(names, inputs, strict=True) if isinstance(value, torch.Tensor)]
    axes = dict.fromkeys(tensors, 0) if dynamic_batch else dict(batch or {})
    unknown = next((name for name in axes if name not in names), None)
    if unknown is not None:
        raise ImportRefused(f"there is no input `{unknown}` for the batch; the inputs are {', '.join(names)}")
    example = _Example(names, _each_its_own(inputs), len(example_inputs), axes)
    adapted = huggingface.as_ops(nn_module, names, cache=cache, training=training)
    with _quiet(), _mode(nn_module, training, dropout), adapted, bags_as_products():
        found = None if training or cache or not outline else _of_few_layers(nn_module, example)
        if found is None:
            exported = (_exported_step if training else _exported)(nn_module, example)
            found = _translated(nn_module, exported, example, outline)
    _check(nn_module, found)
    program = _seeded(nn_module, found) if dropout else found
    said = _compared(nn_module, example, found, cache, training, dropout) if compare else TorchComparison("")
    held = found.weights.entries if weights else {}
    return Imported(program, held, (*found.notes, *said.remarks), said.text)


def _compared(
    nn_module: Any, example: _Example, found: Imported, cache: bool, training: bool, dropout: bool
) -> TorchComparison:
    """What a comparison of the program with the module has found. Raises ImportRefused."""
    if dropout:
        return TorchComparison("not compared with PyTorch: the program draws random numbers")

    @contextmanager
    def run() -> Generator[None]:
        with _quiet(), _mode(nn_module, training), huggingface.as_it_is(nn_module, cache=cache):
            yield

    given = {name.removesuffix("_new") for name in result_names(found.functions["main"]) if name.endswith("_new")}
    changed = [name for name in state_of(nn_module) if value_name(name) in given]
    results = _results_of_step(nn_module, example) if training else _results_of(nn_module, example, changed)
    return compared(ComparedModule(nn_module, example.names, example.inputs, results, run), found)


def _results_of(nn_module: Any, example: _Example, changed: Sequence[str]) -> Results:
    """What computes the results of a module, as its program gives them, with the state that is changed."""
    torch, tree = _package("torch"), _package("torch.utils._pytree")

    def results(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        with torch.no_grad(), _giving(nn_module, changed):
            given = torch.func.functional_call(nn_module, dict(weights), *example.call(inputs))
        return [leaf for leaf in tree.tree_leaves(given) if isinstance(leaf, torch.Tensor)]

    return results


def _results_of_step(nn_module: Any, example: _Example) -> Results:
    """What computes the loss, the gradients and the changed state of a module, as its program gives them."""
    step = _step(nn_module, example)

    def results(weights: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
        held = [weights[key].requires_grad_(key in step.trained) for key in step.keys]
        return [result.detach() for result in step.run(*held, *inputs)]

    return results


def _check_dropout(nn_module: Any, training: bool) -> None:
    """Raises ImportRefused for dropout that programs have not."""
    if training:
        raise ImportRefused(
            "the traced training step has no dropout", "import the model with dropout, and apply `grad`"
        )
    nn = _package("torch.nn")
    kinds = (nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    for name, part in nn_module.named_modules():
        if isinstance(part, kinds) and part.p:
            reason = f"`{name}` is `{type(part).__name__}`, which has no op"
            raise ImportRefused(reason, "set its probability to 0, or take `nn.Dropout`")


def _seeded(nn_module: Any, found: Imported) -> Module:
    """The program with dropout from a seed. Raises ImportRefused where there is no dropout."""
    try:
        return seeded(found)
    except ProgramError:
        raise ImportRefused(f"`{type(nn_module).__name__}` has no dropout, or with probability 0") from None


def _each_its_own(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Inputs none of which is another one, as where labels are the tokens: PyTorch would make one of the two."""
    seen: set[int] = set()
    found: list[Any] = []
    for value in inputs:
        found.append(value.clone() if id(value) in seen and hasattr(value, "clone") else value)
        seen.add(id(value))
    return tuple(found)


def _check_inputs(names: Sequence[str], inputs: Sequence[Any]) -> None:
    """Raises ImportRefused for an input that a program cannot have."""
    for name, value in zip(names, inputs, strict=True):
        if type(value).__module__ == "numpy":
            raise ImportRefused(f"the input `{name}` is an array of numpy", "give a tensor: `torch.from_numpy`")
        if getattr(value, "is_complex", bool)():
            raise ImportRefused(f"the input `{name}` has complex elements, which the language lacks", REAL)


def _check_results(nn_module: Any, program: Any) -> None:
    """Raises ImportRefused for results that a program cannot give."""
    kind = type(nn_module).__name__
    specs: list[Any] = [s.arg for s in program.graph_signature.output_specs if s.kind.name == "USER_OUTPUT"]
    tensors = [spec for spec in specs if type(spec).__name__ == "TensorArgument"]
    plain = next((spec.value for spec in specs if isinstance(getattr(spec, "value", None), str)), None)
    if plain is not None or not tensors:
        found = "none" if plain is None else repr(plain)
        raise ImportRefused(
            f"expected the results of `{kind}` to be tensors, found {found}", "let it give tensors alone"
        )
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    if any(getattr(values.get(spec.name), "is_complex", bool)() for spec in tensors):
        raise ImportRefused(f"a result of `{kind}` has complex elements, which the language lacks", REAL)


def _check_writes(nn_module: Any, program: Any, names: Sequence[str], held: int = 0) -> None:
    """Raises ImportRefused for a module that changes its inputs, which those of a program are not.

    `held`: how many weights come before them.
    """
    for number, found, place in written_inputs(program):
        if number < held:  # running statistics
            continue
        name = names[number - held] if number - held < len(names) else found
        raise ImportRefused(
            f"`{type(nn_module).__name__}` changes its input `{name}` in place{place and f' ({place})'}",
            f"let it change a copy, `{name}.clone()`, or give what it changes as a result",
        )


def _check(nn_module: Any, found: Imported, model: Any = None) -> None:
    """Raises ImportRefused for a program that does not check, but for ops that are not known here.

    `model`: the exported model, which knows the lines of Python.
    """
    error = next((d for d in check(found).errors if d.code is not UNKNOWN_OP), None)
    if error is None:
        return
    site, where = error.site, ""
    if isinstance(site, Site) and site.index is not None:
        made = next(filter(None, results(found.functions[site.function].body[site.index])), "")
        where = f" (at `%{made}` in `@{site.function}`)" if made else ""
        if model is not None and (place := place_of_value(model, made)):
            where = f" ({place})"
    raise ImportRefused(
        f"what PyTorch exports of `{type(nn_module).__name__}` does not check: {error.message}{where}",
        "write this part of the module with other ops, or export a part without it",
    )


def _of_few_layers(nn_module: Any, example: _Example) -> Imported | None:
    """The program, if the module has many layers of few kinds, from an export of the first ones."""
    with thinned(nn_module) as stacks:
        if not stacks:
            return None
        try:
            exported = _exported(nn_module, example, [stack.path for stack in stacks])
        except ImportRefused:  # what it says of the whole module is for the user
            return None
    found = _translated(nn_module, exported, example, True)
    state = (*nn_module.named_parameters(), *nn_module.named_buffers())
    try:
        return stretched(found, stacks, {name: _weight(tensor) for name, tensor in state if not tensor.is_complex()})
    except Unlike:
        return None


def _translated(nn_module: Any, exported: _Exported, example: _Example, outline: bool) -> Imported:
    model, held = exported.model, exported.weights
    _name_batch(model, example.axes)
    known: dict[str, Any] = {"given": held, "roles": module_roles(nn_module, held), "path": "the module"}
    try:
        found = import_model(model, os.curdir, batch=example.axes, outline=outline, **known)
    except ImportRefused as refused:
        place = "" if refused.value is None else place_of_value(model, refused.value)
        raise ImportRefused(f"{refused.message}{place and f' ({place})'}", refused.help) from None
    _check(nn_module, found, model)
    return found


@dataclass(frozen=True, slots=True)
class _Exported:
    """The ONNX model of a module, and its weights by name."""

    model: Any
    weights: Mapping[str, Weight]


@dataclass(frozen=True, slots=True)
class _Example:
    """What a module is called with: tensors by the names of parameters, the first few given in order."""

    names: list[str]
    inputs: tuple[Any, ...]
    ordered: int
    axes: Mapping[str, int]
    """The dimension of the batch, by the names of the inputs that carry it."""

    def call(self, inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Such inputs as operands in order, and those by name."""
        named = zip(self.names[self.ordered :], inputs[self.ordered :], strict=True)
        return tuple(inputs[: self.ordered]), dict(named)


def import_torch_function(
    source: str,
    weights: bool = True,
    *,
    training: bool = False,
    batch: Mapping[str, int] | None = None,
    outline: bool = True,
    folder: str | None = None,
    dropout: bool = False,
    compare: bool = True,
) -> Imported:
    """The program of what a function gives, named as `package.module:function`: an `nn.Module` and example inputs.

    It is called without arguments; without `weights` on the meta device, where tensors take no memory. `folder` is
    searched for the module first. Raises ImportRefused.
    """
    function = _function(source, folder)  # before torch is loaded, which takes seconds
    torch = _package("torch")
    with nullcontext() if weights else torch.device("meta"):
        made = function()
    if not isinstance(made, tuple) or len(cast("tuple[Any, ...]", made)) != 2:
        raise ImportRefused(
            f"expected `{source}` to give an `nn.Module` and a tuple of example inputs, found {made!r:.80}"
        )
    nn_module, inputs = cast("tuple[Any, Any]", made)
    examples = cast("Sequence[Any]", inputs if isinstance(inputs, (tuple, list)) else (inputs,))
    stated: dict[str, Any] = {"training": training, "batch": batch, "outline": outline, "dropout": dropout}
    return import_torch(nn_module, examples, weights, **stated, compare=compare)


def _package(name: str) -> Any:
    """A module of PyTorch or its exporter, as what is untyped for us: not every installation has them."""
    return importlib.import_module(name)


def _function(source: str, folder: str | None) -> Callable[[], object]:
    module, colon, name = source.partition(":")
    if not (module and colon and name):
        hint = "name a function that gives an `nn.Module` and its example inputs: `model.py` has `model:function`"
        raise ImportRefused(f"expected `module:function`, found `{source}`", hint)
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        home = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise
        raise ImportRefused(f"there is no Python module `{module}`", "run this where it can be imported") from None
    found = getattr(home, name, None)
    if not callable(found):
        raise ImportRefused(f"`{module}` has no function `{name}`")
    return found


def _exported(nn_module: Any, example: _Example, thinned_out: Sequence[str] = ()) -> _Exported:
    """The ONNX model of the module's results. Raises ImportRefused, as for state that changes in a thinned list."""
    with changes(nn_module) as written:
        program = _program(nn_module, example)
    changed = [name for name in state_of(nn_module) if name in written]
    if any(name.startswith(f"{path}.") for name in changed for path in thinned_out):
        raise ImportRefused("what changes is to be found in the whole module")
    with _giving(nn_module, changed):
        program = _program(nn_module, example) if changed else program
    _check_results(nn_module, program)
    _check_writes(nn_module, program, example.names)
    with refusing("torch.onnx cannot export the module", nn_module, program):
        exported = _onnx_of(program, output_names=_result_names(program) if not changed else None)
    last = exported.model.graph.outputs[len(exported.model.graph.outputs) - len(changed) :]
    for value, name in zip(last, changed, strict=True):
        value.name = f"{name}_new"
    return _lifted(exported, {}, {*state_of(nn_module)})


@contextmanager
def _giving(nn_module: Any, names: Sequence[str]) -> Generator[None]:
    """A module that gives this state of its own, as it is after it has run, behind its results."""

    def behind(module: Any, args: Any, found: Any) -> Any:
        return found, tuple(held_by(module, name).clone() for name in names)

    hook = nn_module.register_forward_hook(behind) if names else None
    try:
        yield
    finally:
        if hook is not None:
            hook.remove()


def _program(nn_module: Any, example: _Example) -> Any:
    """What `torch.export` makes of a module. Raises ImportRefused."""
    torch = _package("torch")
    size = torch.export.Dim(BATCH)
    by_name = {name: {example.axes[name]: size} if name in example.axes else None for name in example.names}
    shapes = _by_parameter(nn_module, by_name) if example.ordered < len(example.names) else tuple(by_name.values())
    args, kwargs = example.call(example.inputs)

    def exported(shapes: Any) -> Any:
        refused = refusing("torch.export cannot export the module", nn_module)
        with refused, _device_of(nn_module), _unvalidated(), _attributes_kept(nn_module):
            return torch.export.export(nn_module, args, kwargs, dynamic_shapes=shapes, strict=False)

    try:
        return exported(shapes if example.axes else None)
    except ImportRefused as refused:
        if not example.axes or FIXED not in refused.message:
            raise
        return exported(None)  # where the module counts the batch, its size is freed again afterwards


@contextmanager
def _attributes_kept(nn_module: Any) -> Generator[None]:
    """A module whose attributes and buffers are afterwards as they were: tensors of a trace have no values."""
    parts: list[Any] = list(nn_module.modules())
    was: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for part in parts:
        was += [(held, {**held}) for held in (part.__dict__, part._buffers)]
    try:
        yield
    finally:
        for held, before in was:
            held.clear()
            held.update(before)


def _by_parameter(nn_module: Any, by_name: dict[str, Any]) -> dict[str, Any] | None:
    """What is said of inputs that are given by name; None where one has no parameter of its own.

    Then PyTorch asks for two forms of it in two places; a size that it fixes is freed again afterwards.
    """
    import inspect

    parameters = inspect.signature(nn_module.forward).parameters
    return by_name if by_name.keys() <= parameters.keys() else None


def _onnx_of(program: Any, **named: Any) -> Any:
    torch = _package("torch")
    keep_signatures()
    keep_translations()
    return torch.onnx.export(
        with_complex_ops(program),
        (),
        None,
        dynamo=True,
        opset_version=OPSET,
        optimize=False,
        verbose=False,
        custom_translation_table=translations(),
        **named,
    )


def _result_names(program: Any) -> list[str] | None:
    """What the module calls its results; None where it gives them without names."""
    torch, tree = _package("torch"), _package("torch.utils._pytree")
    spec = program.call_spec.out_spec
    made = tree.tree_unflatten([torch.zeros(1, 1, 1, 1) for _ in range(spec.num_leaves)], spec)
    if not isinstance(made, Mapping):
        return None
    paths: list[tuple[Any, Any]] = tree.tree_flatten_with_path(made)[0]
    return [re.sub(r"\W+", ".", tree.keystr(path)).strip(".") for path, _ in paths]


@dataclass(frozen=True, slots=True)
class _Step:
    """A training step as a function of weights, by `keys`, and of inputs: of `trained` it gives the gradients."""

    keys: list[str]
    trained: list[str]
    changed: list[str]
    run: Callable[..., tuple[Any, ...]]


def _step(nn_module: Any, example: _Example) -> _Step:
    """The step of a module; what it is found to change is known once it has run, in the order of `keys`."""
    torch, func = _package("torch"), _package("torch.func")
    trained = [name for name, p in nn_module.named_parameters() if p.requires_grad]
    keys = list(state_of(nn_module))
    norms = [name for name, part in nn_module.named_modules() if getattr(part, "track_running_stats", False)]
    statistics = {f"{name}.{kind}".lstrip(".") for name in norms for kind in ("running_mean", "running_var")}
    changed: list[str] = []

    def run(*values: Any) -> tuple[Any, ...]:
        held = dict(zip(keys, values, strict=False))
        with changes(nn_module) as new:
            found: Any = func.functional_call(nn_module, held, *example.call(values[len(keys) :]))
        changed[:] = [key for key in keys if key in statistics or (key in new and not key.endswith(COUNTER))]
        loss: Any = found
        if isinstance(found, Mapping):  # what a model of transformers gives
            loss = cast("Mapping[str, Any]", found).get("loss")
        if not isinstance(loss, torch.Tensor) or loss.dim():
            raise ImportRefused("expected the module to give its loss, a scalar, when it is trained")
        gradients = torch.autograd.grad(loss, [held[name] for name in trained])
        return (loss, *gradients, *(new.get(name, held[name]) for name in changed))

    return _Step(keys, trained, changed, run)


def _exported_step(nn_module: Any, example: _Example) -> _Exported:
    """The ONNX model of the loss, the gradients, and the statistics and other state that changes."""
    torch = _package("torch")
    make_fx = _package("torch.fx.experimental.proxy_tensor").make_fx
    names, axes = example.names, example.axes
    state = state_of(nn_module)
    step = _step(nn_module, example)
    keys, trained = step.keys, step.trained
    leaves = _without_data([state[key] for key in keys], [key in trained for key in keys])
    examples = _with_batch_of_its_own(example.inputs, names, axes, leaves)
    attention = _package("torch.nn.attention")
    with (
        refusing("the training step cannot be traced", nn_module),
        attention.sdpa_kernel(attention.SDPBackend.MATH),  # ONNX has no words for the gradients of the fused ones
    ):
        table = dict(_package("torch._decomp").core_aten_decompositions())
        table.update(_package("torch._decomp").get_decompositions(_normalisations()))
        mode = "symbolic" if axes else "fake"
        traced = make_fx(step.run, tracing_mode=mode, decomposition_table=table, _allow_non_fake_inputs=True)(
            *leaves, *examples
        )
    size = torch.export.Dim(BATCH)
    shapes = (*(None for _ in keys), *({axes[name]: size} if name in axes else None for name in names))
    given = (*(leaf.detach() for leaf in leaves), *examples)
    with refusing("torch.export cannot export the training step", nn_module):
        program = torch.export.export(traced, given, dynamic_shapes=shapes, strict=False)
    _check_writes(nn_module, program, names, len(keys))
    with refusing("torch.onnx cannot export the training step", nn_module, program):
        outputs = ["loss", *(f"grad.{name}" for name in trained), *(f"{name}_new" for name in step.changed)]
        exported = _onnx_of(program, input_names=[*keys, *names], output_names=outputs)
    return _lifted(exported, {key: _weight(state[key]) for key in keys}, set())


def _normalisations() -> list[Any]:
    """The ops of batch normalisation in training, which PyTorch's exporter writes as if it were inference."""
    aten = _package("torch").ops.aten
    return [
        *(aten.native_batch_norm.default, aten.native_batch_norm_backward.default),
        *(aten._native_batch_norm_legit.default, aten._native_batch_norm_legit.no_stats),
        *(aten._native_batch_norm_legit_functional.default, aten._batch_norm_with_update.default),
    ]


def _without_data(tensors: Sequence[Any], trained: Sequence[bool]) -> list[Any]:
    """Tensors of the same types that take no memory; on the CPU, as are those that a module makes of its own."""
    torch = _package("torch")
    shapes = _package("torch.fx.experimental.symbolic_shapes").ShapeEnv()
    fake = _package("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes)
    with fake:
        empty = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in tensors]
    return [tensor.requires_grad_(wanted) for tensor, wanted in zip(empty, trained, strict=True)]


def _with_batch_of_its_own(
    inputs: tuple[Any, ...], names: list[str], axes: Mapping[str, int], leaves: Sequence[Any]
) -> tuple[Any, ...]:
    """Inputs with a batch size that is no other tensor's size: in a trace, equal sizes are one symbol.

    Their elements count for nothing.
    """
    torch = _package("torch")
    taken = {int(size) for tensor in (*leaves, *inputs) for size in tensor.shape}
    own = next(size for size in range(3, len(taken) + 4) if size not in taken)
    resized: list[Any] = []
    for name, tensor in zip(names, inputs, strict=True):
        shape = [own if axis == axes.get(name) else size for axis, size in enumerate(tensor.shape)]
        resized.append(torch.zeros(shape, dtype=tensor.dtype))
    return tuple(resized)


def _lifted(exported: Any, given: dict[str, Weight], own: set[str]) -> _Exported:
    """The model without the data of its weights, and these by name: those of the module, `own`, and what is large.

    Only then is it optimised: an optimiser that sees the weights would copy, merge and transpose them; nor may it make
    data of what is no weight, as of a mask.
    """
    graph = exported.model.graph
    weights = dict(given)
    for name, value in list(graph.initializers.items()):
        held = value.const_value
        raw = getattr(held, "raw", None)
        if held is not None and (held.size > SMALL or name in own or getattr(raw, "is_meta", False)):
            del graph.initializers[name]
            value.const_value = None
            graph.inputs.append(value)
            weights[name] = _held(held)
    with refusing("the exported model cannot be simplified"):
        simplify(exported.model, SMALL)
    return _Exported(exported.model_proto, weights)


def _name_batch(model: Any, axes: Mapping[str, int]) -> None:
    """Call the batch dimension `B`: the exporter numbers its symbols."""
    inputs = {value.name: value.type.tensor_type.shape.dim for value in model.graph.input}
    symbols = {inputs[name][axis].dim_param for name, axis in axes.items() if name in inputs} - {""}
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in symbols:
                dim.dim_param = BATCH


def _held(tensor: Any) -> Weight:
    """An initializer of the exported graph: a PyTorch tensor in ONNX's clothes."""
    raw = getattr(tensor, "raw", None)
    if raw is not None and hasattr(raw, "detach"):
        return _weight(raw)
    array = tensor.numpy()
    from distir.ops import dtype_of

    return Weight(dtype_of(array), tuple(array.shape), lambda: array)


def _weight(tensor: Any) -> Weight:
    dtype = next((d for d in DTYPES.values() if d.name.lower() == _dtype_name(tensor)), None)
    if dtype is None:
        raise ImportRefused(f"a weight has elements of {tensor.dtype}, which the language lacks")

    def load() -> Any:
        from distir.ops import numpy_dtype

        torch = _package("torch")
        if tensor.is_meta:
            raise ImportRefused("the weights are on the meta device: they have no data")
        plain = tensor.detach().cpu().contiguous()
        if dtype.name == "BFloat16" or dtype.name.startswith("Float8"):
            bits = plain.view(torch.int16 if dtype.bytes == 2 else torch.uint8).numpy()
            return bits.view(numpy_dtype(dtype))
        return plain.numpy()

    return Weight(dtype, tuple(map(int, tensor.shape)), load)


def _dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.").replace("_", "")


def _input_names(nn_module: Any, inputs: tuple[Any, ...], by_name: Mapping[str, Any]) -> list[str]:
    """The names of the parameters of `forward` that take the examples. Raises ImportRefused for one it lacks."""
    import inspect

    parameters = list(inspect.signature(nn_module.forward).parameters.values())
    plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = {p.name for p in parameters}
    ordered = [plain[i] if i < len(plain) else f"input_{i}" for i in range(len(inputs))]
    for name in by_name:
        if name in ordered:
            raise ImportRefused(f"the input `{name}` is given twice: in order, and by name")
        if name not in known and not takes_all:
            raise ImportRefused(f"`{type(nn_module).__name__}` takes no input `{name}`", f"it takes {', '.join(plain)}")
    if len(inputs) > len(plain) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        message = f"`{type(nn_module).__name__}` takes {len(plain)} inputs, {len(inputs)} are given"
        raise ImportRefused(message, f"it takes {', '.join(plain) or 'none'}")
    given = {*ordered, *by_name}
    named = (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) if (p := next(iter(parameters), None)) else ()
    missing = [p.name for p in parameters if p.default is p.empty and p.kind in named and p.name not in given]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        raise ImportRefused(f"`{type(nn_module).__name__}` needs {listed}, which is not given", "give an example of it")
    return [*ordered, *by_name]


@contextmanager
def _mode(nn_module: Any, training: bool, dropout: bool = False) -> Generator[None]:
    """The module as in training or not, and afterwards as it was; with `dropout` all that keeps no statistics is."""
    was = {part: part.training for part in nn_module.modules()}
    nn_module.train(training or dropout)
    for part in was if dropout else ():
        part.training = not hasattr(part, "track_running_stats")
    try:
        yield
    finally:
        for part, mode in was.items():
            part.training = mode


def _device_of(nn_module: Any) -> Any:
    """Where the module makes tensors of its own: on the meta device, if its weights are there."""
    weights = (*nn_module.parameters(), *nn_module.buffers())
    return _package("torch").device("meta") if any(w.is_meta for w in weights) else nullcontext()


@contextmanager
def _unvalidated() -> Generator[None]:
    """Distributions that do not check the values of their parameters, which have none while they are exported."""
    distribution = _package("torch.distributions").Distribution
    before = distribution._validate_args
    distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        distribution.set_default_validate_args(before)


@contextmanager
def _quiet() -> Generator[None]:
    """Without the exporter's remarks on its own progress, and the graphs that it prints where it fails."""
    before, said = logging.root.manager.disable, io.StringIO()
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings(), redirect_stderr(said):
            warnings.simplefilter("ignore")
            yield
        sys.stderr.write(said.getvalue())  # the user's own
    finally:
        logging.disable(before)
