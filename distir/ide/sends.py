"""Values that are needed on another device: the `Send` that copies them there, new or already in the function."""

from __future__ import annotations

from distir.ir import Apply, Attributes, Function


def sent_before(function: Function, index: int, name: str, device: int) -> str | None:
    """The copy of a value on a device that a `Send` before statement `index` has made; None without one."""
    sends = (s for s in function.body[:index] if isinstance(s, Apply) and s.op == "Send" and s.args == (name,))
    return next((s.results[0] for s in sends if s.attrs.get("device") == device and s.results[0]), None)


def send(name: str, device: int, sent: str) -> Apply:
    """The statement that sends a value; `sent` is its name on the other device."""
    return Apply((sent,), "Send", (name,), Attributes({"device": device}))


def name_there(name: str, device: int) -> str:
    """The preferred name of a value on another device."""
    return f"{name}.{device}"
