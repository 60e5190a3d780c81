"""What a chain of steps, a simulation and a run ask of one module is found once."""

import gc

import distir
from distir.analysis import checking
from distir.ir.collection import paused_collection
from distir.models import mlp
from distir.simulate import simulate
from distir.transform import transform

MODULE = mlp(2, 8, training=True)


def test_a_module_is_checked_once(monkeypatch):
    given, whole = checking.structure, []

    def structure(module, earlier=None):
        whole.extend([module] if earlier is None else [])
        return given(module, earlier)

    monkeypatch.setattr(checking, "structure", structure)
    made = transform(MODULE, "dp=2")
    for size in (4, 8):
        simulate(made, bind={"B": size})
    assert sum(module is made for module in whole) == 1


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
