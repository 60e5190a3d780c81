"""Inputs for generated models, and what must hold of every one of them."""

import numpy as np

import distir


def inputs(module, sizes=None, seed=0, vocabulary=2, scale=0.5):
    """Random arrays for the entry function's parameters; integers are tokens below `vocabulary`."""
    generator = np.random.default_rng(seed)
    arrays = {}
    for param in module.entry().params:
        shape = [(sizes or {}).get(str(dim), dim) for dim in param.type.shape]
        if param.type.dtype.kind == "int":
            arrays[param.name] = generator.integers(0, vocabulary, shape)
        else:
            arrays[param.name] = generator.normal(scale=scale, size=shape).astype(param.type.dtype.name.lower())
    return arrays


def assert_sound(module):
    """It checks without warnings, and its text is canonical and means the same."""
    assert distir.check(module) == []
    text = distir.format(module)
    again = distir.parse(text)
    assert again == module
    assert distir.format(again) == text
    assert distir.check_text(text) == []


def weights(module):
    """The parameters marked `{param}`: name -> shape."""
    return {p.name: p.type.shape for p in module.entry().params if "param" in p.roles}
