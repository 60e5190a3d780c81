import json

from diagnostic_samples import REPORTS, mlp
from hypothesis import given

from distir.diagnostics import Report, Source
from distir.diagnostics.json_form import json_form


def test_golden():
    document = json.loads(json_form([mlp(), Report(Source("clean.dir", ""))]))
    assert document["files"] == ["examples/mlp.dir", "clean.dir"]
    warning, error = document["diagnostics"]
    assert warning == {
        "code": "DIR998",
        "name": "some-waste",
        "severity": "warning",
        "message": "`%u` is never used",
        "file": "examples/mlp.dir",
        "line": 2,
        "column": 3,
        "end_line": 2,
        "end_column": 5,
        "notes": [],
        "help": None,
    }
    assert error["help"] == "transpose `%w`"
    assert error["notes"][0] == {"message": "`k` is 65 here", "line": 3, "column": 15, "end_line": 3, "end_column": 17}
    assert error["notes"][2] == {
        "message": "`MatMul` multiplies matrices",
        "line": None,
        "column": None,
        "end_line": None,
        "end_column": None,
    }


def test_nothing_found():
    assert json.loads(json_form([])) == {"files": [], "diagnostics": []}


@given(REPORTS)
def test_any_text_and_any_spans(reports):
    output = json_form(reports)
    assert output.isascii()
    document = json.loads(output)
    json.dumps(document, ensure_ascii=False).encode("utf-8")  # no lone surrogates
    assert len(document["files"]) == len(reports)
    found = [(r.source, d) for r in reports for d in r.in_order()]
    assert len(found) == len(document["diagnostics"])
    for (source, _), diagnostic in zip(found, document["diagnostics"], strict=True):
        for item in [diagnostic, *diagnostic["notes"]]:
            if item["line"] is not None:
                assert_within(source, item)


def assert_within(source, item):
    start = source.line_starts[item["line"] - 1] + item["column"] - 1
    end = source.line_starts[item["end_line"] - 1] + item["end_column"] - 1
    assert 0 <= start <= end <= len(source.text)
    assert source.position(start) == (item["line"], item["column"])
