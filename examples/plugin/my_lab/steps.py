"""A step that lowers the precision of messages."""

from dataclasses import replace

from distir.ir import DTYPES, Apply, Attributes, Module
from distir.ir.rewrite import Rewriter
from distir.transform import step


@step
def compress(module: Module, *, dtype: str = "Float16") -> Module:
    """Send Float32 values as `dtype`, and cast them back where they arrive."""
    return Module(_compressed(function, dtype) for function in module)


def _compressed(function, dtype):
    edit = Rewriter(function)
    for number, statement in edit:
        if isinstance(statement, Apply) and statement.op == "Send":
            (value,), (result,) = statement.args, statement.results
            small, there = edit.fresh(f"{result}.small"), edit.fresh(f"{result}.there")
            edit.replace(
                number,
                Apply((small,), "Cast", (value,), Attributes({"to": DTYPES[dtype]})),
                replace(statement, results=(there,), args=(small,), claims=()),
                Apply((result,), "Cast", (there,), Attributes({"to": DTYPES["Float32"]})),
            )
    return edit.done()
