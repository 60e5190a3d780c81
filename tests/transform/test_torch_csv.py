"""Schedules as CSV files of `torch.distributed.pipelining`: out of programs, into programs, and what is refused."""

import os

import pytest
from hypothesis import given, settings
from pipeline_samples import orders
from thorough import most_examples
from torch_csv_samples import LAYERS, WAYS, pipeline, training

import distir
from distir.diagnostics import ProgramError
from distir.models.catalogue import program
from distir.models.published import PUBLISHED, resized
from distir.transform import StepError, transform
from distir.transform.pipeline import torch_csv
from distir.transform.pipeline.passes import Pass, Task
from distir.transform.pipeline.recovered import recovered_order
from distir.transform.pipeline.schedules import SCHEDULES


@pytest.fixture(scope="module")
def model():
    return training()


@pytest.fixture
def written(tmp_path):
    def write(text, name="order.csv"):
        path = tmp_path / name
        path.write_text(text)
        return os.fspath(path)

    return write


def test_every_schedule_is_among_the_ways():
    assert {schedule for schedule, *_ in WAYS} == {name for name in SCHEDULES if not SCHEDULES[name].cuts}


def test_chunks_of_sequences_are_no_stages_of_torch():
    sizes = {"layers": 4, "width": 16, "heads": 4, "kv_heads": 2, "head_size": 4, "vocabulary": 32, "ffn": 16}
    model = program(resized("llama3-8b", PUBLISHED["llama3-8b"], sizes), 16, 8, "Float32")
    model = transform(model, "grad", "optimizer=adam")
    assert recovered_order(transform(model, "pp=2", "microbatches=2")).order == SCHEDULES["1f1b"](2, 2)
    for count in (1, 2):
        chunks = transform(model, "pp=2", f"microbatches={count}", "schedule=seq1f1b", "chunks=2")
        with pytest.raises(ProgramError, match="DIR651"):
            recovered_order(chunks)


@pytest.mark.by_turns
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_pipeline_is_the_same_made_of_its_own_schedule(model, way, written):
    made = pipeline(model, way)
    text = torch_csv.write(recovered_order(made).order)
    again = transform(model, f"pp={way[1]}", f"schedule={written(text)}")
    assert recovered_order(again).order == recovered_order(made).order
    if not SCHEDULES[way[0]].splits:  # else messages may go at other times past passes in which a stage does nothing
        assert distir.format(again) == distir.format(made)
    comms = torch_csv.write(recovered_order(made).order, "compute_comms")
    assert torch_csv.read(comms) == torch_csv.read(text)


@settings(deadline=None, max_examples=most_examples(60))
@given(orders())
def test_any_order_that_can_be_run_comes_back(drawn):
    *_, order = drawn
    order = tuple(row for row in order if row)  # a rank without stages has no line
    for kind in torch_csv.FORMATS:
        assert torch_csv.read(torch_csv.write(order, kind)) == order


@pytest.mark.parametrize("degrees", ["2,1,2", "1,2,2", "2,2,2"])
def test_replicas_and_shards_run_the_line_of_their_rank(model, degrees):
    found = recovered_order(transform(model, f"dtp={degrees}", "microbatches=4", "schedule=zb-h1"))
    alone = recovered_order(transform(model, "pp=2", "microbatches=4", "schedule=zb-h1"))
    assert [[t for t in row if t.kind is not Pass.WEIGHT] for row in found.order] == [
        [t for t in row if t.kind is not Pass.WEIGHT] for row in alone.order
    ], "weight gradients are moved by what passes take"
    assert sorted(d for devices in found.devices for d in devices) == list(range(1, len(found.devices[0]) * 2 + 1))


def test_rounds_are_written_out_and_microbatches_keep_their_numbers(model):
    made = transform(model, "pp=2", "microbatches=24")
    assert any(f.name.startswith("round") for f in made)
    for device, tasks in enumerate(recovered_order(made).order):
        assert tasks == SCHEDULES["1f1b"](2, 24)[device]


def test_microbatches_out_of_turn_keep_their_numbers(model, written):
    text = "0F2,0F0,0F1,0B1,0B2,0B0\n1F2,1F0,1F1,1B1,1B2,1B0\n"
    made = transform(model, "pp=2", f"schedule={written(text)}")
    assert torch_csv.write(recovered_order(made).order).splitlines() == text.splitlines()


def test_a_stage_without_weights_has_its_passes_all_the_same():
    text = """
func @main(%w: Tensor[Float32, (4, 4), 1] {param}, %v: Tensor[Float32, (4, 4), 1] {param},
           %x: Tensor[Float32, (8, 4), 1] {batch = 0}) {
  %a = MatMul(%x, %w)
  %b = MatMul(%a, %v)
  return %b
}
"""
    model = transform(distir.parse(text), "grad", "loss=mse")
    for name in ("1f1b", "zb-h1"):
        order = recovered_order(transform(model, "pp=2", "microbatches=4", f"schedule={name}")).order
        kinds = (Pass.FORWARD, Pass.BACKWARD, Pass.WEIGHT)[: 3 if name == "zb-h1" else 2]
        assert {*order[0]} == {Task(0, k, kind) for k in range(4) for kind in kinds}


def test_inference_has_forward_passes_alone(written):
    made = training()
    forward = distir.parse(
        "func @main(%w: Tensor[Float32, (4, 4), 1] {param}, %v: Tensor[Float32, (4, 4), 1] {param},"
        " %x: Tensor[Float32, (8, 4), 1] {batch = 0}) {\n  %a = MatMul(%x, %w)\n  %b = MatMul(%a, %v)\n  return %b\n}"
    )
    text = torch_csv.write(recovered_order(transform(forward, "pp=2", "microbatches=2")).order)
    assert text.splitlines() == ["0F0,0F1", "1F0,1F1"]
    path = written(text)
    assert distir.format(transform(forward, "pp=2", f"schedule={path}")) == distir.format(
        transform(forward, "pp=2", "microbatches=2")
    )
    with pytest.raises(ProgramError) as caught:
        transform(made, "pp=2", f"schedule={path}")
    assert "forward passes alone" in caught.value.diagnostics[0].message


def test_what_torch_writes_itself_is_taken(model, written):
    """As `ScheduleDualPipeV` and others dump it: bubbles, bytes at the start, passes that overlap, CRLF."""
    text = '\ufeff0F0,"0F1",,(1F0;1B0)OVERLAP_F_B,1F1,1B1,0I0,0W0,0I1,0W1\r\n'
    order = torch_csv.read(text)
    assert " ".join(map(str, order[0])) == "F0@0 F1@0 F0@1 B0@1 W0@1 F1@1 B1@1 W1@1 B0@0 W0@0 B1@0 W1@0"
    assert recovered_order(transform(model, "pp=1", f"schedule={written(text)}")).order == order


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ("", 1, 1, "a line for each rank"),
        ("0F0,0B0\n1F0, 1X0\n", 2, 6, "found `1X0`"),
        ("0F0,0B\n", 1, 5, "the number of a microbatch"),
        ("0F0,0UNSHARD1\n", 1, 5, "no microbatch"),
        ("0F0,-1B0\n", 1, 5, "found `-1B0`"),
        ("0F0,0f1\n", 1, 5, "found `0f1`"),
        ("0F0,0B0,(0F1;0Q1)OVERLAP_F_B\n", 1, 14, "found `0Q1`"),
        ("0F0,0B0\n,,\n1F0,1B0\n", 2, 1, "found nothing"),
        ("0F99999999999999999999\n", 1, 1, "numbers up to"),
        ("schedule: 1f1b\n", 1, 1, "found `schedule: 1f1b`"),
    ],
)
def test_a_bad_file_is_met_with_line_and_column(model, written, text, line, column, said):
    with pytest.raises(StepError) as caught:
        transform(model, "pp=2", f"schedule={written(text)}")
    message = str(caught.value)
    assert f"line {line}, column {column}: " in message
    assert said in message
    assert "order.csv" in message


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("0F0,0B0\n", "DIR645", "orders for 1 device, expected 2"),
        ("0F0,0B0\n1F0\n", "DIR645", "never runs `B0@1`"),
        ("0F0,0I0\n1F0,1B0\n", "DIR645", "never runs `W0@0`"),
        ("0F0,0F0,0B0\n1F0,1B0\n", "DIR645", "2 times"),
        ("0F0,0B0,1F0\n1B0\n", "DIR646", "a stage is on one device"),
        ("0B0,0F0\n1F0,1B0\n", "DIR647", "which it needs"),
        ("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "DIR647", "wait for each other"),
        ("0F0,0B0\n2F0,2B0\n", "DIR645", "there are 2 stages"),
    ],
)
def test_an_order_that_cannot_be_run_is_diagnosed_as_that_of_any_schedule(model, written, text, code, said):
    with pytest.raises(ProgramError) as caught:
        transform(model, "pp=2", f"schedule={written(text)}")
    (found,) = caught.value.diagnostics
    assert found.code.number == code
    assert said in found.message
    assert "order.csv" in found.message


def test_one_stage_is_said_in_the_singular(model, written):
    with pytest.raises(ProgramError, match="there is 1 stage and 2 microbatches"):
        transform(model, "pp=1", f"schedule={written('1F0,1B0,1F1,1B1')}")


def test_numbers_that_are_not_those_of_the_file_are_refused(model, written):
    path = written("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    with pytest.raises(ProgramError, match="is for 2 microbatches, found 4"):
        transform(model, "pp=2", f"schedule={path}", "microbatches=4")
    with pytest.raises(ProgramError, match="virtual=2"):
        transform(model, "pp=2", f"schedule={path}", "virtual=2")
    with pytest.raises(StepError, match="no such file"):
        transform(model, "pp=2", "schedule=none.csv")


def test_more_stages_than_layers_are_refused_as_ever(model, written):
    stages = LAYERS + 1
    row = ",".join([*(f"{s}F0" for s in range(stages)), *(f"{s}B0" for s in reversed(range(stages)))])
    with pytest.raises(ProgramError) as caught:
        transform(model, "pp=1", f"schedule={written(row)}")
    assert caught.value.diagnostics[0].code.number == "DIR642"


def test_a_program_without_stages_has_no_schedule(model):
    with pytest.raises(ProgramError) as caught:
        recovered_order(model)
    assert caught.value.diagnostics[0].code.number == "DIR651"
    assert caught.value.diagnostics[0].help


# as pytorch/pytorch, test/distributed/pipelining/artifacts/zb1p_2rank_2stagep_{compute,comms}.csv at 15380b18 and
# 68401d25, spell them
@pytest.mark.parametrize(
    ("old", "today"),
    [
        ("0F0,0B0,0W0\n,1F0,1B0,1W0\n", "0F0,0I0,0W0\n,1F0,1I0,1W0\n"),
        ("0F0,0BW0\n1F0,1BW0\n", "0F0,0B0\n1F0,1B0\n"),
        ("0F0,0SEND_F0,0BW0\n1F0,1B0,1SEND_B0,1W0\n", "0F0,0B0\n1F0,1I0,1W0\n"),
    ],
)
def test_letters_of_torch_2_5_are_read_as_todays(old, today):
    assert torch_csv.read(old) == torch_csv.read(today)


def test_letters_of_torch_2_5_beside_todays_are_refused(model, written):
    path = written("0F0,0I0,0W0\n1F0, 1W0,1B0\n")
    with pytest.raises(StepError) as refused:
        transform(model, "pp=2", "microbatches=1", f"schedule={path}")
    assert str(refused.value) == (
        f"`{path}`, line 2, column 10: `1B0` is of torch 2.5, which wrote `B` for what is `I` now, and `BW` for `B`; "
        "and `0I0` is of today's"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0F0,0BW0\n1F0,1BW0,1W0\n", "line 2, column 10: `1W0` and `1BW0` run the same pass: `1BW0` is both halves"),
        ("0F0,0B0\n1F0,1I0,1B0,1W0\n", "line 2, column 9: `1B0` and `1I0` run the same pass: `1B0` is both halves"),
    ],
)
def test_a_half_beside_a_whole_backward_pass_of_the_same_microbatch_is_refused(text, said):
    with pytest.raises(torch_csv.ScheduleFileError) as refused:
        torch_csv.read(text)
    assert str(refused.value) == said


def test_waiting_for_reduced_gradients_is_passed_over():
    assert torch_csv.read("0F0,0B0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n") == torch_csv.read("0F0,0B0\n")


def test_stages_of_a_device_may_be_stated_as_the_file_has_them(model, written):
    path = written(torch_csv.write(SCHEDULES["interleaved"](2, 2, 2)))
    assert transform(model, "pp=2", f"schedule={path}", "virtual=2") == transform(model, "pp=2", f"schedule={path}")
    with pytest.raises((StepError, ProgramError), match="has 2 stages per device, found `virtual=3`"):
        transform(model, "pp=2", f"schedule={path}", "virtual=3")
