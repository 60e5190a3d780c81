"""Sequential models of any size, straight from types: no weights, no framework. Many by name.

A model is an ordinary program on device 1: `@main`, which holds the weights as `{param}` parameters, and one function
per kind of layer, which `@main` calls once per layer. So a program is as long as it has layers, whatever their width.
Knows nothing of how programs are distributed, imported or trained; the transforms take it from here.
"""

from distir.models.catalogue import NAMED, Named, named, published_as
from distir.models.perceptron import mlp
from distir.models.published import PUBLISHED, SIZES, sizes_of
from distir.models.sizes import ModelError, parameter_count
from distir.models.transformer import gpt2

__all__ = [
    "NAMED",
    "PUBLISHED",
    "SIZES",
    "ModelError",
    "Named",
    "gpt2",
    "mlp",
    "named",
    "parameter_count",
    "published_as",
    "sizes_of",
]
