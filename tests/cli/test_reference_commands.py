"""`distir ops`, `distir explain`, `distir hardware`, and the help."""

import json

import pytest

from distir.cli.app import COMMANDS, GROUPS
from distir.cost import profiles
from distir.diagnostics import CODES
from distir.ops import OPS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(distir, command):
    ended = distir(command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"      distir {command}" in ended.out or f"| distir {command}" in ended.out


def test_no_words_at_all_show_the_help(distir):
    ended = distir()
    assert ended.code == 0
    assert ended == distir("--help")
    for command in COMMANDS:
        assert f"  {command} " in ended.out


def test_the_list_of_commands_leaves_nothing_out(distir):
    """typer cuts what does not fit into a line of 80 columns."""
    listed = distir("--help").out.partition("\nPlan a job:\n")[2]
    assert listed
    assert "..." not in listed


def test_commands_are_listed_by_what_they_are_for(distir):
    for title, group in GROUPS.items():
        listed = distir("--help").out.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in listed.splitlines()] == [*group]


def test_the_help_says_what_exit_codes_mean(distir):
    text = " ".join(distir("--help").out.split())
    for code in ("0 success", "1 the program has errors", "2 the command", "130 interrupted"):
        assert code in text


def test_the_version(distir):
    assert distir("--version").out.startswith("distir 0.")


def test_ops_are_all_listed(distir):
    names = {line.split()[0] for line in distir("ops").out.split("\n") if line.strip()}
    assert names >= set(OPS)
    assert {op["name"] for op in json.loads(distir("ops", "--json").out)} == set(OPS)


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_is_documented(distir, name):
    text = distir("ops", name).out
    for signature in OPS[name].signature_texts:
        assert signature in text
    for example in OPS[name].examples:
        assert example in text
    assert (OPS[name].non_differentiable or "") in text
    found = json.loads(distir("ops", name, "--json").out)
    assert found["non_differentiable"] == OPS[name].non_differentiable
    assert found.keys() >= {"name", "family", "signatures", "attributes", "documentation", "examples"}


def test_attributes_are_listed_with_their_defaults(distir, golden):
    golden("ops_gemm.txt", distir("ops", "Gemm").out)


def test_an_unknown_op_is_refused_with_the_nearest(distir):
    ended = distir("ops", "MatMull")
    assert ended.code == 2
    assert "did you mean `MatMul`?" in ended.err


def test_ops_of_onnx_are_listed_by_name_and_documented_from_their_schemas(distir):
    assert " Conv " in distir("ops").out
    assert "The convolution operator" in distir("ops", "Conv").out
    assert json.loads(distir("ops", "Conv", "--json").out)["family"] == "onnx convolution"
    assert "did you mean `MaxPool`?" in distir("ops", "MaxPoool").err
    assert "ONNX's `If` is control flow" in distir("ops", "If").err


def test_codes_are_all_listed_and_explained(distir):
    listed = json.loads(distir("explain", "--json").out)
    assert [code["code"] for code in listed] == sorted(CODES)
    text = distir("explain").out
    for code in listed:
        assert code["code"] in text
    ended = distir("explain", "dir301")
    assert ended.code == 0
    assert "DIR301" in ended.out
    assert "```dir" in ended.out
    assert json.loads(distir("explain", "DIR301", "--json").out)["name"] == CODES["DIR301"].name


def test_an_unknown_code_is_refused_with_the_nearest(distir):
    ended = distir("explain", "DIR3O1")
    assert ended.code == 2
    assert "did you mean `DIR301`?" in ended.err


def test_hardware_is_listed(distir):
    assert [h["name"] for h in json.loads(distir("hardware", "--json").out)] == profiles()
    text = distir("hardware").out
    for name in profiles():
        assert name in text


@pytest.mark.parametrize("name", profiles())
def test_every_profile_is_shown_with_its_sources(distir, name):
    text = distir("hardware", name).out
    document = json.loads(distir("hardware", name, "--json").out)
    assert document["figures"]
    for key in document["sources"]:
        assert key in text
    for figure in document["figures"]:
        assert figure["name"] in text


def test_unknown_hardware_is_refused_with_the_nearest(distir):
    ended = distir("hardware", "h2000")
    assert ended.code == 2
    assert "did you mean `h200`?" in ended.err
