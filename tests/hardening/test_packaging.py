"""What is installed: the wheel and the source archive hold what they need, and state one version and all licences."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest

import distir

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LICENSES = "vscode-extension/timeline/LICENSES.txt"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the wheel and the source archive."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds them, is not installed; `pip install -e '.[test]'` brings it")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_a_wheel_holds_all_of_the_packages_and_nothing_else(wheel):
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = set()
    for package in (ROOT / "distir", ROOT / "distir_start", ROOT / "lsp" / "distir_lsp", ROOT / "lsp" / "distir_dap"):
        files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        expected |= {path.relative_to(package.parent).as_posix() for path in files}
    assert names == expected
    assert {"distir/py.typed", "distir_lsp/py.typed", "distir_dap/py.typed", "distir/syntax/dir.lark"} <= names


def test_what_a_wheel_says_of_itself(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Version"] == distir.__version__
    assert metadata["License-Expression"] == "MIT"
    assert set(metadata.get_all("License-File")) == {"LICENSE", LICENSES}
    assert {"torch", "onnx", "lsp", "plot", "cluster"} <= set(metadata.get_all("Provides-Extra"))
    points = wheel.read(name.replace("METADATA", "entry_points.txt")).decode()
    assert re.search(r"^distir = distir_start:distir$", points, re.MULTILINE)
    assert re.search(r"^distir-lsp = distir_start:language_server$", points, re.MULTILINE)


def test_licences_of_bundled_javascript_are_listed():
    """Each library that is in the timeline's bundle."""
    listed = (ROOT / LICENSES).read_text()
    bundle = (ROOT / "distir" / "simulate" / "page" / "timeline.js").read_text()
    assert listed.strip().splitlines()[-1] in bundle
    for name in re.findall(r'"dependencies": \{(.*?)\}', (ROOT / LICENSES).with_name("package.json").read_text(), re.S):
        for library in re.findall(r'"([^"]+)":', name):
            assert library in listed


def test_a_source_archive_can_be_tested(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ["pyproject.toml", "Makefile", "README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", LICENSES]
    wanted += ["action.yml", ".pre-commit-hooks.yaml", "examples/demo.sh", "examples/ci/distir.yml"]
    wanted += ["tests/test_golden.py", "tests/hardening/corpus/README.md", "distir/py.typed"]
    assert set(wanted) <= names


def test_the_version_is_written_once():
    """In `distir/__init__.py`; the build and `distir --version` take it from there, and the changes are listed."""
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    modules = [*(ROOT / "distir").rglob("*.py"), *(ROOT / "lsp").rglob("*.py")]
    written = [path for path in modules if re.search(r"^__version__ *=", path.read_text(), re.MULTILINE)]
    assert written == [ROOT / "distir" / "__init__.py"]
    assert re.search(rf"^## {re.escape(distir.__version__)}\b", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
