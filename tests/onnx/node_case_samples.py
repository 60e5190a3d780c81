"""ONNX's own backend cases, and what they become here: imported, checked, run, and compared as ONNX compares."""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner
from onnx.reference import ReferenceEvaluator

import distir
from distir.analysis import execute
from distir.diagnostics import ProgramError
from distir.importers import ImportRefused, import_model
from distir.importers.names import value_name
from distir.ir import TensorType
from distir.ops import dtype_of

DIFFERENT = {
    r"test_bernoulli.*": "random numbers, which no two implementations draw alike",
    r"test_cast_e8m0_FLOAT(16)?_to_FLOAT8E8M0": "powers of two rounded to the nearest here and up there (`round_mode`)",
    r"test_attention_4d_causal_fp16_expanded": "sums of Float16 elements, rounded once here and at each step there",
    r"test_scan_sum": "a `Scan` of operator set 8, over a batch of sequences, which ONNX's own evaluator refuses too",
}
"""Cases that run but whose results may differ, by a pattern of their names."""


@cache
def node_cases():
    """Every case, by name. Making them runs ONNX's own generators, once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case.name: case for case in load_model_tests(kind="node")}


def inputs_and_outputs(case):
    """The arrays of the case's one data set; lists and None where a value is no tensor."""
    ((inputs, outputs),) = case.data_sets
    return [list(map(array, inputs)), list(map(array, outputs))]


def array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def outcome(case):
    """None if the case comes in and runs with the results expected, else why not. Raises what nobody expected."""
    try:
        module = import_model(case.model, ".")
    except ImportRefused as refusal:
        return reason(refusal)
    distir.check_text(distir.format(module))
    unknown = [re.findall(r"`(.+?)`", note) for note in module.notes if "is no op" in note]
    if unknown:
        op, domain = unknown[0][:2]
        return f"`{op}` of the domain `{domain}` is kept as it is, and is not known here"
    if differs := may_differ(case.name):
        return differs
    inputs, expected = inputs_and_outputs(case)
    names = (value_name(value.name) for value in case.model.graph.input)
    taken = {param.name for param in module.entry().params}
    given = {name: value for name, value in zip(names, inputs, strict=True) if name in taken}
    try:
        outputs = execute(module, {**module.weights, **given})
    except ProgramError as error:
        raise AssertionError(f"{case.name}: {[d.message for d in error.diagnostics]}") from None
    for output in outputs:
        assert describes(output.type, output.value), f"{case.name}: {output.type}, found {output.value.shape}"
    assert_similar(case, expected, [output.value for output in outputs])
    return None


def reason(refusal):
    """Why a model is refused, without the names that are its own."""
    assert "\n" not in str(refusal)
    text = re.sub(r"^the input `.*?` (is|has)", r"an input \1", refusal.message)
    return re.sub(r"^the (`\w+`) node `.*?` is", r"\1 is", text)


def may_differ(name):
    return next((reason for pattern, reason in DIFFERENT.items() if re.fullmatch(pattern, name)), None)


def describes(type, value):
    """Whether the type tells at least the element type and the rank, and is right."""
    if not isinstance(type, TensorType) or type.dtype is not dtype_of(value) or type.shape is None:
        return False
    return len(type.shape) == value.ndim and all(d in (None, n) for d, n in zip(type.shape, value.shape, strict=True))


def assert_similar(case, expected, found):
    """Compared as ONNX's own runner compares."""
    Runner.assert_similar_outputs(expected, list(found), rtol=case.rtol, atol=case.atol)


def passes_reference(case):
    """Whether ONNX's own reference evaluator passes the case."""
    inputs, outputs = inputs_and_outputs(case)
    try:
        given = dict(zip((value.name for value in case.model.graph.input), inputs, strict=True))
        with np.errstate(all="ignore"):
            found = ReferenceEvaluator(case.model).run(None, given)
        assert_similar(case, outputs, found)
    except Exception:
        return False
    return True
