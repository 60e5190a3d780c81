import subprocess
import sys

from diagnostic_samples import mlp

from distir.diagnostics.formats import FORMATS


def test_the_formats_of_the_command_line():
    assert list(FORMATS) == ["text", "json", "sarif", "github"]


def test_every_format_ends_its_last_line():
    for name, form in FORMATS.items():
        assert form([mlp()]).endswith("\n"), name


def test_nothing_heavy_is_loaded_before_there_is_something_to_print():
    script = "import sys, distir.diagnostics.formats, distir.config; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rich", "numpy", "typer", "tomllib", "difflib"} & set(loaded)
