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


@pytest.mark.parametrize("phrase", TERMS)
def test_the_terms_of_the_field_are_used(phrase):
    found = [
        f"{path.relative_to(ROOT)}:{number}: write {TERMS[phrase]}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if re.search(phrase, line)
    ]
    assert found == []
