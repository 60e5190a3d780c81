"""What is live at the peak has the name of the result that it is, and its size."""

from hypothesis import given
from simulate_samples import machine
from test_simulation_laws import modules, quick, right

from distir import simulate
from distir.analysis.program import read
from distir.ir import results

SPLIT = """\
func @halves(%x: Tensor[Float32, (512, 512), 1]) {
  %a, %b = Split[axis = 0, num_outputs = 2](%x)
  %c = Relu(%a)
  return %a, %b, %c
}

func @main(%x: Tensor[Float32, (512, 512), 1]) {
  %p, %q, %r = @halves(%x)
  %l, %_m = Split[axis = 1, num_outputs = 2](%x)
  %e = Relu(%x)
  return %p, %q, %r, %e, %l
}
"""


def residents(simulation, memory):
    return simulation.memory().peak(memory)[2]


def test_both_outputs_of_a_split_are_named():
    simulation = simulate(read(SPLIT, "a.dir").module)
    found = [value.name for value in residents(simulation, simulation.memory_of(1))]
    assert sorted(found) == ["a", "b", "c", "e", "l", "x"]


@quick
@given(modules())
def test_each_name_is_that_of_a_result_of_the_reported_statement(module):
    module = right(module)
    simulation = simulate(module, machine())
    for memory in {simulation.memory_of(device) for device in simulation.devices}:
        for value in residents(simulation, memory):
            names = [param.name for param in module.functions[value.function].params]
            if value.index is not None:
                names = [name or "_" for name in results(module.functions[value.function].body[value.index])]
            assert value.name in names
