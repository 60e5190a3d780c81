"""Ops: a record `Op` with the type, value, cost and other rules of an op, created by the decorator `@op`.

    @op("Tensor[t, (m, k), d], Tensor[t, (k, n), d] -> Tensor[t, (m, n), d]", flops=lambda m, k, n, **_: 2 * m * k * n)
    def MatMul(a: Array, b: Array) -> Array:
        '''Matrix product.

        %c = MatMul(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3, 4), 1])
        '''
        return a @ b

The body is the reference implementation on numpy arrays. The docstring is the documentation, with examples (lines that
begin with `%`). Positional parameters are the operands (default None: optional; `*`: variadic), keyword-only parameters
are the attributes. Further rules are registered beside the op:

    @MatMul.grad
    def _(g: Backward) -> Gradients:
        ...

    MatMul.torch("torch.matmul({a}, {b})", fresh=True)

Registering a rule imports nothing: rules get what they need as arguments, or import it in their bodies.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, Literal

from distir.ir.registry import Registry, import_plugins, importing_plugins
from distir.ops.resources import Contraction, Pattern, Product
from distir.ops.signature import Signature
from distir.ops.signature_reader import parse_signature
from distir.ops.specs import REQUIRED, AttributeSpec, OperandSpec, TorchForm

Amount = int | Callable[..., int]
"""A number per element of the results, or a function of the signature's letters and the attributes.

The function is called with keywords: each dimension letter, each segment letter and `batch` (the broadcast
dimensions) as products, each `n_i` as their sum, each element type letter as the bytes of one element, `N`,
`elements` (of all results), `inputs` (elements of all operands), `moved` (bytes of both), `shapes` (of the operands),
`given` (by operand, its type, or its value if that is known), and the attributes.
"""


@dataclass(frozen=True, eq=False)
class Op:
    """An op with all of its rules. Compared by identity."""

    name: str
    signature_texts: tuple[str, ...]
    body: Callable[..., Any]
    flops: Amount | None = None
    """Arithmetic operations; None: not declared. Simulation needs them, except for communication and views."""
    bytes: Amount | None = None
    """Memory traffic in bytes; None: every operand is read and every result is written once."""
    contraction: Callable[..., Contraction | list[Product] | None] | None = None
    """The matrix product or the attention that the op is, for costs by shape: a function as `flops` may be.

    Or those that it computes one after the other, besides its `flops`."""
    communication: Pattern | None = None
    copies: bool = False
    """It copies its operand between the memories of its device and of the device's host."""
    view: bool | Literal["first"] = False
    """The results alias the operands, leaf by leaf, or all the first one: they take no time and no memory."""
    awaits: bool = False
    """Although a view, the op runs in the order of its stream, which waits for all operands."""
    inplace: Mapping[int, int] | Literal["each"] = field(default_factory=dict[int, int])
    """Result -> the operand whose buffer is donated to it, if this is the operand's last use."""
    temporary: Amount = 0
    """Workspace on each device while the op runs, in bytes."""
    manner: tuple[str, ...] = ()
    """Attributes that say how devices compute the results, and not what these are."""
    leafwise: bool = False
    """The op can be applied to tuples, leaf by leaf."""
    linear: tuple[str, ...] | Literal["jointly"] = ()
    """Operands in which the op is linear, each alone or all jointly: partial sums of them give partial sums."""
    addends: tuple[str, ...] = ()
    """Operands that are added: with one that is present and not zero, the op is not linear in another one alone."""
    whole: tuple[str, ...] = ()
    """Letters of the signature whose dimensions must be replicated, besides those that an attribute names."""
    saved: int = 0
    """For ops with optional results: how many of them the gradient uses, which `grad` then requests."""
    non_differentiable: str | None = None
    """The reason why the op has no gradient, for an op without a `grad` rule: it follows "has no gradient: "."""
    foldable: bool = True
    """If all operands are host values, the results are computed before the program runs."""
    draws: Callable[..., bool] | None = None
    """Whether random numbers are drawn in turn, and so others on each device. Arguments as of a `shapes` rule."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    family: str = ""
    rules: dict[str, Any] = field(default_factory=dict[str, Any])
    """The registered rules, by kind (`grad`, `torch`, …)."""

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        """The alternatives, first match wins."""
        return tuple(map(parse_signature, self.signature_texts))

    @cached_property
    def operands(self) -> tuple[OperandSpec, ...]:
        """The operands: the positional parameters of the body."""
        parameters = inspect.signature(self.body).parameters.values()
        return tuple(
            OperandSpec(p.name, p.kind is p.VAR_POSITIONAL, p.default is not REQUIRED)
            for p in parameters
            if p.kind is not p.KEYWORD_ONLY
        )

    @cached_property
    def attributes(self) -> Mapping[str, AttributeSpec]:
        """By name, in the order of the definition."""
        return {
            p.name: AttributeSpec(
                p.name, _annotation(p.annotation), p.default, tuple(a for a, n in self.aliases.items() if n == p.name)
            )
            for p in inspect.signature(self.body).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name != "count"
        }

    @cached_property
    def documentation(self) -> str:
        """The documentation in Markdown, without the examples."""
        return "\n".join(line for line in self._docstring if not line.startswith("%")).strip()

    @cached_property
    def examples(self) -> tuple[str, ...]:
        """Statements with annotated operands; each one checks, runs and simulates."""
        return tuple(line for line in self._docstring if line.startswith("%"))

    @property
    def _docstring(self) -> list[str]:
        return (inspect.getdoc(self.body) or "").splitlines()

    @property
    def variadic(self) -> int | None:
        """The index of the variadic operand, if there is one."""
        return next((i for i, o in enumerate(self.operands) if o.variadic), None)

    @cached_property
    def single_result(self) -> bool:
        """Whether the body returns a single result instead of a sequence of results."""
        return [result.variadic for result in self.signatures[0].results] == [False]

    @cached_property
    def takes_count(self) -> bool:
        """Whether the body takes the number of results as the keyword `count`."""
        return "count" in inspect.signature(self.body).parameters

    def operand_name(self, index: int) -> str:
        """The name of the operand for the argument at `index`."""
        at = index if self.variadic is None else min(index, self.variadic)
        return self.operands[at].name if at < len(self.operands) else "?"

    def shapes(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register a rule for shapes that the signature cannot express.

        Its arguments are the operands as `TensorType`, or as `Dense` if their value is known (None: omitted), the
        attributes by keyword, and optionally the number of results as `count`. It returns the shape of the result, or a
        list with the shape of each result: None if unknown, or a `TensorType` to set the element type too (its device
        is that of the signature). It may raise Reject.
        """
        return self._register("shapes", rule)

    def checks(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register a rule that raises Reject for errors that the signature cannot express. Arguments as of `shapes`."""
        return self._register("checks", rule)

    def types(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register a rule that returns the list of the results' types, for ops over tuples.

        Its arguments are the operands' types, the attributes by keyword, and optionally `count`.
        """
        return self._register("types", rule)

    def sharding(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register a rule for the op's `Layout`, where it does not follow from the signature.

        Its arguments are those of a `shapes` rule, and the shapes of the `results`.
        """
        return self._register("sharding", rule)

    def parted(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register a decomposition of the op for a split along its layout's letter `parted`: other ops, and sums.

        Its arguments are a `layout.Parts`, the operands' names, and the attributes by keyword. It returns the list of
        results; those without the letter are partial sums.
        """
        return self._register("parted", rule)

    def pieces(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register what the op makes of pieces of values, where its layout does not say it, for proofs.

        Its arguments are a `pieces.Pieces`, the operands (None: omitted), and the attributes by keyword. It returns the
        list of results.
        """
        return self._register("pieces", rule)

    def partial(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register a rule that returns the result's value where not all operands are known.

        Its arguments are those of a `shapes` rule. It returns a `Dense`, or NotImplemented.
        """
        return self._register("partial", rule)

    def grad(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register the gradient (VJP) of the op.

        Its argument is a `backward.Backward`, which has the operands, the results and their gradients, and writes ops.
        It returns a list with the gradient of each operand, None for integers and host values.
        """
        return self._register("grad", rule)

    def decomposition(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Register the op written out as others, for those who study it.

        Its argument is a `backward.Rewrite`. It returns a list with the results, as many as the statement has.
        """
        return self._register("decomposition", rule)

    def torch(self, form: str | Callable[..., Any] | None = None, *, fresh: bool = False) -> Any:
        """Register the torch form of the op: a text, or a function (`torch_form`). Also a decorator.

        `fresh`: no result aliases an operand. Otherwise a result may be a view of any operand, and neither is
        overwritten.
        """
        if form is None:
            return partial(self.torch, fresh=fresh)
        self._register("torch", TorchForm(form, fresh))
        return form

    def torch_together(self, form: Callable[..., Any]) -> Callable[..., Any]:
        """Register the torch form of a communication of a tuple as one message.

        Its arguments are a list with the operands of each leaf, all with the same members, and the attributes.
        """
        return self._register("torch_together", form)

    def rule(self, kind: str) -> Any:
        """The registered rule of this kind, also from plugins; None if there is none."""
        if kind not in self.rules:
            import_plugins()
        return self.rules.get(kind)

    def _register(self, kind: str, rule: Any) -> Any:
        if kind in self.rules and importing_plugins():
            raise ValueError(f"`{self.name}` has a rule `{kind}` already")
        self.rules[kind] = rule
        return rule


def _annotation(stated: Any) -> str:
    """The source text of an annotation, postponed or not."""
    return stated.__name__ if isinstance(stated, type) and not hasattr(stated, "__args__") else str(stated)


class Ops(Registry[Op]):
    """The ops by name: built-in ones, and those of plugins (`distir.ir.registry`).

    Other names are looked up with `standard`, in ONNX's standard ops. Iteration does not list these: that would import
    onnx.
    """

    version = 0
    """Incremented by every registration, which invalidates caches of older versions."""
    standard: Callable[[str], Op | None] = dict[str, Op]().get

    def __setitem__(self, name: str, op: Op) -> None:
        super().__setitem__(name, op)
        self.version += 1

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self.version += 1

    def __getitem__(self, name: str) -> Op:
        if name not in self._held and not super().__contains__(name) and (found := self.standard(name)) is not None:
            return found
        return self._held[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self.standard(name) is not None)


OPS: Final = Ops()


def op(*signatures: str, name: str | None = None, **meanings: Any) -> Callable[[Callable[..., Any]], Op]:
    """Register the decorated function as an op. `meanings`: fields of `Op`. See the module's docstring."""

    def register(body: Callable[..., Any]) -> Op:
        # the family: FAMILY of distir.ops.FAMILY and distir.ops.FAMILY.file, the module's own name elsewhere
        defined = Op(name or body.__name__, signatures, body, family=body.__module__.split(".")[:3][-1], **meanings)
        OPS.register(defined.name, defined, body.__module__)
        return defined

    return register
