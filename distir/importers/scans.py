"""Recurrences along the sequence in models of `transformers`, while they are exported: as ops of ours.

`transformers` calls what kernels of mamba-ssm and flash-linear-attention compute by functions, beside the models, of
the same operands and in loops over positions or chunks. These are replaced: a program has one op in the place of
thousands, and costs what the kernels do.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from inspect import signature
from typing import Any

from distir.importers.symbolic import op

WITHOUT_EFFECT = frozenset(("chunk_size", "use_mambapy", "use_associative_scan"))
"""Settings of how a scan is computed, not of what."""


@contextmanager
def scans_as_ops(models: Iterable[Any]) -> Generator[None]:
    """Models whose recurrences are ops of ours; afterwards as they were."""
    homes = {type(part).__module__ for model in models for part in model.modules()}
    was: list[tuple[Any, str, Any]] = []
    for home in filter(None, map(sys.modules.get, sorted(homes))):
        for name, scan in SCANS.items():
            if hasattr(home, name):
                was.append((home, name, getattr(home, name)))
                setattr(home, name, _where_it_begins(scan, getattr(home, name)))
    try:
        yield
    finally:
        for home, name, function in was:
            setattr(home, name, function)


def _where_it_begins(scan: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The scan as an op where all that is asked of it is known here; else what the model has for it.

    Not known are a state that it starts with, or gives, and sequences that are packed.
    """
    known = signature(scan)

    def replaced(*operands: Any, **settings: Any) -> Any:
        stated = {name: value for name, value in settings.items() if value is not None and value is not False}
        plain = {name: value for name, value in stated.items() if name not in WITHOUT_EFFECT}
        try:
            known.bind(*operands, **plain)
        except TypeError:
            return function(*operands, **settings)
        return scan(*operands, **plain)

    return replaced


def _gated_delta_rule(
    query: Any, key: Any, value: Any, g: Any, beta: Any, *, use_qk_l2norm_in_kernel: bool = False
) -> tuple[Any, None]:
    """(batch, sequence, heads, size) in and out. What the kernel normalises is normalised before the op."""
    torch = importlib.import_module("torch")
    if use_qk_l2norm_in_kernel:
        query, key = (_normalised(torch, x) for x in (query, key))
    attrs = {"scale": float(query.shape[-1] ** -0.5)}
    return op("GatedLinearAttention", (query, key, value, g, beta), attrs, value.shape, like=value), None


def _normalised(torch: Any, x: Any) -> Any:
    """Vectors of length 1, as flash-linear-attention makes them: the epsilon is added to the square."""
    exact = x.float()
    return (exact * torch.rsqrt((exact * exact).sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def _state_space(
    hidden_states: Any,
    dt: Any,
    A: Any,  # noqa: N803 - transformers calls it so, as papers do
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    _chunk_size: Any = None,
    D: Any = None,  # noqa: N803
    *,
    z: Any = None,
    dt_bias: Any = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = (0.0, float("inf")),
) -> Any:
    """Mamba-2: (batch, sequence, heads, size) in and out, `B` and `C` of groups of heads."""
    torch = importlib.import_module("torch")
    step = dt if dt_bias is None else dt + dt_bias.to(dt.dtype)
    step = torch.nn.functional.softplus(step) if dt_softplus else step
    if not dt_softplus or tuple(dt_limit) != (0.0, float("inf")):
        step = torch.clamp(step, min=dt_limit[0], max=dt_limit[1])
    step = step.float()
    values = (hidden_states * step.unsqueeze(-1)).to(hidden_states.dtype)
    y = op("GatedLinearAttention", (C, B, values, A.float() * step), {}, values.shape, like=values)
    y = y if D is None else y + D.unsqueeze(-1).to(y.dtype) * hidden_states
    return y if z is None else y * torch.nn.functional.silu(z)


def _selective_scan(
    hidden_states: Any,
    dt: Any,
    A: Any,  # noqa: N803
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    D: Any = None,  # noqa: N803
    z: Any = None,
    delta_bias: Any = None,
    delta_softplus: bool = False,
) -> Any:
    """Mamba: (batch, channels, sequence) in and out, `B` and `C` are (batch, states, sequence)."""
    functional: Any = importlib.import_module("torch.nn.functional")
    step = dt if delta_bias is None else dt + delta_bias.to(dt.dtype)[..., None]
    step = functional.softplus(step) if delta_softplus else step
    y = op("SelectiveScan", (hidden_states, step, A, B, C), {}, hidden_states.shape)
    y = y if D is None else y + hidden_states * D[None, :, None]
    return y if z is None else y * functional.silu(z)


SCANS: dict[str, Callable[..., Any]] = {
    "torch_chunk_gated_delta_rule": _gated_delta_rule,
    "mamba2_chunk_scan": _state_space,
    "mamba_selective_scan": _selective_scan,
}
"""By the name of a function in a family's module, what is called in its place."""
