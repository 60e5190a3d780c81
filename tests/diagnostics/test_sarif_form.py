import json

import jsonschema
from diagnostic_samples import MISMATCH, REPORTS, UNUSED, mlp
from hypothesis import given
from hypothesis import strategies as st

from distir.diagnostics import Diagnostic, Note, Report, Source, Span
from distir.diagnostics.explain import all_codes
from distir.diagnostics.sarif import sarif


def closed(required, **properties):
    """A JSON object that has nothing but these properties."""
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


# What SARIF 2.1.0 and GitHub say of the properties that we write, and nothing else.
TEXT = {"type": "string"}
LEVEL = {"enum": ["error", "warning"]}
POSITIVE = {"type": "integer", "minimum": 1}
MESSAGE = closed(["text"], text=TEXT)
ARTIFACT = closed(["uri"], uri={"type": "string", "pattern": r"^([A-Za-z0-9._~!$&'()*+;=@/-]|%[0-9A-F]{2}|^file:)+$"})
REGION = closed(["startLine"], startLine=POSITIVE, startColumn=POSITIVE, endLine=POSITIVE, endColumn=POSITIVE)
PHYSICAL = closed(["artifactLocation", "region"], artifactLocation=ARTIFACT, region=REGION)
LOCATION = closed(["physicalLocation"], physicalLocation=PHYSICAL)
RELATED = closed(
    ["id", "physicalLocation", "message"],
    id={"type": "integer", "minimum": 0},
    physicalLocation=PHYSICAL,
    message=MESSAGE,
)
RESULT = closed(
    ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    locations={"type": "array", "items": LOCATION, "minItems": 1, "maxItems": 1},
    relatedLocations={"type": "array", "items": RELATED, "minItems": 1},
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
)
RULE = closed(
    ["id", "name", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
    id=TEXT,
    name=TEXT,
    shortDescription=closed(["text"], text={"type": "string", "minLength": 1, "maxLength": 1024}),
    fullDescription=closed(["text"], text={"type": "string", "minLength": 1, "maxLength": 1024}),
    help=closed(["text", "markdown"], text=TEXT, markdown=TEXT),
    defaultConfiguration=closed(["level"], level=LEVEL),
)
DRIVER = closed(["name", "rules"], name=TEXT, version=TEXT, rules={"type": "array", "items": RULE, "uniqueItems": True})
RUN = closed(
    ["tool", "columnKind", "results"],
    tool=closed(["driver"], driver=DRIVER),
    columnKind={"const": "utf16CodeUnits"},
    results={"type": "array", "items": RESULT},
)
LOG = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "$schema": TEXT,
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": RUN, "minItems": 1, "maxItems": 1},
    },
    "additionalProperties": False,
}
VALIDATOR = jsonschema.Draft7Validator(LOG)


def run_of(*reports):
    log = json.loads(sarif(reports))
    VALIDATOR.validate(log)
    return log["runs"][0]


def region(result):
    return result["locations"][0]["physicalLocation"]["region"]


def test_golden():
    run = run_of(mlp())
    warning, error = run["results"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["DIR998", "DIR999"]
    assert (warning["ruleIndex"], warning["level"]) == (0, "warning")
    assert (error["ruleIndex"], error["level"]) == (1, "error")
    assert error["message"]["text"].endswith("note: `MatMul` multiplies matrices\nhelp: transpose `%w`")
    assert error["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "examples/mlp.dir"
    assert region(error) == {"startLine": 3, "startColumn": 19, "endLine": 3, "endColumn": 21}
    assert [note["message"]["text"] for note in error["relatedLocations"]] == ["`k` is 65 here", "`%w` has this type"]


def test_nothing_found():
    run = run_of()
    assert run["results"] == run["tool"]["driver"]["rules"] == []


def test_what_looks_like_a_link_is_none():
    result = Diagnostic(MISMATCH, None, "insert `Send[device = 2](%x)`, not `Send[device = 2]`")
    run = run_of(Report(Source("a.dir", ""), (result,)))
    assert run["results"][0]["message"]["text"] == r"insert `Send\[device = 2](%x)`, not `Send[device = 2]`"


def test_paths_are_relative_uris(monkeypatch, tmp_path):
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.chdir(tmp_path)
    paths = ["a b/ü%.dir", str(tmp_path / "c:d.dir"), "../outside.dir"]
    run = run_of(*(Report(Source(path, ""), (Diagnostic(MISMATCH, None, "wrong"),)) for path in paths))
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]]
    assert uris[:2] == ["a%20b/%C3%BC%25.dir", "c%3Ad.dir"]
    assert uris[2].startswith("file:///")


def test_fingerprints_tell_findings_apart_and_survive_moves():
    def fingerprints(text):
        places = [i for i in range(len(text)) if text.startswith("%x", i)]
        diagnostics = tuple(Diagnostic(UNUSED, Span(i, i + 2), "wrong") for i in places)
        results = run_of(Report(Source("a.dir", text), diagnostics))["results"]
        return [r["partialFingerprints"]["codeAndLine/v1"] for r in results]

    before = fingerprints("%x = Relu(%y)\n%x = Relu(%y)\n")
    assert len(set(before)) == 2
    assert fingerprints("// more\n\n  %x = Relu(%y)\n  %x = Relu(%y)\n") == before


@given(st.text(), st.data())
def test_columns_count_utf16_units(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    source = Source("a.dir", text)
    run = run_of(Report(source, (Diagnostic(MISMATCH, Span(start, end), "wrong", (Note("n", Span(start, end)),)),)))
    found = region(run["results"][0])
    for offset, line, column in [
        (start, found["startLine"], found["startColumn"]),
        (end, found["endLine"], found["endColumn"]),
    ]:
        before = text[source.line_starts[line - 1] : offset]
        assert column == len(before.encode("utf-16-le", "surrogatepass")) // 2 + 1


@given(REPORTS)
def test_any_text_and_any_spans(reports):
    assert len(run_of(*reports)["results"]) == sum(len(r.diagnostics) for r in reports)


def test_every_code_is_described_in_whole_sentences():
    for code in all_codes().values():
        (rule,) = json.loads(sarif([Report(Source("a.dir", "x"), (Diagnostic(code, None, "wrong"),))]))["runs"][0][
            "tool"
        ]["driver"]["rules"]
        short, full = rule["shortDescription"]["text"], rule["fullDescription"]["text"]
        assert short.endswith("."), code.number
        assert full.endswith("."), code.number
        assert full.startswith(short)
        assert ". " not in short.replace("`. ", ""), "one sentence"
