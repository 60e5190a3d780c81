"""The script and the style of the page are built from the sources beside the editor's extension, and are not stale."""

import hashlib
import re
from importlib import resources
from pathlib import Path

import pytest

VIEW = Path(__file__).parents[2] / "vscode-extension" / "timeline"


def packaged(name):
    return resources.files("distir.simulate.page").joinpath(name).read_text("utf-8")


@pytest.mark.skipif(not VIEW.exists(), reason="the sources of the view are not here")
def test_the_bundle_is_built_from_these_sources():
    names = [f"src/{path.name}" for path in (VIEW / "src").iterdir()]
    digest = hashlib.sha256()
    shared = ["../palette.json", "../src/figures.ts"]
    for name in sorted([*names, "LICENSES.txt", "build.mjs", "package-lock.json", *shared]):
        text = (VIEW / name).read_bytes().decode("utf-8").replace("\r\n", "\n")
        digest.update(f"{name}\n{text}\n".encode())
    built = packaged("timeline.js").split("\n")[0]
    assert built == f"// sources {digest.hexdigest()}", "stale: `npm ci && npm run build` in vscode-extension/timeline"


def test_the_bundle_can_stand_in_a_page():
    script, style = packaged("timeline.js"), packaged("timeline.css")
    for text in (script, style):
        assert not re.search(r"</(script|style)|<!--|\r", text, re.IGNORECASE), "would end its element, or its digest"
    assert "ISC" in script or "Permission to use" in script, "the licence of what is bundled"


@pytest.mark.skipif(not VIEW.exists(), reason="the sources of the view are not here")
def test_no_lock_names_a_place():
    assert "resolved" not in (VIEW / "package-lock.json").read_text()
