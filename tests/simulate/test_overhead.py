"""What a process holds beside tensors, as a profile states it: counted, shown, and part of whether a program fits."""

import json

import pytest

import distir
from distir.cli import main
from distir.cost import HardwareError, load, parse
from distir.models import mlp
from distir.search import Space
from distir.transform import transform

GB = 10**9
PROCESS = """
title = "with a process"
extends = "dgx-a100"

[kinds.a100.process]
context = "1GB"
workspace = "200MB"
communicator = "500MB"
fragmentation = 0.1
"""


@pytest.fixture(scope="module")
def machine():
    return parse(PROCESS)


def training():
    return mlp(4, 64, 16, training=True)


def overheads(machine, *steps, **options):
    simulation = distir.simulate(transform(training(), *steps, **options), machine)
    return [use.overhead for use in simulation.devices.values()]


def test_the_default_is_nothing():
    (use,) = distir.simulate(training(), "laptop-cpu").devices.values()
    assert use.overhead.total == use.overhead.charged == 0
    assert use.needed_bytes == use.peak_memory_bytes


def test_one_device_has_a_context_workspaces_and_fragments(machine):
    simulation = distir.simulate(training(), machine)
    (use,) = simulation.devices.values()
    assert (use.overhead.context, use.overhead.workspace, use.overhead.communicators) == (GB, GB // 5, 0)
    assert use.overhead.fragmentation == pytest.approx(0.1 * use.peak_memory_bytes, abs=1)
    assert use.needed_bytes == use.peak_memory_bytes + use.overhead.total


@pytest.mark.parametrize(
    ("steps", "groups"),
    [
        (("dp=4",), 1),
        (("tp=2", "dp=2"), 2),
        (("pp=2", "microbatches=2"), 1),
        (("dtp=2,2,2", "microbatches=2"), 3),
        (("dp=4", "zero=3 partition=split"), 1),
    ],
    ids=str,
)
def test_each_group_of_devices_has_its_communicator(machine, steps, groups):
    words = [w for step in steps for w in step.split()]
    assert {o.communicators for o in overheads(machine, *words)} == {groups * GB // 2}


def test_one_device_that_represents_all_has_their_communicators(machine):
    whole = overheads(machine, "dtp=2,2,2", microbatches=2)
    some = overheads(machine, "dtp=2,2,2", microbatches=2, representative=True)
    assert {o.communicators for o in whole} == {o.communicators for o in some}


def test_what_the_figure_of_the_memory_leaves_out_takes_in_the_first_of_it():
    machine = parse(PROCESS + 'left_out = "1GB"\n')
    (use,) = distir.simulate(training(), machine).devices.values()
    assert use.overhead.charged == use.overhead.total - GB
    machine = parse(PROCESS + 'left_out = "90GB"\n')
    (use,) = distir.simulate(training(), machine).devices.values()
    assert use.overhead.charged == 0 < use.overhead.total


def test_what_a_process_leaves_of_it_is_for_tensors():
    """The device has 85 GB, the profile says 80, and the process takes 0.7 of them: 84 GB fit, 85 do not."""
    machine = parse("""
title = "with more than it says"
extends = "dgx-a100"

[kinds.a100.process]
context = "700MB"
left_out = "5GB"
""")
    assert not distir.simulate(large(84), machine).findings()
    (finding,) = distir.simulate(large(85), machine).findings()
    assert finding.code.number == "DIR505"
    assert "has 84.3GB of memory" in finding.message


def large(gigabytes=79.5):
    """Of so many gigabytes; by default it fits 80 GB with 0.5 GB to spare."""
    rows = int(gigabytes * GB) // 2 // 1000
    return distir.parse(f"func @main(%x: Tensor[Float16, ({rows}, 1000), 1]) {{\n%y = Reshape(%x, [-1])\nreturn %y\n}}")


def test_a_program_that_fits_without_it_may_not_fit_with_it(machine):
    assert not distir.simulate(large(), "dgx-a100").findings()
    simulation = distir.simulate(large(), machine)
    (finding,) = simulation.findings()
    assert finding.code.number == "DIR505"
    assert "the process holds 9.15GB beside tensors" in finding.message
    assert not simulation.devices[1].fits


def test_a_search_counts_it(machine):
    space = Space(2, (16,))
    table = distir.search(training(), hardware=machine, space=space)
    assert all(row.fits for row in table if not row.reason)
    crowded = parse(PROCESS.replace("1GB", "80GB"))
    assert not any(row.fits for row in distir.search(training(), hardware=crowded, space=space))


def test_it_is_shown(machine, tmp_path, capsys):
    (tmp_path / "m.toml").write_text(PROCESS)
    (tmp_path / "p.dir").write_text(distir.format(training()))
    words = ["simulate", str(tmp_path / "p.dir"), "--hardware", str(tmp_path / "m.toml")]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "overhead" in shown
    assert "1.20GB" in shown
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    device = found["devices"]["1"]
    assert device["overhead_of"]["context"] == GB
    assert device["overhead_bytes"] == sum(device["overhead_of"].values())
    assert device["fits"] is True


def test_shipped_figures_have_sources_and_leave_room_for_what_they_state():
    for name in ("dgx-a100", "dgx-h100", "h200"):
        process = load(name).kinds[0].process
        assert process.context
        assert process.communicator
        stated = [f for f in load(name).figures if " process " in f.name]
        assert all(f.source and f.basis for f in stated)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('context = "1GB/s"', "context"),
        ('fragmentation = "5%"', "expected a share such as `0.05`"),
        ('contexts = "1GB"', "context"),
        ('communicator = "0GB"', "communicator"),
    ],
)
def test_faults_are_said(line, said):
    with pytest.raises(HardwareError) as raised:
        parse(f'title = "x"\nextends = "dgx-a100"\n[kinds.a100.process]\n{line}\n')
    assert said in str(raised.value)
