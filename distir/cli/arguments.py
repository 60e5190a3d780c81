"""Parses command lines with typer, and converts its errors to messages in our style.

Knows no commands. A command is a function whose annotated parameters are its arguments and options, and whose docstring
is its help.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, cast

import typer
from typer.core import TyperGroup

UsageError = cast("type[Exception]", typer.BadParameter.__base__)
"""typer's exception for invalid arguments."""


Groups = Mapping[str, Sequence[str]]
"""Names of commands by the title under which the help lists them."""


def call(
    words: list[str], groups: Groups, command: Callable[[str], Callable[..., int]], about: Callable[..., None]
) -> int:
    """Call the command that `words` name, and give its exit code.

    `command` gives one by its name. `about`: the options that stand before a command.

    Raises UsageError, and what the command raises; BrokenPipeError, too.
    """
    names = [name for group in groups.values() for name in group]
    app = typer.Typer(cls=_listed_in(groups), rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback(help=_help(about))(about)
    # typer reads the parameters of all commands that it knows: of one alone, where that is named.
    for name in words[:1] if words[0] in names else names:
        called = command(name)
        app.command(name, help=_help(called))(called)
    built = typer.main.get_command(app)
    _take_as_given(built)
    try:
        code = built.main(args=words, prog_name="distir", standalone_mode=False)
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # the reader has closed the pipe: typer exits with 1
            raise ended.__context__ from None
        raise
    return code if isinstance(code, int) else 0


def taking(
    name: str, options: Mapping[str, Any], gathered: Callable[[dict[str, Any]], Any]
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator of commands: `options`, annotated, are in the place of the parameter `name`.

    The command gets there what is `gathered` of their values, each None where it is not given.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = inspect.signature(command, eval_str=True)
        params: list[inspect.Parameter] = []
        for param in own.parameters.values():
            if param.name == name:
                params += [inspect.Parameter(n, param.kind, default=None, annotation=a) for n, a in options.items()]
            else:
                params.append(param)

        @wraps(command)
        def called(**values: Any) -> int:
            mine = {option: values.pop(option) for option in options}
            return command(**values, **{name: gathered(mine)})

        del called.__wrapped__  # whose parameters typer would read
        called.__signature__ = own.replace(parameters=params)  # pyright: ignore[reportAttributeAccessIssue]: inspect reads it
        called.__annotations__ = {p.name: p.annotation for p in params}
        return called

    return decorate


def complaint(error: Exception) -> tuple[str, str]:
    """A UsageError as a message in our style, with help."""
    message: str = getattr(error, "format_message", error.__str__)().rstrip(".")
    message = re.sub(r"'([^']*)'", r"`\1`", message)
    message, _, meant = message.partition(". Did you mean ")
    command: str = getattr(getattr(error, "ctx", None), "command_path", "distir")
    hint = f"did you mean {meant}" if meant else f"`{command} --help` shows what can be given"
    return message[:1].lower() + message[1:], hint


def _listed_in(groups: Groups) -> type[TyperGroup]:
    """A group whose help lists its commands under their titles, in as wide columns."""
    width = max(len(name) for group in groups.values() for name in group)

    class Listed(TyperGroup):
        def format_commands(self, ctx: Any, formatter: Any) -> None:
            for title, group in groups.items():
                with formatter.section(title):
                    found = [self.commands[name] for name in group]
                    limit = formatter.width - 6 - width
                    rows = [(f"{inner.name:<{width}}", inner.get_short_help_str(limit)) for inner in found]
                    formatter.write_dl(rows)

    return Listed


def _help(command: Callable[..., object]) -> str:
    r"""A docstring as help. Indented paragraphs are kept as they are, which `\b` asks for."""
    return re.sub(r"\n\n(?= {4})", "\n\n\b\n", inspect.getdoc(command) or "")


def _nothing(ctx: object) -> None:
    del ctx


class _AsGiven:
    """A parameter type for typer that accepts values of its type unchanged."""

    def __init__(self, annotation: Any, validated: Callable[[], Any]) -> None:
        self.plain = annotation in (bool, str, list[str])
        self.annotation = annotation
        self.validated = validated

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        is_given = getattr(ctx.get_parameter_source(param.name), "name", "") != "DEFAULT"
        if is_given and (value == "" or ((param.multiple or param.nargs == -1) and "" in value)):
            raise typer.BadParameter("expected a value, found an empty one", param=param)
        if self.plain or type(value) is self.annotation:  # else words that are to be a number: of a default, it is one
            return value
        return self.validated().coerce(value, param=param, ctx=ctx)


def _take_as_given(command: Any) -> None:
    """Let texts, switches and defaults be taken as they are, and named in the help as we name them, without `<str>`.

    typer has each validated by pydantic, which takes 50 ms to load, a fifth of what `distir check` takes. Both methods
    that are answered here are public; a typer without them is left alone.
    """
    for param in command.get_params(typer.Context(command)):
        if param.param_type_name == "argument" and hasattr(param, "display_type_rich"):
            param.display_type_rich = _nothing
        annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        if annotation is not None and hasattr(param, "get_runtime_param"):
            as_given = _AsGiven(annotation, param.get_runtime_param)
            param.get_runtime_param = lambda as_given=as_given: as_given
    for inner in getattr(command, "commands", {}).values():
        _take_as_given(inner)
