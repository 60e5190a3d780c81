"""What the site shows beside the pages of this folder: references made of the definitions, and the repository's pages.

mkdocs calls the functions whose names begin with `on_` (`hooks` in mkdocs.yml). Nothing is written into this folder.
A link from a page to a file outside this folder leads to that file's page here, if it has one, else it is plain text.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import posixpath
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

TAKEN_IN = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "examples/walkthrough.md": "walkthrough.md",
    "examples/README.md": "examples.md",
    "examples/strategies/README.md": "strategies.md",
    "examples/plugin/README.md": "plugin.md",
    "distir/cost/profiles/README.md": "reference/hardware.md",
    "docs/accuracy.md": "accuracy.md",
    "docs/calibration.md": "calibration.md",
}
"""Pages of the repository that are pages of the site, where they exist."""

MADE_OF = {
    "distir/cli/app.py": "reference/commands.md",
    "distir/transform/all_steps.py": "reference/steps.md",
    "distir/ops": "reference/ops.md",
    "distir/ops/signature.py": "reference/signatures.md",
    "distir/diagnostics/codes": "reference/diagnostics.md",
}
"""Definitions that pages are made of: a link to them leads there, and in the repository to the definitions."""

PLACES = {
    "First steps": ("examples/README.md", "examples/strategies/README.md"),
    "How to": ("docs/calibration.md", "examples/plugin/README.md"),
    "Explanation": ("docs/accuracy.md",),
    "Project": ("SECURITY.md", "CHANGELOG.md"),
}
"""Those that mkdocs.yml does not name, by section."""

LINK = re.compile(r"(?<!!)\[([^\]\[]*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"(^(?:```|~~~).*?^(?:```|~~~)$)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Pages of the repository have their place in the navigation, if they are there."""
    for section, sources in PLACES.items():
        pages: list[str] = next(entry[section] for entry in config["nav"] if section in entry and entry != section)
        pages += [TAKEN_IN[source] for source in sources if (ROOT / source).exists()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages."""
    from mkdocs.structure.files import File

    for source, page in TAKEN_IN.items():
        if (ROOT / source).exists() and not source.startswith("docs/"):
            files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for page, written in PAGES.items():
        files.append(File.generated(config, page, content=written()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links as they are on the site, and the API functions on the page on Python."""
    del config
    here = page.file.src_uri
    source = next((source for source, target in TAKEN_IN.items() if target == here), f"docs/{here}")
    if here == "reference/python.md":
        markdown = markdown.replace("<!-- functions -->", api())
    parts = FENCE.split(markdown)
    known = {file.src_uri for file in files}
    parts[::2] = [LINK.sub(lambda found: _link(found, source, here, known), part) for part in parts[::2]]
    return "".join(parts)


def _link(found: re.Match[str], source: str, here: str, known: set[str]) -> str:
    """A link of the file `source`, which is the page `here`."""
    text, target = found.groups()
    path, hash_, anchor = target.partition("#")
    if not path or re.match(r"\w+:", path):
        return found.group()
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    to = TAKEN_IN.get(wanted) or TAKEN_IN.get(f"{wanted}/README.md") or MADE_OF.get(wanted)
    to = to or wanted.removeprefix("docs/")
    inside = wanted.startswith("docs/")
    if to not in known:
        return found.group() if inside else text  # mkdocs complains of a page that is not there
    return f"[{text}]({os.path.relpath(to, posixpath.dirname(here) or '.')}{hash_}{anchor})"


def commands() -> str:
    """The help of every command, as it is printed."""
    from distir.cli.app import COMMANDS

    parts = ["# Commands", "The output of `distir --help` and `distir COMMAND --help`.", _block(_printed(["--help"]))]
    for name in COMMANDS:
        parts += [f"## `distir {name}` {{#{name}}}", _block(_printed([name, "--help"]))]
    return _page(parts)


def steps() -> str:
    """The steps of `distir transform`, with their options."""
    from distir.transform.all_steps import STEPS

    parts = [
        "# Steps",
        "The steps of `distir transform`, in alphabetical order; `distir transform --list` prints the same.",
    ]
    for name, step in sorted(STEPS.items()):
        parts += [f"## `{name}` {{#{name}}}", *_paragraphs(step.documentation)]
        rows = [(f"`{o.name}`", f"`{o.kind}`", "required" if o.required else f"`{o.default}`") for o in _options(step)]
        parts += [_table(("option", "kind", "default"), rows)] if rows else []
    return _page([*parts, *_schedules(), *_strategies()])


def _schedules() -> list[str]:
    from distir.transform.pipeline import SCHEDULES

    parts = ["## Pipeline schedules {#schedules}", "The values of `schedule` for `pp`, `dtp` and `search`."]
    for name, schedule in SCHEDULES.items():
        parts += [f"### `{name}` {{#{name}}}", *_paragraphs(inspect.getdoc(schedule.rule) or "")]
    return parts


def _strategies() -> list[str]:
    """What is declared of the fields of a strategy."""
    from distir.transform.strategy import FIELDS

    rows: list[tuple[str, ...]] = []
    for name, field in FIELDS.items():
        asked, needs = field.asked, [need.what.partition(",")[0] for need in field.asked.needs] if field.asked else []
        option = (f"`--{asked.flag}`", asked.help) if asked is not None else ("", "")
        own = (f"`{name}`", f"`{field.default!r}`", f"`{field.step}`", f"`{field.column}`")
        rows.append((*own, *option, " and ".join(needs)))
    head = ("field", "default", "step", "column of rows", "option of `search`", "what is tried", "for")
    return [
        "## Strategies {#strategies}",
        "The fields of `distir.transform.Strategy`: `apply(module, strategy)` applies the steps that say them. "
        "A search tries values of those that have an option.",
        _table(head, rows),
    ]


def _options(step: Any) -> list[Any]:
    return list(step.options.values())


def ops() -> str:
    """Every op that has a definition of its own, by family, and the names of those that ONNX defines."""
    from distir.ops import OPS
    from distir.ops.bridge import FAMILIES

    all_ops = [OPS[name] for name in OPS]
    parts = [
        "# Ops",
        "All built-in ops; `distir ops NAME` prints the same. [Signatures](signatures.md) explains the notation.",
    ]
    for family in sorted({op.family for op in all_ops}):
        parts += [f"## {family}"]
        for op in sorted((op for op in all_ops if op.family == family), key=lambda op: op.name):
            parts += [f"### {op.name}", op.documentation, _block("\n".join(op.signature_texts))]
            parts += [f"No gradient: {op.non_differentiable}."] if op.non_differentiable is not None else []
            rows = [
                (f"`{a.name}`", f"`{a.kind}`", _default(a.default), ", ".join(f"`{x}`" for x in a.aliases))
                for a in op.attributes.values()
            ]
            parts += [_table(("attribute", "kind", "default", "aliases"), rows)] if rows else []
            parts += [_block("\n".join(op.examples))] if op.examples else []
    parts += ["## Ops from the onnx package", "They have their ONNX names; see [ONNX's ops](../onnx-ops.md)."]
    families = sorted({meaning.family for meaning in FAMILIES.values()})
    named = [(f, [name for name, meaning in sorted(FAMILIES.items()) if meaning.family == f]) for f in families]
    parts += [_table(("family", "ops"), [(f, " ".join(f"`{name}`" for name in names)) for f, names in named])]
    return _page(parts)


def _default(value: Any) -> str:
    from distir.ops import REQUIRED
    from distir.syntax import print_literal

    if value is REQUIRED:
        return "required"
    return "none" if value is None else f"`{print_literal(value)}`"


def signatures() -> str:
    """The notation of signatures, from the module that reads it."""
    from distir.ops import core, signature

    notation, definition = inspect.getdoc(signature) or "", inspect.getdoc(core) or ""
    return _page(["# Signatures", *_paragraphs(notation), "## What else an op declares", *_paragraphs(definition)])


def diagnostics() -> str:
    """Every code, with its documentation."""
    from distir.diagnostics.explain import all_codes

    parts = [
        "# Diagnostics",
        "Diagnostics have numbers, which are stable across versions; `distir explain DIR301` prints the same.",
    ]
    for number, code in sorted(all_codes().items()):
        parts += [f"## {number}: {code.name} {{#{number}}}", f"*{code.severity}*", code.documentation]
    return _page(parts)


def api() -> str:
    """The functions that `import distir` gives, with their documentation."""
    import distir

    parts: list[str] = []
    for name in sorted(distir.__all__, key=str.lower):
        value = getattr(distir, name)
        if inspect.isfunction(value):
            signature = re.sub(r"'([^']*)'", r"\1", str(inspect.signature(value)))
            parts += [
                f"### `distir.{name}` {{#{name}}}",
                _block(f"{name}{_broken(signature)}"),
                inspect.getdoc(value) or "",
            ]
    return "\n\n".join(parts)


def _broken(signature: str) -> str:
    """A signature on lines of its own where it is long."""
    if len(signature) < 80:
        return signature
    inside, close, result = signature[1:].rpartition(")")
    names = re.split(r", (?=\*|\w+:|\w+=)", inside)
    return "(\n" + "".join(f"    {name},\n" for name in names) + close + result


PAGES: dict[str, Callable[[], str]] = {
    "reference/commands.md": commands,
    "reference/steps.md": steps,
    "reference/ops.md": ops,
    "reference/signatures.md": signatures,
    "reference/diagnostics.md": diagnostics,
}
"""The pages that are made of definitions."""


def _printed(words: list[str]) -> str:
    from distir.cli import main

    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(printed):
            main(words)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return printed.getvalue()


def _paragraphs(documentation: str) -> Iterator[str]:
    """A docstring as markdown: indented paragraphs are code already."""
    yield from documentation.split("\n\n")


def _block(text: str) -> str:
    return f"```text\n{text.strip()}\n```"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _page(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"
