"""Timeline, memory, comparison, other machines, programs of ranks: what views beside a text are told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_samples import PIPELINE, opened
from thorough import ALL

from distir.cost import HardwareError, load, profiles
from distir.ide.compare import compare, in_words
from distir.ide.document import Setup, open_document
from distir.ide.hardware import changed, figures
from distir.ide.memory import memory_view, thinned
from distir.ide.rank_program import rank_program
from distir.ide.status import status
from distir.ide.timeline import timeline_view
from distir.syntax import parse


def test_the_timeline_names_places_in_the_text():
    found = timeline_view(opened(PIPELINE))
    assert len(found.bars) == found.events
    for bar in found.bars:
        assert PIPELINE[bar.span.start : bar.span.end].startswith(bar.label) or "," in PIPELINE[bar.span.start :]
    assert sum(found.bars[e].duration_s for e in found.critical_path) == pytest.approx(found.latency_s)
    assert all(found.bars[w.before].start_s == pytest.approx(w.start_s + w.duration_s) for w in found.waits)


def test_memory_is_that_of_the_simulation():
    document = opened(PIPELINE)
    found = memory_view(document)
    assert [curve.peak_bytes for curve in found.memories] == [
        use.peak_memory_bytes for use in document.simulation.devices.values()
    ]


def test_what_a_process_holds_beside_tensors_is_in_every_view():
    document = open_document(PIPELINE, "program.dir", Setup(load("dgx-h100")))
    document.simulate()
    uses = document.simulation.devices
    assert all(use.overhead.total for use in uses.values())
    lanes = {lane.device: lane for lane in timeline_view(document).devices}
    curves = {device: curve for curve in memory_view(document).memories for device in curve.devices}
    for device, use in uses.items():
        assert lanes[device].overhead_bytes == curves[device].overhead_bytes == use.overhead.total
        assert lanes[device].fits == use.fits
    fullest = max(uses.values(), key=lambda use: use.needed_bytes)
    found = status(document, document)
    assert (found.peak_memory_bytes, found.overhead_bytes) == (fullest.peak_memory_bytes, fullest.overhead.total)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 100), st.just(())), max_size=200), st.integers(2, 50))
def test_a_thinned_curve_keeps_its_peak_its_order_and_its_end(points, most):
    points = sorted(points, key=lambda point: point[0])
    found = thinned(points, most)
    assert len(found) <= max(most, 1) or len(points) <= most
    assert [point[0] for point in found] == sorted(point[0] for point in found)
    if points:
        assert max(n for _, n, _ in found) == max(n for _, n, _ in points)
        assert found[-1] == points[-1]


def test_a_comparison_says_what_changed():
    found = compare(opened(PIPELINE), opened(PIPELINE.replace("Relu", "Tanh")), "before", "after")
    assert found.shared == 2
    assert (found.other_parting.op, found.this_parting.op) == ("Relu", "Tanh")
    assert in_words(found).startswith("before → after: 29.0us →")


TOGETHER = ("correction", "fabric", "products", "experts", "attention")
"""What a network is built of, and what was fitted together, is changed in a profile."""


def test_each_figure_of_each_machine_can_be_changed():
    """By default a figure that several machines have, of the first of them."""
    tried = set()
    for name in profiles():
        machine = load(name)
        names = {figure.figure for figure in figures(machine)}
        for figure in figures(machine):
            words = figure.figure.split()
            if not figure.unit or words[-1] == "blocks" or (words[1:2] and words[1] in TOGETHER):
                continue
            if not ALL and tuple(words[1:]) in tried:
                continue
            tried.add(tuple(words[1:]))
            through_a_card = words[-1] == "bandwidth" and f"{words[0]} cards bandwidth" in names - {figure.figure}
            factor = 0.5 if "achieved" in words or through_a_card else 2  # never above the peak, or what a card has
            other = changed(name, {figure.figure: f"{float(figure.value) * factor}{figure.unit}"}, "other")
            rows = {row.figure: row.value for row in figures(other) if row.unit}
            assert float(rows.pop(figure.figure)) == pytest.approx(factor * float(figure.value))
            assert rows == {r.figure: r.value for r in figures(machine) if r.unit and r.figure != figure.figure}


@pytest.mark.parametrize("figure", ["no such", "a100", "", "nvlink send", "a100 flops BFloat16", 'a"\n'])
def test_a_figure_that_is_none_is_refused(figure):
    with pytest.raises(HardwareError):
        changed("dgx-a100", {figure: "1GB"}, "other")


def test_the_program_of_a_rank_links_to_the_whole():
    found = rank_program(opened(PIPELINE), 2)
    lines = found.text.splitlines()
    assert not parse(found.text).diagnostics
    for link in found.links:
        name = lines[link.line - 1].split(":")[0].split("=")[0].split(",")[0].strip()
        assert name in PIPELINE[link.span.start : link.span.end]
    with pytest.raises(LookupError, match="nothing runs on device 9"):
        rank_program(opened(PIPELINE), 9)
    with pytest.raises(LookupError, match="has errors"):
        rank_program(opened(PIPELINE.replace("Relu(", "Relu((")), 1)


def test_status():
    document = opened(PIPELINE)
    assert status(document, None).state == "pending"
    document.simulate()
    assert status(document, document).state == "simulated"
    edited = document.edited(PIPELINE.replace("Relu", "Tanh"), 1)
    assert status(edited, document).state == "stale"
    on_demand = status(edited, document, on_demand=True)
    assert (on_demand.state, on_demand.why) == ("on_demand", "a program of 12 statements is simulated on demand")
    assert status(document, document, on_demand=True).state == "simulated"
    assert not edited.is_simulated
    broken = document.edited(PIPELINE.replace("Relu(", "Relu(("), 2)
    assert (status(broken, document).state, status(broken, document).why) == ("failed", "the program has errors")
    assert status(document, document).stale is False
    assert (status(edited, document).stale, status(document, None).stale) == (True, False)
    told = status(broken, document)
    assert (told.stale, told.latency_s) == (True, status(document, document).latency_s)
    assert told.stale_why.startswith("stale, simulated 2 edits ago: the program has errors (line 4, ")


def of_machine(machine, figure):
    (row,) = [row for row in figures(machine) if row.figure == figure]
    return f"{row.value}{row.unit}"


def test_a_link_that_is_asked_to_do_more_than_its_card_raises_the_card():
    faster = changed("dgx-a100", {"infiniband send bandwidth": "96GB/s"}, "faster")
    assert of_machine(faster, "infiniband cards bandwidth") == "96GB/s"
    assert of_machine(faster, "infiniband collective bandwidth") == "24GB/s"
    slower = changed("dgx-a100x2", {"infiniband send bandwidth": "9GB/s"}, "slower")
    assert slower.devices == 16
    assert of_machine(slower, "infiniband cards bandwidth") == "25GB/s"


def test_a_card_may_be_changed_and_not_below_what_its_link_achieves():
    assert of_machine(changed("dgx-a100", {"infiniband cards bandwidth": "50GB/s"}, "x"), "infiniband cards bandwidth")
    with pytest.raises(HardwareError, match="less than one device achieves"):
        changed("dgx-a100", {"infiniband cards bandwidth": "10GB/s"}, "x")


def test_what_issuing_takes_may_be_changed():
    machine = changed("dgx-a100@eager", {"a100 issue eager": "55us"}, "x")
    assert machine.kinds[0].host.issue == pytest.approx(55e-6)
