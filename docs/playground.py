"""Links from the programs in these pages to the playground, if that was built before: `make playground docs`.

mkdocs calls the functions whose names begin with `on_` (`hooks` in mkdocs.yml). The site gets a copy of the playground.
"""

from __future__ import annotations

import base64
import os
import posixpath
import re
import shutil
import zlib
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

BUILT = Path(__file__).parent.parent / "build/playground"

LISTING = re.compile(r"^```dir\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A link below each whole program."""
    del config, files
    if not (BUILT / "index.html").exists():
        return markdown
    to = posixpath.join(os.path.relpath("playground", posixpath.dirname(page.url) or "."), "index.html")
    name = f"{Path(page.file.src_uri).stem}.dir"

    def linked(found: re.Match[str]) -> str:
        if not re.search(r"^func @", found[1], re.MULTILINE):
            return found[0]
        return f'{found[0]}\n\n<a href="{to}#{fragment(name, found[1])}">Open in the playground</a>'

    return LISTING.sub(linked, markdown)


def on_post_build(config: Any) -> None:
    """Copy the playground into the site."""
    if (BUILT / "index.html").exists():
        shutil.copytree(BUILT, Path(config["site_dir"]) / "playground", dirs_exist_ok=True)


def fragment(name: str, text: str) -> str:
    """What the playground's address holds of a program, as `vscode-extension/playground/src/share.ts` writes it."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    packed = packer.compress(text.encode()) + packer.flush()
    return urlencode({"name": name, "program": base64.urlsafe_b64encode(packed).decode().rstrip("=")})
