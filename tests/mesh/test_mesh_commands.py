"""Commands on a program of a mesh: each takes what it means, or says in one sentence that it does not."""

import pytest
from mesh_programs import MLP, TRAINING


@pytest.fixture
def mlp(tmp_path):
    path = tmp_path / "mlp.dir"
    path.write_text(MLP)
    return path


def test_a_missing_sum_is_refused_with_what_to_insert(distir, mlp):
    mlp.write_text(MLP.replace('AllReduce[axis = "tp"]', "Relu"))
    ended = distir("check", mlp)
    assert ended.code == 1
    assert "`Relu` expected `%p` whole along `tp`, found a pending sum" in ended.out + ended.err
    assert 'insert `AllReduce[axis = "tp"]` for `%p`' in ended.out + ended.err


def test_erased_and_expanded_programs_check(distir, mlp, tmp_path):
    for command in ("erase", "expand"):
        out = tmp_path / f"{command}.dir"
        assert distir(command, mlp, "-o", out).code == 0
        assert distir("check", out).code == 0
        assert distir(command, out).out == out.read_text()
    proved = distir("prove", tmp_path / "expand.dir", "--against", tmp_path / "erase.dir", "--bind", "B=4")
    assert proved.code == 0, proved.err


def test_a_program_on_a_mesh_is_proved_against_its_erasure(distir, mlp, tmp_path):
    out = tmp_path / "erased.dir"
    distir("erase", mlp, "-o", out)
    assert distir("prove", mlp, "--against", out, "--bind", "B=4").code == 0


def test_run_gives_what_the_sequential_program_gives(distir, mlp, tmp_path):
    out = tmp_path / "erased.dir"
    distir("erase", mlp, "-o", out)
    run = [distir("run", path, "--bind", "B=4").out for path in (mlp, out)]
    assert run[0] == run[1] != ""


@pytest.mark.parametrize("command", [("simulate", "--bind", "B=4"), ("project",), ("show",)])
def test_commands_take_every_device_of_the_mesh(distir, mlp, command):
    name, *options = command
    ended = distir(name, mlp, *options)
    assert ended.code == 0, ended.err
    if name == "show":
        assert "%p: Tensor[Float32, (B@dp, 12), 1, sum tp] = MatMul" in ended.out


def test_a_step_says_what_it_takes_instead(distir, mlp):
    ended = distir("transform", "dp=2", mlp)
    assert ended.code == 1
    assert "DIR691" in ended.err
    assert "`distir expand` gives the program of every device, `distir erase` the sequential one" in ended.err


def test_comments_stay_with_their_statements(distir, tmp_path):
    path = tmp_path / "training.dir"
    path.write_text(TRAINING.replace("%d = Sub(%y, %t)", "%d = Sub(%y, %t)  // what is left"))
    assert "%d = Sub(%y, %t) // what is left" in distir("erase", path).out


@pytest.mark.parametrize(
    ("devices", "message", "help"),
    [
        ("16", "`dgx-a100` has no device 9: it has 8, numbered 1 to 8", "`dgx-a100x4` is large enough"),
        ("1000000", "numbered 1 to 8, and `mesh (dp = 1000000, tp = 2)` has 2,000,000", ""),
    ],
)
def test_a_mesh_larger_than_the_machine_is_refused_with_what_would_do(distir, mlp, devices, message, help):
    mlp.write_text(MLP.replace("dp = 2", f"dp = {devices}"))
    ended = distir("simulate", mlp, "--bind", "B=16")
    assert ended.code == 1
    assert message in ended.err
    assert help in ended.err


def test_more_devices_than_can_be_written_are_not_expanded(distir, mlp):
    mlp.write_text(MLP.replace("dp = 2", "dp = 1000000"))
    ended = distir("expand", mlp)
    assert ended.code == 1
    assert "expected at most 65,536 devices, found 2,000,000" in ended.err
    assert "take fewer devices" in ended.err
