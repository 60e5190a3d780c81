"""One term for one thing, in messages, helps and pages: that of the field."""

import re

import pytest
from page_samples import ROOT

TERMS = {
    r"where the dice": "random seed",
    r"\bcannot be(\"| is a row|: the row| are left out)|\"none can be\"": "infeasible",
    r"times as fast( as A|\)|\])": "1.08× faster, 1.08× slower",
    r"\"of the time\"|idle +of the time": "idle",
    r"front of memory against": "Pareto front",
    r"scores (along|with)": "logits",
    r"slips? of the pen": "typo",
}
"""Phrases that nobody in the field would look for, with what to write."""

TEXTS = [
    path
    for folder in ("distir", "lsp", "docs", "examples", "vscode-extension/src")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".py", ".md", ".ts", ".toml", ".yml") and "node_modules" not in path.parts
] + [ROOT / "README.md", ROOT / "action.yml", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]


PLAIN = {
    r"\b([Nn]o|[Ss]ome|[Aa]ny)body\b|\b[Ww]hoever\b": "name it: another device, a user, a reader",
    r"\b[Ll]ook(s|ed|ing)? at\b": "visits, checks, simulates, ignored",
    r"\btold\b": "reports, reported, derived from",
    r"\bseen to\b": "handled",
    r"\b[Ww]hat becomes of\b|\band what not\b": "name it",
    r"\b(go|goes|went) on\b": "continue",
    r"\b(take|takes|took|taken) over\b": "donate, alias",
    r"\b[Oo]n the way (back|forward)\b|\bthe way (back|forward)\b": "the backward pass, the forward pass",
    r"\b[Ww]ait(s|ed)? for each other for ever\b": "deadlock",
    r"\bstands? (in|at|beside|for|on|behind|there|under|above|below)\b": "is in, is at, represents",
    r"\b[Ss]ay so\b|\bas was said\b": "declare it",
    r"\bof your own\b": "custom",
    r"\b([Cc]omes?|came) in (as|by|within)\b|\b[Cc]annot come in\b": "is imported, becomes",
    r"\b(model|rank|token|score)s? wants\b|\bcaps of scores\b": "logit softcapping",
    r"\b(a|small|multi-layer) perceptrons?\b|\bof perceptrons?\b": "MLP",
    r"\bleaves? something (heavy )?whole\b|\bstays? whole\b": "replicated",
    r"\btruth values?\b": "Booleans",
    r"\bmost memory of a device\b": "peak memory of a device",
    r"\bwatched op by op\b|\bwatched one by one\b": "profiled op by op",
    r"\bgiven back\b": "freed, returned to the allocator",
    r"\bnothing wrong in\b|\bfound wrong\b": "has errors",
    r"\b[Mm]akes? (a|another) (program|training step) of\b": "derive, import",
    r"\b(step|program|time) of training\b|\bsteps? of training\b": "training step",
    r"\bhangs? on\b": "depends on",
    r"\bever other\b": "various, cached",
    r"\b[Ww]hat (came|comes) of\b|\b(is|was|are) kept of (a|it|them)\b": "name it: result, state, residuals",
    r"\bthrough and through\b": "all leaves",
    r"\bdealt out\b": "distributed",
    r"\bat odds\b": "conflict, do not match",
    r"\bhand(s|ed)? on\b": "passes on",
    r"\bworth while\b": "useful, profitable",
}
"""Wordings that readers of pages, helps and messages had to decode, with what to write."""

ROOMS = (
    *(
        "analysis",
        "cli",
        "config",
        "configurations",
        "cost",
        "diagnostics",
        "files",
        "ide",
        "importers",
        "ir",
        "lower",
        "models",
        "ops",
        "search",
    ),
    *("simulate", "syntax", "traces", "transform", "validate"),
)

READ = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "examples").rglob("*.md"),
    ROOT / "vscode-extension" / "README.md",
    *(ROOT / "vscode-extension" / "walkthrough").glob("*.md"),
    *(ROOT / "lsp").rglob("*.py"),
    *(ROOT / "vscode-extension" / "src").rglob("*.ts"),
    *(ROOT / "vscode-extension" / "timeline" / "src").rglob("*.ts"),
    *(path for room in ROOMS for path in (ROOT / "distir" / room).rglob("*.py")),
    *(ROOT / "distir" / "lower" / "templates").glob("*.txt"),
    ROOT / "action.yml",
    ROOT / "distir" / "api.py",
    ROOT / "distir" / "cost" / "profiles" / "README.md",
    ROOT / "lsp" / "README.md",
    ROOT / "vscode-extension" / "package.json",
    ROOT / "vscode-extension" / "timeline" / "README.md",
]
"""What users read: pages, helps, messages, lowered programs; and the code of packages, server and extension."""


def uses(phrase, write, paths):
    """Where a phrase is used, also where a line ends within it."""
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for found in re.finditer(phrase.replace(" ", r"\s+"), text):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{path.relative_to(ROOT)}:{line}: `{found.group()}`; write: {write}"


@pytest.mark.parametrize("phrase", TERMS)
def test_the_terms_of_the_field_are_used(phrase):
    found = [
        f"{path.relative_to(ROOT)}:{number}: write {TERMS[phrase]}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(phrase, line)
    ]
    assert found == []


@pytest.mark.parametrize("phrase", PLAIN)
def test_pages_and_helps_are_plain(phrase):
    assert list(uses(phrase, PLAIN[phrase], READ)) == []
