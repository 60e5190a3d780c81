"""A step that lowers the precision of messages."""

from dataclasses import replace

from distir.ir import DTYPES, Apply, Attributes, Module
from distir.ir.rewrite import in_place_of
from distir.transform import step


@step
def compress(module: Module, *, dtype: str = "Float16") -> Module:
    """Send Float32 values as `dtype`, and cast them back where they arrive."""
    return Module(replace(f, body=tuple(s for statement in f.body for s in _sent(statement, dtype))) for f in module)


def _sent(statement, dtype):
    if not isinstance(statement, Apply) or statement.op != "Send":
        return [statement]
    (value,), (result,) = statement.args, statement.results
    small, there = f"{result}.small", f"{result}.there"
    written = [
        Apply((small,), "Cast", (value,), Attributes({"to": DTYPES[dtype]})),
        Apply((there,), "Send", (small,), statement.attrs),
        Apply((result,), "Cast", (there,), Attributes({"to": DTYPES["Float32"]})),
    ]
    return in_place_of(statement, written)
