"""The step `overlap`: kinds by name, with options of their own; what it says, and what it refuses."""

import pytest

import distir
from distir.diagnostics import ProgramError
from distir.transform import StepError, listening
from distir.transform.all_steps import STEPS
from distir.transform.overlap import KINDS, Inapplicable, Overlapped, kind

MODEL = """\
func @main(
  %w1: Tensor[Float32, (8, 8), 1] {param}, %w2: Tensor[Float32, (8, 4), 1] {param},
  %x: Tensor[Float32, (8, 8), 1] {batch = 0}
) {
  %h = MatMul(%x, %w1)
  %a = Relu(%h)
  %y = MatMul(%a, %w2)
  return %y
}
"""
TRAINING = distir.transform(distir.parse(MODEL), "grad", "loss=mse", "optimizer=sgd")
REPLICAS = distir.transform(TRAINING, "dp=2")


@pytest.fixture
def backwards():
    """A kind of somebody's own, as a plugin registers it."""

    @kind
    def backwards(module: distir.Module, *, how_far: int = 3) -> Overlapped:
        """Everything the other way round."""
        if how_far == 0:
            raise Inapplicable("there is nothing to turn round")
        return Overlapped(module, f"turned round by {how_far}", ("one sum is left: it is round",))

    yield
    del KINDS["backwards"]


def test_a_kind_is_one_definition(backwards):
    found = STEPS["overlap"]
    assert found.options["how_far"].default == 3
    assert "`backwards`: Everything the other way round." in found.documentation
    assert found.value is not None
    assert "backwards" in (found.value.choices or ())
    with listening() as said:
        assert distir.transform(REPLICAS, "overlap=backwards", "how_far=5") == REPLICAS
    assert said[0].startswith("backwards: turned round by 5; ")
    assert said[1:] == ["backwards: one sum is left: it is round"]


def test_what_does_not_apply_is_said(backwards):
    with listening() as said:
        distir.transform(REPLICAS, "overlap", "how_far=0")
    assert "backwards: does not apply: there is nothing to turn round" in said
    with pytest.raises(ProgramError, match=r"DIR684.*there is nothing to turn round"):
        distir.transform(REPLICAS, "overlap=gradients,backwards", "how_far=0")


def test_two_kinds_have_no_option_of_one_name(backwards):
    with pytest.raises(TypeError, match="both have an option `how_far`"):

        @kind
        def other(module: distir.Module, *, how_far: int = 1) -> Overlapped:
            """Another one."""
            return Overlapped(module, "nothing")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("overlap=gradient",), "no kind of overlap `gradient`; did you mean `gradients`"),
        (("overlap=gradients", "how_far=1"), "`how_far` is an option of the kind `backwards`"),
        (("overlap", "bind=B"), "`bind` expected names with sizes"),
    ],
)
def test_words_that_do_not_fit(backwards, words, message):
    with pytest.raises(StepError, match=message):
        distir.transform(REPLICAS, *words)


def test_a_program_on_one_device_is_refused():
    with pytest.raises(ProgramError, match="DIR684") as refused:
        distir.transform(TRAINING, "overlap")
    (found,) = refused.value.diagnostics
    assert found.notes or "gradients" in found.message


@pytest.mark.parametrize("again", ["overlap", "overlap=gradients"])
def test_what_is_on_streams_already_is_said(again):
    with pytest.raises(ProgramError) as refused:
        distir.transform(distir.transform(REPLICAS, "overlap=gradients"), again)
    (found,) = refused.value.diagnostics
    assert found.help == "it leaves alone what is on a stream already, here on `reduce`"
