"""Recurrent networks in torch: its own ones, of which gradients are taken by its automatic differentiation."""

from __future__ import annotations

from typing import Any

from distir.lower.forms import Operand, Unlowerable, Unpacked, Write, Written, torch_form

NETWORKS = {
    "LSTM": (2, ("Sigmoid", "Tanh", "Tanh")),
    "GRU": (1, ("Sigmoid", "Tanh")),
    "RNN": (1, ("Tanh",)),
}
"""By ONNX name: how many kinds of states there are, and the activations that torch has."""


def _given(*operands: Operand | None) -> str:
    return ", ".join("None" if operand is None else operand.tensor for operand in operands)


def _recurrent(name: str, states: int, usual: tuple[str, ...]) -> None:
    @torch_form(name, fresh=True)
    def _(
        write: Write,
        x: Operand,
        w: Operand,
        r: Operand,
        b: Operand | None = None,
        lengths: Operand | None = None,
        *others: Operand | None,
        direction: str,
        layout: int,
        **attrs: Any,
    ) -> Written:
        _check(name, attrs, usual, lengths, others[states:])
        initial = _given(*others[:states], *[None] * (states - len(others)))
        found = f"{write.kernel('recurrent')}({name!r}, {_given(x, w, r, b)}, ({initial},), {direction!r}, {layout})"
        count = len(write.results)
        return f"{found}[0]" if count == 1 else Unpacked(f"{found}[:{count}]")

    @torch_form(f"{name}Grad", fresh=True)
    def _(
        write: Write,
        dy: Operand,
        x: Operand,
        w: Operand,
        r: Operand,
        b: Operand | None = None,
        *others: Operand | None,
        direction: str,
        layout: int,
    ) -> Unpacked:
        padded = [*others, *[None] * (2 * states - len(others))]
        initial, last = _given(*padded[:states]), _given(*padded[states:])
        given = f"{_given(x, w, r, b)}, ({initial},), {direction!r}, {layout}"
        return Unpacked(f"{write.kernel('recurrent_gradient')}({name!r}, ({_given(dy)}, {last}), {given})")


def _check(
    name: str, attrs: dict[str, Any], usual: tuple[str, ...], lengths: Operand | None, peepholes: tuple[Any, ...]
) -> None:
    """Raises Unlowerable for what torch's networks do not have."""
    if lengths is not None or any(operand is not None for operand in peepholes):
        raise Unlowerable(f"torch has `{name}` for sequences of one length, and without peepholes")
    if attrs.get("activations") not in (None, usual, usual * 2):
        raise Unlowerable(f"torch has `{name}` with {', '.join(usual)} as activations")
    if attrs.get("clip") is not None or attrs.get("input_forget"):
        raise Unlowerable(f"torch has `{name}` without `clip` and `input_forget`")
    if name == "GRU" and not attrs["linear_before_reset"]:
        raise Unlowerable("torch has `GRU` with `linear_before_reset = true`")


for _name, (_states, _usual) in NETWORKS.items():
    _recurrent(_name, _states, _usual)
