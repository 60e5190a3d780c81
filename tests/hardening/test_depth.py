"""Calls nested as deep as a text is long, and calls of calls that multiply: in every command, and in a server.

Deeper than Python's own calls may nest; `DISTIR_TEST_ALL=1`: several times as deep, in more commands.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from thorough import ALL, also

sys.path.insert(0, str(Path(__file__).parents[1] / "lsp"))
from server_session import Session, codes

DEEP = 4_000 if ALL else 1_200
DEEPEST = 10_000 if ALL else 1_200
assert sys.getrecursionlimit() < DEEP
TOO_DEEP = 2_500
"""What is returned through so many calls fills no memory that there is."""
LEVELS = 40
OPS = 2**LEVELS
X, W = "Tensor[Float32, (8, 4), 1]", "Tensor[Float32, (4, 4), 1]"
LIMITS = {"RLIMIT_CPU": 200, "RLIMIT_DATA": 6 << 30}
URI = "file:///program.dir"


def chain(depth, typed=False, callees_first=True):
    """`@f0` calls `@f1`, which calls `@f2`, …; each multiplies, too."""
    x, w = (f": {X}", f": {W}") if typed else ("", "")
    functions = [
        f"func @f{i}(%x{x}, %w{w}) {{\n  %h = MatMul(%x, %w)\n  %y = @f{i + 1}(%h, %w)\n  return %y\n}}\n"
        for i in range(depth)
    ]
    functions.append(f"func @f{depth}(%x{x}, %w{w}) {{\n  %y = MatMul(%x, %w)\n  return %y\n}}\n")
    main = f"func @main(%x: {X} {{batch = 0}}, %w: {W} {{param}}) {{\n  %y = @f0(%x, %w)\n  return %y\n}}\n"
    return "".join([*(functions[::-1] if callees_first else functions), main])


def tree(levels, op="Relu(%x)", head=f"%x: {X} {{batch = 0}}"):
    """Functions that call the one below twice: 2 to the `levels` ops. `op`: the one at the bottom."""
    parts = [f"func @f0(%x) {{\n  %y = {op}\n  return %y\n}}\n"]
    for i in range(1, levels + 1):
        name, params = (f"f{i}", "%x") if i < levels else ("main", head)
        parts.append(f"func @{name}({params}) {{\n  %a = @f{i - 1}(%x)\n  %y = @f{i - 1}(%a)\n  return %y\n}}\n")
    return "".join(parts)


@pytest.fixture
def distir(commands):
    def call(*words):
        ended = commands.run(*words, limits=LIMITS)
        assert ended.code in (0, 1, 2), f"{words}: ended by {ended.code}: {ended.err[-500:]}"
        assert "bug" not in ended.err, ended.err
        assert "Traceback" not in ended.err, ended.err
        assert "recursion depth" not in ended.err, ended.err
        return ended.code, ended.out, ended.err

    return call


@pytest.fixture
def write(tmp_path):
    def written(text, name="program.dir"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return written


@pytest.mark.parametrize(
    "words",
    [
        ("check", "FILE"),
        ("simulate", "FILE", "--html", "OUT"),
        ("run", "FILE"),
        ("lower", "FILE", "-o", "FOLDER"),
        ("search", "FILE", "--devices", "2", "--jobs", "1"),
        ("transform", "inline", "FILE", "-o", "OUT"),
        ("transform", "dce", "FILE", "-o", "OUT", "--verify"),
        *also(
            ("fmt", "FILE"),
            ("show", "FILE"),
            ("simulate", "FILE"),
            ("simulate", "FILE", "--json"),
            ("simulate", "FILE", "--trace", "OUT"),
            ("diff", "FILE", "FILE"),
            ("project", "FILE"),
            ("launch", "FILE", "--verify"),
            ("transform", "outline", "FILE", "-o", "OUT"),
            ("transform", "cse", "FILE", "-o", "OUT"),
            ("transform", "fold", "FILE", "-o", "OUT"),
            ("transform", "reschedule", "FILE", "-o", "OUT"),
            ("transform", "dp=2", "FILE", "-o", "OUT"),
        ),
    ],
    ids=" ".join,
)
def test_calls_nested_thousands_deep(distir, write, tmp_path, words):
    known = {"FILE": write(chain(DEEP)), "OUT": tmp_path / "out", "FOLDER": tmp_path / "lowered"}
    code, _, err = distir(*(known.get(word, word) for word in words))
    assert code == 0, err


@pytest.mark.each_once
@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("callees_first", [False, True])
def test_the_order_of_deep_functions_and_their_types_do_not_matter(distir, write, typed, callees_first):
    code, out, err = distir("simulate", write(chain(DEEP, typed, callees_first)), "--json")
    assert code == 0, err
    assert json.loads(out)["ops"] == DEEP + 1


def test_a_deep_chain_is_simulated_as_its_inlined_body(distir, write, tmp_path):
    flat = tmp_path / "flat.dir"
    assert distir("transform", "inline", write(chain(1_000)), "-o", flat)[0] == 0
    deep, inlined = (json.loads(distir("simulate", path, "--json")[1]) for path in (tmp_path / "program.dir", flat))
    assert deep["devices"] == inlined["devices"]
    assert deep["latency_s"] == inlined["latency_s"]
    assert len(deep["critical_path"]) == len(inlined["critical_path"]) == 1_001


def test_gradients_of_deep_chains(distir, write, tmp_path):
    """What each op makes is returned through all calls around it: as many as fit, or a refusal with their number."""
    out = tmp_path / "step.dir"
    code, _, err = distir("transform", "grad", "loss=mse", write(chain(200)), "-o", out)
    assert code == 0, err
    assert distir("check", out)[0] == 0
    code, _, err = distir("transform", "grad", "loss=mse", write(chain(TOO_DEEP)))
    assert code == 1
    assert "DIR510" in err


def test_a_long_chain_of_statements(distir, write):
    length = 30_000 if ALL else 10_000
    body = "".join(f"  %v{i + 1} = Relu(%v{i})\n" for i in range(length))
    path = write(f"func @main(%v0: {X}) {{\n{body}  return %v{length}\n}}\n")
    for words in (("check",), ("show",), ("simulate",), ("run",), ("transform", "dce"), ("transform", "grad")):
        code, _, err = distir(*words, path)
        assert code == 0, err


# Calls of calls.


def test_a_billion_ops_are_simulated_by_their_summaries(distir, write):
    code, out, err = distir("simulate", write(tree(LEVELS)), "--json")
    assert code == 0, err
    found = json.loads(out)
    one = json.loads(distir("simulate", write(tree(1)), "--json")[1])
    assert found["ops"] == found["costliest"][0]["count"] == OPS
    assert found["latency_s"] == one["latency_s"] / 2 * OPS
    assert found["devices"]["1"]["busy_s"] == found["latency_s"]
    assert found["devices"]["1"]["peak_memory_bytes"] == 3 * 8 * 4 * 4
    assert not found["followed"]
    assert found["critical_path"][-1]["start_s"] < found["latency_s"]
    assert len(found["critical_path"]) < 10_000


def test_what_is_listed_of_a_billion_ops_says_how_many_there_are(distir, write, tmp_path):
    path, page = write(tree(LEVELS)), tmp_path / "page.html"
    code, out, err = distir("simulate", path)
    assert code == 0, err
    assert f"of {OPS:,} ops in all" in out
    if ALL:  # laying out the page takes 14 s of CPU time
        assert distir("simulate", path, "--html", page)[0] == 0
        assert f'"events":{OPS}' in page.read_text()
    code, out, err = distir("show", path)
    assert code == 0, err
    assert len(re.findall(r"// .* @\S+ on 1\n", out)) == 2 * LEVELS + 1, "each statement has its time"


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "FILE", "--trace", "OUT"),
        ("transform", "inline", "FILE"),
        ("transform", "grad", "loss=mse", "FILE"),
        ("run", "FILE"),
        ("launch", "FILE"),
        ("transform", "dce", "FILE", "--verify"),
    ],
    ids=" ".join,
)
def test_what_must_take_each_op_refuses_billions(distir, write, tmp_path, words):
    known = {"FILE": write(tree(LEVELS, head=f"%x: {X} {{param}}")), "OUT": tmp_path / "out"}
    code, out, err = distir(*(known.get(word, word) for word in words))
    assert code in (1, 2), out
    assert "DIR510" in err
    assert re.search(r"has 1,\d\d\d,\d\d\d,\d\d\d,\d\d\d ", err), err
    assert re.search(r"at most [\d,]+", err)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("check", "FILE"),
        ("diff", "FILE", "FILE"),
        ("lower", "FILE", "-o", "FOLDER"),
        ("search", "FILE", "--devices", "2", "--jobs", "1"),
        ("transform", "dce", "FILE"),
        ("transform", "dp=2", "FILE"),
        *also(
            ("fmt", "FILE"),
            ("project", "FILE"),
            ("transform", "outline", "FILE"),
            ("transform", "cse", "FILE"),
            ("transform", "fold", "FILE"),
            ("transform", "reschedule", "FILE"),
        ),
    ],
    ids=" ".join,
)
def test_what_looks_at_functions_does_not_mind_billions(distir, write, tmp_path, words):
    known = {"FILE": write(tree(LEVELS)), "FOLDER": tmp_path / "lowered"}
    code, _, err = distir(*(known.get(word, word) for word in words))
    assert code == 0, err


def test_communications_without_number_are_refused(distir, write):
    there = "func @f0(%x) {\n  %a = Send[device = 2](%x)\n  %y = Send[device = 1](%a)\n  return %y\n}\n"
    path = write(there + tree(LEVELS).partition("}\n")[2])
    code, out, err = distir("simulate", path, "--json")
    assert code == 0, err
    assert json.loads(out)["ops"] == 2 * OPS
    code, _, err = distir("project", path)
    assert code == 1
    assert "DIR510" in err


def test_more_ops_than_are_counted_do_not_check(distir, write):
    path = write(tree(20_000 if ALL else 2_000))
    for words in (("check",), ("simulate",), ("run",), ("show",)):
        code, _, err = distir(*words, path)
        assert code == 1
        assert err.count("error[DIR510]") == 1
        assert "`@f63` has more than 9,223,372,036,854,775,807 ops" in err


# In a server.


def position(text, found):
    before = text[: text.index(found)]
    return {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param(chain(DEEPEST), "f600", id="deep"),
        pytest.param(chain(DEEPEST, callees_first=False), "f600", id="deep, callers first", marks=pytest.mark.thorough),
        pytest.param(tree(LEVELS), "f20", id="billions"),
    ],
)
def test_a_server_answers_and_stays(text, name):
    with Session() as session:
        session.open(URI, text)
        session.until(URI, lambda status: status.get("simulated") or status.get("latency_s"))
        document = {"textDocument": {"uri": URI}}
        call = position(text, f"@{name}(")
        inside = {"line": call["line"] + 1, "character": 3}
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 200, "character": 0}}
        for method in ("hover", "definition", "typeDefinition", "references", "completion", "prepareCallHierarchy"):
            for at in (call, inside):
                context = {"context": {"includeDeclaration": True}} if method == "references" else {}
                assert "error" not in session.answer(
                    session.request(f"textDocument/{method}", {**document, "position": at, **context})
                ), method
        for method in ("inlayHint", "semanticTokens/range", "codeAction"):
            asked = {**document, "range": whole, "context": {"diagnostics": []}}
            assert "error" not in session.answer(session.request(f"textDocument/{method}", asked)), method
        for method in ("documentSymbol", "codeLens", "foldingRange"):
            assert "error" not in session.answer(session.request(f"textDocument/{method}", document)), method
        for method in ("timeline", "memory", "rankProgram", "calls"):
            asked = {**document, "rank": 1, "function": name, "limit": 100}
            assert "error" not in session.answer(session.request(f"distir/{method}", asked)), method
        picked = session.ask("distir/calls", {**document, "function": name, "pick": 1})
        assert "error" not in picked
        session.change(URI, (inside["line"], 2, inside["line"], 2, "%z = Relu(%x)\n  "))
        session.diagnostics(URI, lambda found: codes(found) == ["DIR901"])
        assert session.process.poll() is None
