"""What is told of one statement is what the whole timeline says, in random programs with calls over several devices."""

import pytest
from hypothesis import HealthCheck, given, settings
from programs import programs
from reading_samples import MACHINE
from thorough import most_examples

from distir.ide.document import Setup, open_document
from distir.ide.instances import View
from distir.ir import Apply
from distir.simulate.show import moment
from distir.syntax import print_module


@given(programs())
@settings(max_examples=most_examples(60), deadline=None, suppress_health_check=list(HealthCheck))
def test_moments_waits_and_slack_are_those_of_the_timeline(module):
    document = open_document(print_module(getattr(module, "module", module)), "random.dir", Setup(MACHINE))
    simulation = document.simulation
    if simulation is None:
        return
    view, timeline = View(document, document), simulation.timeline()
    waits = {}
    for wait in timeline.waits:
        waits.setdefault(wait.event, {})[wait.device] = wait.seconds
    for name, occurrence in document.shown.items():
        function = document.program.module.functions[name]
        for index, statement in enumerate(function.body):
            found, expected = view.moment(function, index), moment(timeline, occurrence, index)
            assert (found is None) == (expected is None)
            if expected is not None:
                assert found.start == pytest.approx(expected.start, rel=1e-9, abs=1e-15)
                assert found.seconds == pytest.approx(expected.seconds, rel=1e-9, abs=1e-15)
                assert found.devices == expected.devices
            event = view.event(function, index)
            if event is not None:
                assert isinstance(statement, Apply)
                idle = {wait.device: wait.seconds for wait in view.idle(function, index)}
                assert idle == pytest.approx(waits.get(event, {}))
                assert view.index.slack(event) == pytest.approx(timeline.slack[event], abs=1e-15)
