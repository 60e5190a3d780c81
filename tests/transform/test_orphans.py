"""Functions that a transform leaves without a caller go, and their names to the functions written in their place."""

import distir
from distir.transform.orphans import without_orphans

GIVEN = distir.parse("""
func @inner(%x: Tensor[Float32, (2,), 1]) { %y = Relu(%x) return %y }
func @layer(%x: Tensor[Float32, (2,), 1]) { %y = @inner(%x) return %y }
func @spare(%x: Tensor[Float32, (2,), 1]) { %y = Tanh(%x) return %y }
func @main(%x: Tensor[Float32, (2,), 1]) { %a = @layer(%x) %b = @layer(%a) return %b }
""")
NEW = distir.parse("""
func @layer_1(%x: Tensor[Float32, (2,), 1]) { %y = Relu(%x) return %y }
func @layer_2(%x: Tensor[Float32, (2,), 1]) { %y = Tanh(%x) return %y }
func @main(%x: Tensor[Float32, (2,), 1]) { %a = @layer_1(%x) %b = @layer_2(%a) return %b }
""")
ORIGINS = {"layer_1": "layer", "layer_2": "layer"}


def left(main):
    """The functions that stay, with those that the entry function calls."""
    functions = {**GIVEN.functions, **NEW.functions, "main": main}
    found = without_orphans(GIVEN, functions.values(), ORIGINS)
    return set(found.functions), [s.function for s in found.functions["main"].body[:-1]]


def test_first_variant_of_an_orphan_takes_its_name():
    assert left(NEW.functions["main"]) == ({"layer", "layer_2", "spare", "main"}, ["layer", "layer_2"])


def test_nothing_takes_the_name_of_a_function_that_is_called():
    main = distir.parse(distir.format(NEW).replace("@layer_1", "@layer")).functions["main"]
    assert left(main) == ({"inner", "layer", "layer_2", "spare", "main"}, ["layer", "layer_2"])
