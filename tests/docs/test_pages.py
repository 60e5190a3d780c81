"""What the documentation shows is what happens: all of its code is run."""

import re
import sys

import pytest
from page_samples import ROOT, Reader, blocks

from distir.cli.app import COMMANDS

README = (ROOT / "README.md").read_text()
RUN_ELSEWHERE = {
    "accuracy.md": "tests/cost",
    "calibration.md": "tests/cost",
    "editors.md": "tests/lsp",
    "lowering.md": "tests/lower",
    "lsp-requests.md": "tests/lsp",
}
"""Pages whose code the tests of their subject run."""

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "walkthrough.md",
    ROOT / "examples" / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name not in RUN_ELSEWHERE),
]


@pytest.fixture
def reader(tmp_path, capsys, monkeypatch):
    """A folder beside the examples, where what a page imports is forgotten afterwards."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = set(sys.modules)
    yield Reader(tmp_path, capsys)
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def registries(monkeypatch):
    """Ops and steps that a page defines are gone after it."""
    from distir.ops import OPS
    from distir.transform.all_steps import STEPS

    ops, steps = set(OPS), set(STEPS)
    yield
    for name in set(STEPS) - steps:
        del STEPS[name]
    for name in set(OPS) - ops:
        OPS.remove(name)


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_true(page, reader):
    for block in blocks(page.read_text()):
        try:
            reader.follow(block)
        except AssertionError as error:
            raise AssertionError(f"{page.relative_to(ROOT)}, line {block.line}: {error}") from error


@pytest.mark.parametrize("command", [c.__name__.rstrip("_") for c in COMMANDS])
def test_the_readme_names_every_command(command):
    assert f"`distir {command}" in README


def test_the_program_quoted_in_the_walkthrough():
    (quoted,) = (b.text for b in blocks((ROOT / "examples" / "walkthrough.md").read_text()) if b.kind == "")
    assert quoted in (ROOT / "examples" / "strategies" / "mlp_pp_zb_h1.dir").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    made = {"commands", "steps", "ops", "signatures", "diagnostics", "hardware"}
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`(?!\])", "", text)
    for target in re.findall(r"\]\((?!\w+:|#)([^()\s#]+)", text):
        generated = target.endswith(".md") and (page.parent / target).parent.name == "reference"
        if generated and (page.parent / target).stem in made:
            continue  # the site has these; building it checks that
        assert (page.parent / target).exists(), target
