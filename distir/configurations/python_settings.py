"""Settings of a configuration written in Python: functions that make one, or change one. Nothing is run.

Read are calls with keyword arguments, as `Trainer.Config(training=TrainingConfig(seq_len=8192))`, assignments to what
they make, as `config.training.seq_len = 8192`, and functions of the file that return one. Whatever else a function says
of its configuration is reported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from distir.configurations.options import ConfigurationError, Remark, Setting
from distir.diagnostics.spelling import nearest

MADE_BY: Final = "made_by"
"""The option that has the name of what makes a part, as `training.made_by` is `TrainingConfig`."""

CHOICE: Final = "config"
"""The variable of a caller that names the function, where a file has several."""

DEEPEST: Final = 20
"""Functions that call each other, and parts within parts."""


@dataclass(slots=True)
class PythonSettings:
    """What a file says: the settings of a function, its name, and what of it is not read; `others`: like functions."""

    name: str
    others: list[str]
    settings: dict[str, Setting] = field(default_factory=dict[str, Setting])
    notes: list[Remark] = field(default_factory=list[Remark])
    modules: Mapping[str, str] = field(default_factory=dict[str, str])


def of_python(text: str, path: str, chosen: str | None) -> PythonSettings:
    """The configuration that a function of a file makes: `chosen`, or the only one. Raises ConfigurationError."""
    tree = parsed(text, path)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    makers = [name for name, node in functions.items() if not name.startswith("_") and _makes_one(node, functions)]
    if chosen is not None and chosen not in functions:
        near = nearest(chosen, makers)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(makers[:20])}"
        raise ConfigurationError(f"{path}: there is no function `{chosen}`", hint)
    if chosen is None and len(makers) != 1:
        if not makers:
            raise ConfigurationError(f"{path}: no function returns a configuration, as `Trainer.Config(…)`")
        listed = ", ".join(makers[:20]) + (", …" if len(makers) > 20 else "")
        hint = f"name one with `--set {CHOICE}=…`: {listed}"
        raise ConfigurationError(f"{path}: it has {len(makers)} configurations", hint)
    name = chosen or makers[0]
    reader = _Reader(path, functions, constants_of(tree))
    settings = reader.result(functions[name], 0)
    return PythonSettings(name, makers, settings, reader.notes, dict(_imported(tree)))


def parsed(text: str, path: str) -> ast.Module:
    """The statements of a file. Raises ConfigurationError."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        raise ConfigurationError(f"{path}:{error.lineno or 1}: no Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise ConfigurationError(f"{path}: a value is too long or nested too deep") from None


def constants_of(tree: ast.Module) -> dict[str, ast.expr]:
    """What a file assigns to names outside of functions."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _makes_one(node: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether a function returns a configuration: one that it makes, that of another function, or its argument."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Return) and inner.value is not None:
            value = inner.value
            if isinstance(value, ast.Call):
                called = ast.unparse(value.func)
                return called in functions or called.endswith(("Config", "Config.Config", "JobConfig"))
            arguments = [argument.arg for argument in node.args.args]
            if isinstance(value, ast.Name):
                return value.id in arguments or _is_made(value.id, node, functions)
    return False


def _is_made(name: str, node: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef]) -> bool:
    return any(
        isinstance(inner, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == name for target in inner.targets)
        and isinstance(inner.value, ast.Call)
        and (ast.unparse(inner.value.func) in functions or ast.unparse(inner.value.func).endswith("Config"))
        for inner in node.body
    )


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The module that a name is imported from, by name."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, node.module or "") for alias in node.names)


@dataclass(slots=True)
class _Reader:
    """Functions being read. `constants`: what the file sets outside of them."""

    path: str
    functions: Mapping[str, ast.FunctionDef]
    constants: Mapping[str, ast.expr]
    notes: list[Remark] = field(default_factory=list[Remark])

    def result(self, function: ast.FunctionDef, depth: int) -> dict[str, Setting]:
        """The settings of what a function returns. Raises ConfigurationError where that is made elsewhere."""
        made: dict[str, dict[str, Setting]] = {argument.arg: {} for argument in function.args.args}
        local: dict[str, ast.expr] = dict(self.constants)
        for statement in function.body:
            match statement:
                case ast.Return(value=ast.Name(id=name)) if name in made:
                    return made[name]
                case ast.Return(value=ast.Call() as call) if self._is_read(call):
                    return self._called(call, local, depth)
                case ast.Return():
                    break
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call) if self._is_read(call):
                    made[name] = self._called(call, local, depth)
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    local[name] = value
                case ast.Assign(targets=[ast.Attribute() as target], value=value):
                    self._set(target, value, made, local, depth)
                case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.FunctionDef() | ast.Pass() | ast.ImportFrom():
                    pass
                case _:
                    if {
                        name for name in made if name in {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
                    }:
                        words = ast.unparse(statement).splitlines()[0][:60]
                        self.notes.append(Remark(f"not read: `{words}`", statement.lineno))
        message = f"what `{function.name}` returns is made by what this file does not have"
        raise ConfigurationError(f"{self.path}:{function.lineno}: {message}", "read the file that makes it")

    def _is_read(self, call: ast.Call) -> bool:
        """Whether a call is of a function of the file, or makes a configuration by itself."""
        called = ast.unparse(call.func)
        is_whole = called.endswith("Config") and any(keyword.arg == "training" for keyword in call.keywords)
        return called in self.functions or is_whole or called.endswith(("Trainer.Config", "JobConfig"))

    def _called(self, call: ast.Call, local: Mapping[str, ast.expr], depth: int) -> dict[str, Setting]:
        if isinstance(call.func, ast.Name) and call.func.id in self.functions:
            return dict(self.result(self.functions[call.func.id], depth + 1)) if depth < DEEPEST else {}
        return dict(flattened(call, local))

    def _set(
        self,
        target: ast.Attribute,
        value: ast.expr,
        made: Mapping[str, dict[str, Setting]],
        local: Mapping[str, ast.expr],
        depth: int,
    ) -> None:
        """Assign a part of a configuration, in place of what it was."""
        owner, _, name = ast.unparse(target).partition(".")
        if owner not in made:
            return
        settings = made[owner]
        for known in [known for known in settings if f"{known}.".startswith(f"{name}.")]:
            del settings[known]
        settings.update(flattened(value, local, name, depth))


def flattened(
    value: ast.expr, local: Mapping[str, ast.expr], name: str = "", depth: int = 0
) -> Iterator[tuple[str, Setting]]:
    """The settings of a value: of the arguments of a call each by itself, and what is called."""
    if isinstance(value, ast.Name) and value.id in local and depth < DEEPEST:
        value = local[value.id]
    if isinstance(value, ast.Call) and depth < DEEPEST:
        made_by = ast.unparse(value.func).removesuffix(".Config").rpartition(".")[2]
        if name:
            yield f"{name}.{MADE_BY}", Setting(made_by, value.lineno)
        for index, argument in enumerate(value.args):
            yield from flattened(argument, local, f"{name}.{index}" if name else str(index), depth + 1)
        for key, argument in _named(value.keywords, local):
            yield from flattened(argument, local, f"{name}.{key}" if name else key, depth + 1)
    else:
        yield name, Setting(_constant(value, local), value.lineno)


def _named(keywords: Sequence[ast.keyword], local: Mapping[str, ast.expr]) -> Iterator[tuple[str, ast.expr]]:
    """Arguments by name, those of a table among them, `**base`; as `**TEXT` a table that is elsewhere."""
    for keyword in keywords:
        value = local.get(keyword.value.id) if isinstance(keyword.value, ast.Name) else keyword.value
        match value if keyword.arg is None else None:
            case None if keyword.arg is not None:
                yield keyword.arg, keyword.value
            case ast.Call(func=ast.Name(id="dict"), args=[], keywords=held):
                yield from _named([one for one in held if one.arg is not None], local)
            case ast.Dict(keys=keys, values=values):
                for key, each in zip(keys, values, strict=True):
                    known = key.value if isinstance(key, ast.Constant) else f"**{ast.unparse(key or each)}"
                    yield str(known), each
            case _:
                yield f"**{ast.unparse(keyword.value)}", keyword.value


def _constant(value: ast.expr, local: Mapping[str, ast.expr], depth: int = 0) -> Any:
    """A constant; of a list, what makes each element, if that is a call; the text of what is not known."""
    if depth > DEEPEST:
        return ast.unparse(value)
    match value:
        case ast.Constant(value=found):
            return found
        case ast.Name(id=name) if name in local:
            return _constant(local[name], local, depth + 1)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_constant(element, local, depth + 1) for element in elements]
        case ast.Call(func=function):
            return ast.unparse(function).removesuffix(".Config").rpartition(".")[2]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _constant(operand, local, depth + 1)
            return -inner if isinstance(inner, (int, float)) else ast.unparse(value)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, other = _constant(left, local, depth + 1), _constant(right, local, depth + 1)
            is_product = isinstance(one, int) and isinstance(other, int)
            return one * other if is_product else ast.unparse(value)
        case _:
            return ast.unparse(value)
