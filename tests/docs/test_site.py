"""The site builds without a broken link, and its references hold every definition."""

import base64
import html
import importlib.util
import logging
import re
import zlib
from types import SimpleNamespace
from urllib.parse import parse_qs

import pytest
from page_samples import ROOT, blocks


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("material")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    warnings = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)
    assert warnings == []
    return folder


def anchors(page):
    return set(re.findall(r'id="([^"]+)"', page.read_text()))


def test_every_op_code_step_and_command_has_its_place(site):
    from distir.cli.app import COMMANDS
    from distir.diagnostics.explain import all_codes
    from distir.ops import OPS
    from distir.transform.all_steps import STEPS

    reference = site / "reference"
    assert {name.lower() for name in OPS} <= anchors(reference / "ops.html")
    assert set(all_codes()) <= anchors(reference / "diagnostics.html")
    assert set(STEPS) <= anchors(reference / "steps.html")
    assert {*COMMANDS} <= anchors(reference / "commands.html")


def test_links_lead_to_pages_and_places_that_exist(site):
    broken = []
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'href="([^"]+)"', page.read_text()):
            path, _, anchor = html.unescape(target).partition("#")
            if re.match(r"\w+:|//", path):
                continue
            to = (page.parent / path).resolve() if path else page
            anchor = "" if to.parent.name == "playground" else anchor  # a program
            if not to.exists() or (anchor and to.suffix == ".html" and anchor not in anchors(to)):
                broken.append(f"{page.relative_to(site)}: {target}")
    assert broken == []


def test_links_to_definitions_lead_to_the_pages_made_of_them(site):
    assert 'href="../reference/signatures.html"' in (site / "how-to" / "ops.html").read_text()
    assert 'href="hardware.html#streams"' in (site / "reference" / "language.html").read_text()


def test_pages_fetch_nothing(site):
    loaded = re.compile(r'<(?:script|img|iframe|link(?! rel="canonical"))[^>]*(?:src|href)="((?:https?:)?//[^"]*)"')
    assert {url for page in site.rglob("*.html") for url in loaded.findall(page.read_text())} == set()


def test_programs_in_the_references_are_those_of_the_definitions(site):
    from distir.diagnostics import CODES

    documented = [b.text for code in CODES.values() for b in blocks(code.documentation) if b.kind == "dir"]
    assert documented
    text = html.unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "diagnostics.html").read_text()))
    assert [program for program in documented if program.strip() not in text] == []


def test_whole_programs_can_be_opened_in_the_playground_where_it_was_built(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("docs_playground", ROOT / "docs/playground.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    monkeypatch.setattr(hook, "BUILT", tmp_path)
    program = "func @f(%x: Tensor[Float32, (8,), 1]) {\n  return %x\n}\n"
    page = f"```dir\n{program}```\n\n```dir\n%y = Relu(%x)\n```\n"
    here = SimpleNamespace(url="how-to/f.html", file=SimpleNamespace(src_uri="how-to/f.md"))
    assert hook.on_page_markdown(page, here, None, None) == page, "there is none"
    (tmp_path / "index.html").write_text("")
    (link,) = re.findall(r'href="([^"]+)"', hook.on_page_markdown(page, here, None, None))
    path, _, fragment = link.partition("#")
    assert path == "../playground/index.html"
    packed = parse_qs(fragment)["program"][0]
    assert zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), -15).decode() == program
