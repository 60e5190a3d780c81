"""What an op is: one record with every meaning, made by the decorator `@op` from one definition.

    @op("Tensor[t, (m, k), d], Tensor[t, (k, n), d] -> Tensor[t, (m, n), d]", flops=lambda m, k, n, **_: 2 * m * k * n)
    def MatMul(a: Array, b: Array) -> Array:
        '''Matrix product.

        %c = MatMul(%a: Tensor[Float32, (2, 3), 1], %b: Tensor[Float32, (3, 4), 1])
        '''
        return a @ b

The body is the reference semantics (numpy arrays in and out), the docstring the documentation with examples (lines
that begin with `%`), positional parameters name the operands (a default of None: may be left out; `*`: any number),
keyword-only parameters are the attributes. Rules stand beside the op and hang on it:

    @MatMul.grad
    def _(g: Backward) -> Gradients:
        ...

    MatMul.torch("torch.matmul({a}, {b})", fresh=True)

Rules import nothing when they are defined: what they need is handed to them, and loaded where they are used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, Literal

from distir.ir.registry import Registry, import_plugins, importing_plugins
from distir.ops.resources import Pattern
from distir.ops.signature import Signature
from distir.ops.signature_reader import parse_signature
from distir.ops.specs import REQUIRED, AttributeSpec, OperandSpec, TorchForm

Amount = int | Callable[..., int]
"""A number for each element of the results, or a function of the signature's letters and the attributes.

The function is called with keywords: each dimension letter, each segment letter and `batch` (the broadcast
dimensions) as products, each `n_i` as their sum, each element type letter as the bytes of one element, `N`,
`elements` (of all results), `inputs` (elements of all operands), `shapes` (of the operands), and the attributes.
"""


@dataclass(frozen=True, eq=False)
class Op:
    """One op, with every meaning it has. Compared by identity."""

    name: str
    signature_texts: tuple[str, ...]
    body: Callable[..., Any]
    flops: Amount | None = None
    """Arithmetic; `None` if the op does none that is worth counting apart from its memory traffic."""
    bytes: Amount | None = None
    """Memory traffic; `None`: every operand is read and every result written once."""
    communication: Pattern | None = None
    view: bool = False
    """The results are the operands, regrouped or renamed: no time, and no memory of their own."""
    inplace: Mapping[int, int] | Literal["each"] = field(default_factory=dict[int, int])
    """Results that take over the memory of an operand that nobody needs any more: result -> operand."""
    temporary: Amount = 0
    """Memory in bytes that is needed on each device while the op runs."""
    leafwise: bool = False
    """Applied to tuples, the op is applied leaf by leaf."""
    linear: tuple[str, ...] | Literal["jointly"] = ()
    """Operands in which the op is linear, each by itself or all jointly: of partial sums it gives partial sums."""
    addends: tuple[str, ...] = ()
    """Operands that are added: where one of them is given, and not zero, the op is linear in no other one by itself."""
    whole: tuple[str, ...] = ()
    """Letters of the signature whose dimensions may not be split over devices, beside those an attribute names."""
    non_differentiable: str | None = None
    """The reason why the op has no gradient, for an op without a `grad` rule: it follows "has no gradient: "."""
    foldable: bool = True
    """Host operands alone give host results, computed before the program runs."""
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    family: str = ""
    rules: dict[str, Any] = field(default_factory=dict[str, Any])
    """By kind: what hangs on the op."""

    @cached_property
    def signatures(self) -> tuple[Signature, ...]:
        """The alternatives, first match wins."""
        return tuple(map(parse_signature, self.signature_texts))

    @cached_property
    def operands(self) -> tuple[OperandSpec, ...]:
        """What the op takes, by the positional parameters of its body."""
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
                p.name, _written(p.annotation), p.default, tuple(a for a, n in self.aliases.items() if n == p.name)
            )
            for p in inspect.signature(self.body).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name != "count"
        }

    @cached_property
    def documentation(self) -> str:
        """What the op does, in markdown, without the examples."""
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
        """The position of the operand that stands for any number."""
        return next((i for i, o in enumerate(self.operands) if o.variadic), None)

    @cached_property
    def single_result(self) -> bool:
        """Whether the body gives the one result itself, not a sequence of results."""
        results = self.signatures[0].results
        return len(results) == 1 and not results[0].variadic

    @cached_property
    def takes_count(self) -> bool:
        """Whether the body wants to know how many results are named (the keyword `count`)."""
        return "count" in inspect.signature(self.body).parameters

    def operand_name(self, index: int) -> str:
        """The name of the operand that the argument at `index` is for."""
        if self.variadic is not None and index >= self.variadic:
            return self.operands[self.variadic].name
        return self.operands[index].name if index < len(self.operands) else "?"

    def shapes(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on a rule for shapes that the signature cannot express.

        It takes operands as `TensorType`, or as `Dense` where their value is known (`None`: left out), and the
        attributes by keyword, and gives the shape of the result, or a list of shapes, one per result; a shape that
        cannot be told is None, and a `TensorType` in its place gives the element type too (the signature the device).
        It may raise Reject. The keyword `count`, if it has it, is the number of results named.
        """
        return self._hang("shapes", rule)

    def checks(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on a rule that raises Reject for what the signature cannot forbid, taking what a `shapes` rule takes."""
        return self._hang("checks", rule)

    def types(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on a rule that gives the list of the results' types, for ops over tuples.

        It takes operands as types and the attributes by keyword, and `count` if it has it.
        """
        return self._hang("types", rule)

    def sharding(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on a rule for how the op may be split over devices, where the signature cannot tell.

        It takes what a `shapes` rule takes, and the shapes of the `results`, and gives a `Layout`.
        """
        return self._hang("sharding", rule)

    def parted(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on a rule for what the op is where its layout's letter `parted` is split: other ops, and sums.

        It takes a `layout.Parts`, the operands' names, and the attributes by keyword, and gives the list of results.
        Those that lack the letter are partial sums.
        """
        return self._hang("parted", rule)

    def partial(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on a rule that gives known results (`Dense`) of operands whose values are not all known.

        It takes what a `shapes` rule takes, and gives a `Dense`, or NotImplemented where it cannot.
        """
        return self._hang("partial", rule)

    def grad(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on a rule that writes the ops of the gradient.

        It takes a `backward.Backward`, which knows the operands, the results and their gradients and writes ops, and
        gives a list with the gradient of each operand, None where there is none (integers, host values).
        """
        return self._hang("grad", rule)

    def torch(self, form: str | Callable[..., Any] | None = None, *, fresh: bool = False) -> Any:
        """Hang on how the op is written in torch, a text or a function (`torch_form`). Decorates a function, too.

        `fresh`: each result is a tensor of its own; else it may be a view of any operand, and neither is overwritten.
        """
        if form is None:
            return partial(self.torch, fresh=fresh)
        self._hang("torch", TorchForm(form, fresh))
        return form

    def torch_together(self, form: Callable[..., Any]) -> Callable[..., Any]:
        """Hang on how a communication of a tuple is written in torch, where it is one message.

        The form takes a list with the operands of each leaf, all leaves having the same members, and the attributes.
        """
        return self._hang("torch_together", form)

    def rule(self, kind: str) -> Any:
        """What hangs on the op, of plugins where there is nothing of ours; None where there is nothing at all."""
        if kind not in self.rules:
            import_plugins()
        return self.rules.get(kind)

    def _hang(self, kind: str, rule: Any) -> Any:
        if kind in self.rules and importing_plugins():
            raise ValueError(f"`{self.name}` has a rule `{kind}` already")
        self.rules[kind] = rule
        return rule


def _written(annotation: Any) -> str:
    """An annotation as its author wrote it, postponed or not."""
    plain = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    return annotation.__name__ if plain else str(annotation)


class Ops(Registry[Op]):
    """Ops by name: our own families, and those of plugins (`distir.ir.registry`).

    A name that is still not found is asked of `standard`, the bridge to ONNX's standard ops. These are found by their
    names, but not listed: an iteration would have to import onnx.
    """

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        """Grows with every registration: a memo made under another version is stale."""
        self.standard: Callable[[str], Op | None] = lambda name: None

    def remove(self, name: str) -> None:
        """Forget an op, as a test does with its own."""
        del self[name]

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
    """Register the decorated function as an op. `meanings` are the fields of `Op`; see the module's docstring."""

    def register(body: Callable[..., Any]) -> Op:
        family = body.__module__.rpartition(".")[2]
        defined = Op(name or body.__name__, signatures, body, family=family, **meanings)
        OPS.register(defined.name, defined, body.__module__)
        return defined

    return register
