"""Why PyTorch cannot export a module: what it says, the module and the line of Python that it says it of, what to do.

The exporter runs the user's code and reports what happened inside itself; a user wants to know where in the model.
"""

from __future__ import annotations

import importlib
import linecache
import os
import re
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from distir.importers.core import ImportRefused

BRANCHES = "data-dependent", "GuardOnDataDependent"
OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@contextmanager
def refusing(what: str, nn_module: Any = None, program: Any = None) -> Generator[None]:
    """Whatever is raised as ImportRefused; `what` says what could not be done, `program` is what was to be exported."""
    try:
        yield
    except ImportRefused:
        raise
    except Exception as error:  # the exporter runs the user's code: whatever that raises
        first: BaseException = error
        while first.__cause__ is not None:
            first = first.__cause__
        said = next((line.strip() for line in str(first).splitlines() if line.strip()), type(first).__name__)
        where = _of_node(program, str(error)) if program is not None else _of_frames(first, nn_module)
        advice = _advice(f"{type(first).__name__} {first}")
        if advice is None and program is None and nn_module is not None:
            advice = "see that the module runs on these inputs, on the meta device too, where tensors have no values"
        raise ImportRefused(f"{what}: {said}{where and f' ({where})'}", advice) from error


def _advice(said: str) -> str | None:
    if any(words in said for words in BRANCHES):
        return "what the module does depends on values of tensors: choose with `torch.where`, or export a part of it"
    if "No ONNX function found" in said or "No decompositions registered" in said:
        return "write this op of PyTorch with others, or switch to an implementation of the layer that does"
    return None


def _of_node(program: Any, said: str) -> str:
    """The place that a node of an exported program comes from, which an error of its translation names."""
    named = re.search(r"translating node %(\w+)", said)
    target = re.search(r"target=torch\.ops\.([\w.]+)", said) or re.search(r"OpOverload\(op='([\w.:]+)'", said)
    wanted = target.group(1).replace("::", ".") if target else ""
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    node = next((n for n in nodes if named and n.name == named.group(1)), None)
    node = node or next((n for n in nodes if wanted and str(n.target).startswith(wanted)), None)
    if node is None:
        return ""
    meta: dict[str, Any] = node.meta
    modules: list[tuple[str, Any]] = [*meta.get("nn_module_stack", {}).values()]
    lines: list[tuple[str, str]] = re.findall(r'File "([^"]+)", line (\d+)', meta.get("stack_trace") or "")
    return _described(modules[-1][0] if modules else "", _kind(modules[-1][1]) if modules else "", lines[-1:])


def _kind(cls: Any) -> str:
    return cls.rpartition(".")[2] if isinstance(cls, str) else cls.__name__


def _of_frames(error: BaseException, nn_module: Any) -> str:
    """The last line of the user's Python that was running, and the module whose `forward` it is in."""
    if nn_module is None:
        return ""
    torch: Any = importlib.import_module("torch")
    theirs = os.path.dirname(os.path.abspath(str(torch.__file__)))
    names: dict[int, str] = {id(part): name for name, part in nn_module.named_modules()}
    path, kind = "", ""
    line: list[tuple[str, str]] = []
    for frame, number in traceback.walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        holder = frame.f_locals.get("self")
        if id(holder) in names:
            path, kind = names[id(holder)], type(holder).__name__
        if os.path.isfile(file) and not os.path.abspath(file).startswith((theirs + os.sep, OURS + os.sep)):
            line = [(file, str(number))]
    return _described(path, kind, line)


def _described(path: str, kind: str, lines: list[tuple[str, str]]) -> str:
    """`model.layers.0.mlp` (LlamaMLP), modeling.py line 12: `code`."""
    module = f"in `{path}`, a {kind}" if path and kind else f"in {kind}" if kind else ""
    if not lines:
        return module
    file, number = lines[0]
    code = linecache.getline(file, int(number)).strip()
    line = f"{file}, line {number}{code and f': `{code}`'}"
    return f"{module}; {line}" if module else line
