"""What a chain of steps, a simulation and a run ask of one module is found once."""

import gc

import distir
from distir.analysis import checking
from distir.ir.collection import paused_collection
from distir.models import mlp, named
from distir.simulate import simulate
from distir.transform import transform

MODULE = mlp(2, 8, training=True)
SIZES = {"layers": 4, "width": 64, "heads": 4, "kv_heads": 2, "ffn": 64, "vocabulary": 128}
STEP = transform(named("llama3-8b", None, 32, **SIZES), "grad", "optimizer=adamw")


def test_a_module_is_checked_once(monkeypatch):
    given, whole, found = checking.structure, [], []

    def structure(module, earlier=None):
        again = any(one is module and other is earlier for one, other in found)
        whole.extend([] if again else [module])
        found.append((module, given(module, earlier)))
        return found[-1][1]

    monkeypatch.setattr(checking, "structure", structure)
    made = transform(MODULE, "dp=2")
    for size in (4, 8):
        simulate(made, bind={"B": size})
    assert sum(module is made for module in whole) == 1


def test_a_step_is_checked_as_another_version_of_what_it_was_given(monkeypatch):
    """Functions that a step leaves as they were are taken over, and what is found is what checking alone finds."""
    given, versions = checking.check, []

    def check(module, earlier=None, **how):
        versions.extend([module] if earlier is not None and earlier.module is not module else [])
        return given(module, earlier, **how)

    monkeypatch.setattr(checking, "check", check)
    module = STEP
    for step in (("dtp=2,1,2", "microbatches=4"), ("zero=1", "partition=split"), ("overlap",), ("fuse",)):
        module = transform(module, *step)
        found, alone = checking.analysed(module), given(module)
        assert found.diagnostics == alone.diagnostics
        assert found.states == alone.states
        assert {name: own.returned for name, own in found.states.items()} == {
            name: own.returned for name, own in alone.states.items()
        }
    assert versions


def test_what_is_found_for_sizes_is_gone_with_the_simulation():
    text = distir.format(transform(MODULE, "dp=2"))
    module = distir.parse(text)
    known = checking.analysed(module)
    before = len(known.domain.instances)
    times = [simulate(module, bind={"B": size}).latency_s for size in (4, 4096, 4)]
    assert len(known.domain.instances) == before
    assert times[0] == times[2] < times[1]
    assert times == [simulate(distir.parse(text), bind={"B": size}).latency_s for size in (4, 4096, 4)]


def test_the_collector_is_as_it_was():
    for enabled in (True, False):
        (gc.enable if enabled else gc.disable)()
        try:
            with paused_collection():
                simulate(transform(MODULE, "dp=2"), bind={"B": 4})
                assert not gc.isenabled()
            assert gc.isenabled() == enabled
        finally:
            gc.enable()
