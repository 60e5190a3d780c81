"""What the documentation shows is what happens: all of its code is run. `--bless` writes what is printed now."""

import re
import shlex
import sys

import pytest
from page_samples import FENCE, ROOT, Reader, assert_exists, blocks, left_out, renewed

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
    ROOT / "examples" / "plugin" / "README.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name not in RUN_ELSEWHERE),
]


@pytest.fixture
def reader(tmp_path, capsys, monkeypatch, pytestconfig):
    """A folder beside the examples, where what a page imports is forgotten afterwards."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = set(sys.modules)
    yield Reader(tmp_path, capsys, pytestconfig.getoption("--bless"))
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def registries(monkeypatch):
    """What a page registers (an op, a step, a schedule, an optimizer) is gone after it."""
    from distir.ir.registry import Registry
    from distir.transform.all_steps import STEPS

    assert [*STEPS]  # which imports their modules: other registries are there
    modules = [module for name, module in sys.modules.items() if name.startswith("distir.")]
    registries = {id(value): value for m in modules for value in vars(m).values() if isinstance(value, Registry)}
    held = [(registry, set(registry)) for registry in registries.values()]
    yield
    for registry, before in held:
        for name in set(registry) - before:
            del registry[name]


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_true(page, reader):
    for block in blocks(page.read_text()):
        try:
            reader.follow(block)
        except AssertionError as error:
            raise AssertionError(f"{page.relative_to(ROOT)}, line {block.line}: {error}") from error
    if reader.differing:
        page.write_text(reader.renew(page.read_text()))


def test_commands_within_sentences_exist():
    pages = [
        ROOT / "README.md",
        *(page for part in ("docs", "examples", "distir") for page in (ROOT / part).rglob("*.md")),
    ]
    found = [
        (page, command)
        for page in pages
        for command in re.findall(r"`distir ([^`]+)`", FENCE.sub("", page.read_text()))
    ]
    assert len(found) > 100
    for page, command in found:
        try:
            assert_exists(shlex.split(command))
        except AssertionError as error:
            raise AssertionError(f"{page.relative_to(ROOT)}: {error}") from error


SHOWN = "@main on here\n…\ndevice     busy   peak memory\n     1   8.80ms   239MB (0.3%)\n…\n1.591e+04/s at most\n"
PRINTED = (
    "@main on here\n9ms latency\n\ndevice    busy    peak memory\n"
    "     1     9s   2.39GB (10.3%)\n     2   9.1s   2.39GB (10.3%)\n\n800/s at most\n"
)


def test_blessing_renews_figures_and_their_columns_and_keeps_what_is_left_out():
    assert left_out(SHOWN, PRINTED) is not None
    now = renewed(SHOWN, PRINTED)
    assert left_out(now, PRINTED) is None
    assert now.splitlines()[3:5] == ["     1     9s   2.39GB (10.3%)", "…"]
    assert [line for line in now.splitlines() if line == "…"] == ["…"] * 2


def test_what_is_not_printed_any_more_stays_and_is_wrong():
    now = renewed("gone: 3 of them\n", PRINTED)
    assert now == "gone: 3 of them\n"
    assert left_out(now, PRINTED) == now


@pytest.mark.parametrize("command", COMMANDS)
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


def headings(text):
    """The anchors that GitHub gives to the headings of a page."""
    titles = re.findall(r"^#+ +(.+?)#*$", CODE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


CODE = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?:[^\]\[`]|`[^`]*`)*\]\(([^()\s]+)\)")
MARKDOWN = [
    path
    for path in sorted(ROOT.rglob("*.md"))
    if not {"node_modules", "build", "golden"} & set(path.parts)
    and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
]


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_of_the_repository(path):
    """As GitHub shows pages; `test_site` sees to the same links on the site."""
    text = re.sub(
        r"`[^`\n]*`", lambda found: found.group() if "](" not in found.group() else "", CODE.sub("", path.read_text())
    )
    broken = []
    for target in LINK.findall(text):
        file, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        to = (path.parent / file).resolve() if file else path
        anchored = bool(anchor) and to.suffix == ".md"  # of other files the site makes pages
        if not to.exists() or (anchored and anchor not in headings(to.read_text())):
            broken.append(target)
    assert broken == []
