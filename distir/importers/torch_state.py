"""What a forward pass changes of a module: its weights and buffers, found while it runs, and whatever else it holds."""

from __future__ import annotations

import importlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from distir.importers.core import ImportRefused


def state_of(nn_module: Any) -> dict[str, Any]:
    """The weights and buffers of a module by name, each once."""
    return {**dict(nn_module.named_parameters()), **dict(nn_module.named_buffers())}


def held_by(nn_module: Any, name: str) -> Any:
    """A weight or a buffer of a module by its name, as it is now."""
    path, _, own = name.rpartition(".")
    return getattr(nn_module.get_submodule(path), own)


@contextmanager
def changes(nn_module: Any) -> Generator[dict[str, Any]]:
    """What a module makes of its weights and buffers while it runs: those that it writes to, or replaces, by name.

    Raises ImportRefused for what no program can give: data that are exchanged under a tensor, and a tensor that is
    written to and is no buffer.
    """
    tensor, names = importlib.import_module("torch").Tensor, list(state_of(nn_module))
    held: dict[str, tuple[Any, int, int]] = {}
    others: list[tuple[str, Any, int]] = []
    found: dict[str, Any] = {}

    def ahead(module: Any, *_: object) -> None:
        for name in names:
            value = held_by(module, name)
            held[name] = value, value._version, _data(value)
        parts: list[tuple[str, Any]] = [*module.named_modules()]
        own: list[tuple[str, Any]] = []
        for path, part in parts:
            attributes: dict[str, Any] = part.__dict__
            own += [(f"{path}.{name}".lstrip("."), value) for name, value in attributes.items()]
        others[:] = [(name, value, value._version) for name, value in own if isinstance(value, tensor)]

    def behind(module: Any, *_: object) -> None:
        kind = type(module).__name__
        for name, (value, version, data) in held.items():
            now = held_by(module, name)
            if now is value and _data(now) != data:
                raise ImportRefused(
                    f"`{kind}` exchanges the data of `{name}`, of which an export sees nothing",
                    f"let it assign to `{name}`, or write to it with `copy_`",
                )
            if now is not value or now._version != version:
                found[name] = now
        for name, value, version in others:
            if value._version != version:
                raise ImportRefused(
                    f"`{kind}` writes to `{name}`, a tensor that is no buffer",
                    "make it one with `register_buffer`, and it is a result of the program",
                )

    hooks = nn_module.register_forward_pre_hook(ahead), nn_module.register_forward_hook(behind)
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _data(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata
