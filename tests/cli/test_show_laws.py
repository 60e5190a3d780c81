from hypothesis import given, settings
from programs import programs
from test_show_command import unannotated
from thorough import most_examples

from distir.analysis.program import read
from distir.analysis.provenance import with_facts, without_facts
from distir.cost import load
from distir.simulate import arguments, plan
from distir.simulate.show import annotated
from distir.syntax import print_module


@settings(deadline=None, max_examples=most_examples(60))
@given(programs())
def test_what_is_written_in_is_true_and_changes_nothing(made):
    module = getattr(made, "module", made)
    program = read(print_module(module))
    entry = program.module.entry()
    instance = program.analysis.instance(entry, arguments(entry, {}))
    simulation = plan(program.module, program.analysis.domain, instance, load("dgx-a100"))
    plain = without_facts(program.module)
    for shown in (annotated(program, instance, simulation), annotated(program, instance, None)):
        again = read(shown)
        assert not again.errors
        assert unannotated(again.module) == unannotated(plain)
    stated = read(annotated(program, instance, simulation, facts=True)).module
    assert unannotated(stated) == unannotated(with_facts(program.module, entry))
