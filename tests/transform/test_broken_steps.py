"""No step gives a program that does not check: whoever applies it, it is an error, and there is no result."""

import pytest

import distir as api
from distir.analysis.program import read
from distir.cost import load
from distir.diagnostics import ProgramError
from distir.ide.actions.transforms import CannotTransform, transformed
from distir.ide.document import Document, Setup
from distir.ir import Apply, Function, Literal, Module
from distir.models import mlp
from distir.search import Space
from distir.transform import STEPS, StepError, parse_steps
from distir.transform.steps import Step, step
from distir.transform.strategy.steps import words_of

PROGRAM = """func @main(%x: Tensor[Float32, (2, 3), 1] {batch = 0}) {
  %y = Relu(%x)
  return %y
}
"""
WRONG = "`%y = Reshape(%x, [5])`"


@pytest.fixture
def breaks(monkeypatch):
    """A step `breaks=N` that writes a `Reshape` to N numbers in the place of the first statement."""

    def breaks(module: Module, value: int) -> Module:
        def broken(function):
            first = function.body[0]
            wrong = Apply((first.results[0],), "Reshape", (function.params[-1].name, Literal((value,))))
            return Function(function.name, function.params, (wrong, *function.body[1:]), function.result_types)

        return Module(map(broken, module))

    monkeypatch.setattr(STEPS, "_held", dict(STEPS))
    step(breaks)
    return STEPS["breaks"]


def test_the_command_ends_with_an_error_and_writes_nothing(distir, breaks, tmp_path):
    program, out = tmp_path / "relu.dir", tmp_path / "out.dir"
    program.write_text(PROGRAM)
    for words in (["-o", out], []):
        ended = distir("transform", "cse", "breaks=5", "dce", program, *words)
        assert (ended.code, ended.out) == (1, "")
        assert "error[DIR606]: `breaks=5` gives a program that does not check" in ended.err
        assert "DIR306, in `@main` at" in ended.err
        assert WRONG in ended.err
        assert "expected sizes that hold the 6 elements" in ended.err
    assert not out.exists()


def test_the_api_raises(breaks):
    with pytest.raises(ProgramError) as caught:
        api.transform(api.parse(PROGRAM), "breaks=5")
    (found,) = caught.value.diagnostics
    assert found.code.number == "DIR606"
    assert WRONG in found.message
    assert api.transform(api.parse(PROGRAM), "breaks=6")


def test_the_mistakes_of_what_was_given_are_no_fault_of_the_step(breaks):
    wrong = api.parse(PROGRAM.replace("Relu(%x)", "MatMul(%x, %x)"))
    with pytest.raises(ProgramError) as caught:
        api.transform(wrong, "breaks=5")
    assert {found.code.number for found in caught.value.diagnostics} == {"DIR301"}


def test_the_editor_says_what_failed(breaks):
    with pytest.raises(CannotTransform, match="`breaks=5` gives a program that does not check") as caught:
        transformed(Document(read(PROGRAM), Setup(load("dgx-a100"))), "main", ["breaks=5"])
    assert WRONG in str(caught.value)


def test_a_search_gives_the_reason(breaks, monkeypatch):
    distributed = STEPS["dtp"]

    def dtp(module, value, **options):
        made = distributed.transform(module, value, **options)
        return made if value == (2, 1, 1) else breaks.transform(made, 5)

    monkeypatch.setitem(STEPS, "dtp", Step("dtp", dtp, distributed.value, distributed.options))
    table = api.search(mlp(2, 8, 16), space=Space(2, microbatches=(2,)))
    reasons = {words_of(row.plan)[0]: row.reason for row in table}
    assert reasons["dtp=2,1,1"] == ""
    assert reasons["dtp=1,2,1"].startswith("`dtp=1,2,1` gives a program that does not check: DIR")


def test_a_step_is_named_as_it_was_written():
    written = ["cse", "dp=2", "dtp=1,2,4"]
    assert [str(application) for application in parse_steps(written)] == written
    with pytest.raises(StepError):
        parse_steps(["breaks=5"])


def test_a_part_of_a_step_that_breaks_the_program_is_named(monkeypatch):
    """`dtp` makes shards first, and replicas of these."""
    from distir.transform.sharding import rewrite

    def wrong(*_):
        return Literal((1, 1, 1))

    text = PROGRAM.replace("%y = Relu(%x)", "%h = MatMul(%x, %w)\n  %y = Reshape(%h, [2, 2, 2])").replace(
        "{batch = 0}", "{batch = 0}, %w: Tensor[Float32, (3, 4), 1] {param}"
    )
    monkeypatch.setattr(rewrite, "_stated", wrong)
    with pytest.raises(ProgramError) as caught:
        api.transform(api.parse(text), "dtp=2,2,1")
    (found,) = caught.value.diagnostics
    assert found.code.number == "DIR606"
    assert found.message.startswith("`tp=2` gives a program that does not check")


def test_an_option_that_a_step_is_given_twice_is_refused():
    """The last one would count, and the other be ignored. A step may be applied twice, each time with its options."""
    with pytest.raises(StepError, match=r"`grad` is given its option `optimizer` twice: words 2 and 3, .*adamw.*muon"):
        parse_steps(["grad", "optimizer=adamw", "optimizer=muon"])
    assert len(parse_steps(["overlap=weights", "bucket_bytes=1", "overlap=gradients", "bucket_bytes=2"])) == 2
