"""Values on another device than the one where they are needed: the `Send` that brings them there, or did so before."""

from __future__ import annotations

from distir.ir import Apply, Attributes, Function


def sent_before(function: Function, index: int, name: str, device: int) -> str | None:
    """The copy of a value on a device that statements before the one at `index` have made; None without one."""
    sends = (s for s in function.body[:index] if isinstance(s, Apply) and s.op == "Send" and s.args == (name,))
    return next((s.results[0] for s in sends if s.attrs.get("device") == device and s.results[0]), None)


def send(name: str, device: int, sent: str) -> Apply:
    """The statement that sends a value; `sent` is its name on the other device."""
    return Apply((sent,), "Send", (name,), Attributes({"device": device}))


def name_there(name: str, device: int) -> str:
    """The preferred name of a value on another device."""
    return f"{name}.{device}"
