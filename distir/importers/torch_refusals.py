"""Why PyTorch cannot export a module: what it says, the module and the line of Python that it says it of, what to do.

The exporter runs the user's code and reports what happened inside itself; a user wants to know where in the model.
"""

from __future__ import annotations

import importlib
import linecache
import os
import re
import traceback
from collections.abc import Container, Generator
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
    return "" if node is None else _place(node)


def _place(node: Any) -> str:
    """The module and the line of Python that a node comes from."""
    meta: dict[str, Any] = node.meta
    modules: list[tuple[str, Any]] = [*meta.get("nn_module_stack", {}).values()]
    path, kind = (modules[-1][0], _kind(modules[-1][1])) if modules else ("", "")
    return _described(path, kind, _lines(meta.get("stack_trace") or "")[-1:])


def _lines(trace: str) -> list[tuple[str, str]]:
    return re.findall(r'File "([^"]+)", line (\d+)', trace)


def place_of_value(model: Any, name: str) -> str:
    """The module and the line of the user's Python that made a value of an exported model."""
    node = next((n for n in model.graph.node if name in n.output), None)
    said = {} if node is None else {entry.key: entry.value for entry in node.metadata_props}
    paths, kinds = (re.findall(r"'([^']*)'", said.get(f"pkg.torch.onnx.{key}", "")) for key in _SCOPES)
    theirs = os.path.dirname(os.path.abspath(str(importlib.import_module("torch").__file__)))
    lines = [line for line in _lines(said.get("pkg.torch.onnx.stack_trace", "")) if not line[0].startswith(theirs)]
    within = len(paths) == len(kinds) > 1  # the last one is the op itself
    return _described(paths[-2] if within else "", _kind(kinds[-2]) if within else "", lines[-1:])


_SCOPES = ("name_scopes", "class_hierarchy")


def written_inputs(program: Any) -> list[tuple[int, str, str]]:
    """The inputs that an exported program writes to in place: their number, their name, and where each is written."""
    given = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    found = _written(program, given)
    if not found:  # most programs; for the others it is computed what is a view, and what a copy
        return []
    mutated = {*program.run_decompositions({}).graph_signature.user_inputs_to_mutate.values()}
    return [(given.index(name), name, place) for name, place in found.items() if name in mutated]


def _written(program: Any, given: Container[str]) -> dict[str, str]:
    """Of these placeholders of a program those that may be written to, and where each is written first."""
    found: dict[str, str] = {}
    for node in program.graph.nodes:
        written = [_base(arg) for arg in _aliased(node, writes=True)]
        found.update((arg.name, _place(node)) for arg in written if arg.name in given and arg.name not in found)
    return found


def _base(node: Any) -> Any:
    """The value that a node may be a view of."""
    while views := _aliased(node, writes=None):
        node = views[0]
    return node


def _aliased(node: Any, writes: bool | None) -> list[Any]:
    """The operands that an op writes to, or that its result may be a view of."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or (writes is None and not _gives_a_view(schema)):
        return []
    args = zip(schema.arguments, node.args, strict=False)
    return [a for stated, a in args if stated.alias_info and hasattr(a, "op") and (not writes or _is_written(stated))]


def _gives_a_view(schema: Any) -> bool:
    return any(result.alias_info for result in schema.returns)


def _is_written(argument: Any) -> bool:
    return bool(argument.alias_info.is_write)


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
