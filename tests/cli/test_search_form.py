"""The editor's form of a search is made from the options of the command: `--bless` writes it anew."""

import inspect
import json
from dataclasses import asdict
from pathlib import Path

from distir.cli import named
from distir.cli.forms import form_of
from distir.cli.search import search

FORM = Path(__file__).parents[2] / "vscode-extension/src/commands/search-options.ts"

HEAD = """\
// The options of `distir search` that its form asks for. Made from `distir/cli/search.py`: `make bless` writes it anew.

export interface SearchOption {
  readonly name: string;
  readonly label: string;
  readonly detail: string;
  readonly kind: "number" | "factor" | "numbers" | "pairs" | "switch" | "flag" | "choice" | "text";
  readonly choices: readonly string[];
}

export const SEARCH_OPTIONS: readonly SearchOption[] = [
"""


def as_typescript(fields):
    lines = (f"  {json.dumps(asdict(field), ensure_ascii=False)},\n" for field in fields)
    return HEAD + "".join(lines) + "];\n"


def test_the_form_is_made_from_the_options(request):
    made = as_typescript(form_of(search))
    if request.config.getoption("--bless"):
        FORM.write_text(made, encoding="utf-8")
    assert FORM.read_text(encoding="utf-8") == made


def test_all_that_can_be_searched_for_is_asked_for():
    """But for what the editor's own pickers choose, what is listed and written, and the sizes of models by name."""
    elsewhere = {"model", "hardware", "nodes", *named.OPTIONS}
    listed = {"top", "pareto", "tokens", "price", "power", "explain", "as_json", "progress", "export", "row", "plot"}
    listed |= {"prove", "prove_timeout"}
    written = {"csv", "resume", "measure", "measure_backend", "measure_timeout"}
    fields = {field.name.replace("-", "_"): field for field in form_of(search)}
    assert set(fields) == set(inspect.signature(search).parameters) - elsewhere - listed - written
    assert all(field.label and field.detail for field in fields.values())
    kinds = {name: fields[name].kind for name in ("tp", "fuse", "all_divisors", "bind", "method", "seed", "skew")}
    assert list(kinds.values()) == ["numbers", "switch", "flag", "pairs", "choice", "number", "factor"]
    assert fields["method"].choices == ("grid", "bounded", "anneal")
