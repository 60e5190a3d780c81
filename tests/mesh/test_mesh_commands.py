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


NAMED = (
    MLP.replace("dp = 2, tp = 2", "dp = D, tp = T")
    .replace("12, 24@tp", "12, 24@(tp, dp)")
    .replace("%h = MatMul(%x, %w1)", '%w = AllGather[axis = "dp", dim = 1](%w1)\n  %h = MatMul(%x, %w)')
)


@pytest.fixture
def named(mlp):
    mlp.write_text(NAMED)
    return mlp


def test_sizes_of_a_mesh_may_be_names_that_are_bound_on_the_command_line(distir, named, tmp_path):
    for command in ("check", "erase"):
        assert distir(command, named).code == 0
    sizes = ("--bind", "D=2", "--bind", "T=2")
    one = distir("expand", named, *sizes).out
    named.write_text(NAMED.replace("= D", "= 2").replace("= T", "= 2"))
    assert one == distir("expand", named).out
    named.write_text(NAMED)
    for command in ("simulate", "run", "lower", "show"):
        out = ("-o", tmp_path / "lowered") if command == "lower" else ()
        ended = distir(command, named, *out, *sizes, "--bind", "B=4")
        assert ended.code == 0, ended.err
    assert distir("project", named, *sizes).code == 0
    erased = tmp_path / "erased.dir"
    distir("erase", named, "-o", erased)
    assert distir("prove", named, "--against", erased, *sizes, "--bind", "B=4").code == 0


@pytest.mark.parametrize(
    ("bind", "message"),
    [
        (("D=2",), "`T` in `mesh (dp = 2, tp = T)` has no number, which a program of every device needs"),
        (("D=2", "T=0"), "expected the number of devices along an axis for `T`, found `0`"),
        (("D=3", "T=3"), "dimension 1, which is 24, does not split over 9 devices (tp = 3 × dp = 3)"),
        (("D=2", "T=2", "E=3"), "`--bind E=3`: no size of its mesh has this name"),
    ],
)
def test_sizes_that_are_missing_or_do_not_divide_are_refused_once(distir, named, bind, message):
    ended = distir("expand", named, *(word for flag in bind for word in ("--bind", flag)))
    assert ended.code in (1, 2)
    assert message in ended.err
    assert ended.err.count("error:") + ended.err.count("error[") == 1


def test_settings_bind_sizes_of_a_mesh(distir, named):
    (named.parent / "distir.toml").write_text("[bind]\nD = 2\nT = 2\n")
    assert distir("expand", named).code == 0


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
        ("1000000", "expected at most 65,536 devices, found 2,000,000", "take fewer devices"),
    ],
)
def test_a_mesh_larger_than_the_machine_is_refused_with_what_would_do(distir, mlp, devices, message, help):
    mlp.write_text(MLP.replace("dp = 2", f"dp = {devices}"))
    ended = distir("simulate", mlp, "--bind", "B=16")
    assert ended.code == 1
    assert message in ended.err
    assert help in ended.err
