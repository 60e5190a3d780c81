"""Whatever a file contains, no command writes a control character, or one that changes the direction of text.

A file has them in all of its strings; JSON, TOML and YAML can also write them as escapes.
"""

import io
import json
import re
import sys

import pytest

from distir.cli import main
from distir.cli.mcp import _answered
from distir.cli.tools import TOOLS
from distir.diagnostics.visible import visible_in_place

BAD = "\x1b[31m\u202e\x9b1m"
RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
NAMED = f"p{BAD}.dir"
"""A file that is called so."""
GPUS = ("--gpus", "8")
PROGRAM = f"""// {BAD}
func @main(%x: Tensor[Float32, (8, 8), 1] {{batch = 0}}, %w: Tensor[Float32, (8, 8), 1] {{param}}) {{
  %h = MatMul(%x, %w) // {BAD}
  %y = Relu(%h)
  return %y
}}
"""
KERNEL = {"ph": "X", "cat": "kernel", "name": f"k{BAD}", "ts": 1, "dur": 2, "pid": 0, "tid": f"7{BAD}"}
RUNS = "id,hidden,layers,heads,ffn,vocab,seq,gpu,gpus,tp,pp,global_batch,framework,precision,step_s"
FILES = {
    "p.dir": PROGRAM,
    NAMED: PROGRAM,
    "bad.dir": PROGRAM.replace("Relu", f"Re{BAD}lu"),
    "string.dir": PROGRAM.replace("Relu(%h)", f'Einsum[equation = "{BAD}"](%h)'),
    "external.dir": PROGRAM.replace("Relu(%h)", f'Add(%h, external<"{BAD}.safetensors", "{BAD}">)'),
    "distir.toml": '"k\\u001b" = 3\nhardware = "\\u001b\\u202e"\n',
    "machine.toml": 'name = "\\u001b\\u202e"\n"k\\u001b" = 1\n',
    "trace.json": json.dumps({"traceEvents": [KERNEL], "deviceProperties": [{"id": 0, "name": BAD}]}),
    "runs.csv": f"{RUNS}\n{BAD},{BAD},2,2,2,2,2,{BAD},8,1,1,8,{BAD},{BAD},1\n",
    "columns.csv": f"id{BAD},x\n{BAD},2\n",
    "ds.json": json.dumps({f"k{BAD}": 1}),
    "size.json": json.dumps({"train_batch_size": BAD}),
    "a.sh": f"python pretrain_gpt.py --num-layers 2{BAD} --x{BAD} 3\n",
    "a.yaml": '"trainer\\e": {"a\\e": 1}\n',
    "a.toml": '[model]\nname = "\\u001b"\n"k\\u001b" = 1\n',
    "a.mlir": 'module {\n "a.' + BAD + '"() : () -> ()\n}\n',
    "config.json": json.dumps({"model_type": BAD, "architectures": [BAD]}),
    "rotary.json": json.dumps({"model_type": "llama", "rope_scaling": {"rope_type": BAD}, "architectures": [BAD]}),
}
COMMANDS = [
    *(("check", "bad.dir", "--format", form) for form in ("text", "github", "json", "sarif")),
    ("check", NAMED, "string.dir", "external.dir"),
    ("check", f"none{BAD}.dir"),
    ("check", f"--{BAD}"),
    ("fmt", "--diff", NAMED, "bad.dir"),
    ("show", NAMED),
    ("simulate", NAMED),
    ("simulate", NAMED, "--json"),
    ("simulate", NAMED, "--hardware", "machine.toml"),
    ("simulate", "p.dir", "--bind", f"{BAD}=1"),
    ("run", NAMED),
    ("transform", "dce", NAMED),
    ("transform", "dce", "string.dir"),
    ("transform", f"{BAD}=2", NAMED),
    ("diff", NAMED, "p.dir"),
    ("diff", NAMED, "p.dir", "--markdown"),
    ("project", NAMED),
    ("goodput", NAMED),
    ("prove", NAMED, "--against", "bad.dir"),
    ("validate", "runs.csv"),
    ("validate", "runs.csv", "--json"),
    ("validate", "columns.csv"),
    ("export", "torchtitan", "columns.csv"),
    ("import", "trace", "trace.json"),
    ("import", "trace", "trace.json", "--json"),
    ("compare", "p.dir", "--measured", "trace.json"),
    ("import", "deepspeed", "ds.json", *GPUS),
    ("import", "deepspeed", "size.json", *GPUS),
    ("import", "megatron", "a.sh", *GPUS),
    ("import", "nemo", "a.yaml", *GPUS),
    ("import", "torchtitan", "a.toml", *GPUS),
    ("import", "stablehlo", "a.mlir"),
    ("import", "onnx", NAMED),
    ("import", "hf", "config.json", "--no-weights"),
    ("import", "hf", "rotary.json", "--no-weights"),
    ("hardware", "machine.toml"),
    ("hardware", BAD),
    ("explain", BAD),
    ("ops", BAD),
    ("model", BAD),
    (BAD,),
]


RUN = "r,64,2,2,128,1000,128,a100_80gb,8,1,1,8,megatron,bf16,0.001"
FILES |= {f"runs{BAD}$x^$.csv": f"{RUNS.replace('step_s', 'step_time_s')}\n{RUN}\nr2{BAD}{RUN[1:]}\n"}
MEASURED = next(name for name in FILES if name.startswith(f"runs{BAD}"))
LABELS = f"c{BAD}$x^$.dir"
FILES[LABELS] = PROGRAM
PAGES = [
    ("simulate", NAMED, "--html", "out.html"),
    ("validate", MEASURED, "--html", "out.html"),
    ("validate", MEASURED, "--plot", "out.svg"),
    *(("search", LABELS, "--devices", "2", "--jobs", "1", "--plot", f"out.{kind}") for kind in ("svg", "html")),
    ("diff", NAMED, LABELS, "--picture", "out.svg"),
]
ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


@pytest.fixture
def files(tmp_path, monkeypatch):
    for name, content in FILES.items():
        if name != "distir.toml":
            (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "distir.toml").write_text(FILES["distir.toml"])
    (tmp_path / "inner" / "p.dir").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("words", [*COMMANDS, ("simulate", "inner/p.dir")], ids=lambda w: " ".join(w).replace(BAD, "*"))
def test_no_command_writes_control_characters(files, capfd, words):
    assert main(words) in (0, 1, 2)
    out, err = capfd.readouterr()
    assert out + err
    for text in (out, err):
        found = RAW.search(text)
        assert found is None, text[max(0, found.start() - 80) : found.end() + 20]


@pytest.mark.parametrize("words", PAGES, ids=lambda w: " ".join(w).replace(BAD, "*"))
def test_no_page_or_picture_shows_control_characters(files, tmp_path, words):
    assert main(words) == 0
    (path,) = tmp_path.glob("out.*")
    shown = _shown(path.read_text("utf-8")) if path.suffix == ".html" else path.read_text("utf-8")
    assert "<U+202E>" in shown.replace("&lt;", "<").replace("&gt;", ">")
    found = RAW.search(shown)
    assert found is None, shown[max(0, found.start() - 80) : found.end() + 20]


def _shown(page):
    """What a page shows: its text, and the data of its scripts."""
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    data += [page[page.rindex("Plotly.newPlot") :]] if "Plotly.newPlot" in page else []
    text = re.sub("<script.*?</script>", "", page, flags=re.DOTALL)
    return ESCAPED.sub(lambda found: chr(int(found[1], 16)), "".join([text, *data])).replace("\t", "")


def test_columns_of_a_page_stay_where_signs_stand_for_characters():
    assert visible_in_place("a\x1bb\u202ec\U000e0001d\n\te") == "a\u241bb\ufffdc\ufffd\ufffdd\n\te"


TASKS = [
    ("check", {"file": "bad.dir"}),
    ("check", {"file": f"none{BAD}"}),
    ("simulate", {"file": "p.dir", "hardware": "machine.toml"}),
    ("simulate", {"file": "p.dir", "bind": {BAD: 1}}),
    ("transform", {"file": NAMED, "steps": ["dce"]}),
    ("transform", {"file": NAMED, "steps": [f"d{BAD}"]}),
    ("search", {"model": NAMED, "devices": 2}),
    ("explain", {"topic": BAD}),
]


@pytest.mark.parametrize(("tool", "given"), TASKS, ids=lambda x: str(x).replace(BAD, "*"))
def test_no_agent_is_answered_control_characters(files, tool, given):
    pytest.importorskip("mcp")
    from mcp.server.mcpserver.exceptions import ToolError

    (function,) = (function for function in TOOLS if function.__name__ == tool)
    try:
        answer = json.dumps(_answered(function)(**given), ensure_ascii=False)
    except ToolError as error:
        answer = str(error).replace("\n", "")
    assert answer
    assert RAW.search(answer) is None, answer


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_a_terminal_gets_no_control_characters_of_a_formatted_program_and_a_pipe_gets_them_all(monkeypatch, capfd):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROGRAM.encode())))
    screen = io.BytesIO()
    with monkeypatch.context() as patched:
        terminal = Terminal(screen, "utf-8")
        patched.setattr(sys, "stdout", terminal)
        assert main(("fmt", "-")) == 0
        sys.stdout.flush()
        shown = screen.getvalue().decode()
    assert RAW.search(shown) is None
    assert "<U+001B>[31m<U+202E>" in shown
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROGRAM.encode())))
    assert main(("fmt", "-")) == 0
    assert capfd.readouterr().out == PROGRAM


def test_names_of_streams_in_a_trace_are_no_markup(tmp_path, capfd):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [{**KERNEL, "name": "[/red][link=http://a]k", "tid": "[bold]7[/x]"}]}))
    assert main(("import", "trace", str(path))) == 0
    assert "[/red][link=http://a]k" in capfd.readouterr().out
