"""Operands that are left out, through every transform: the results stay, or a diagnostic says why not."""

import pytest

import distir
from distir.diagnostics import ProgramError, Severity
from distir.transform import STEPS, transform, verify


def program(op, shape=(4, 6), batch=0, weights=None, results="%y"):
    """A program in which an op takes `%h`, between two other weights, so that there are two stages."""
    params = {"%w": f"({shape[-1]},)", "%v": "()", **(weights or {})}
    declared = [f"{name}: Tensor[Float64, {size}, 1] {{param}}" for name, size in params.items()]
    declared.append(f"%x: Tensor[Float64, {shape}, 1] {{batch = {batch}}}")
    return distir.parse(f"""
func @main({", ".join(declared)}) {{
  %h = Mul(%x, %w)
  {results} = {op}
  %z = Mul({results.split(",")[0]}, %v)
  return %z
}}
""")


def recurrent(op, gates, operands):
    """A recurrent op over 2 steps of 4 sequences of 3 inputs, with 5 hidden units."""
    sizes = {"%k": f"(1, {gates * 5}, 3)", "%r": f"(1, {gates * 5}, 5)", "%b": f"(1, {gates * 10})"}
    weights = {name: size for name, size in sizes.items() if name in operands}
    results = "%y, _, _" if op == "LSTM" else "%y, _"
    return program(f"{op}[hidden_size = 5](%h, {operands})", (2, 4, 3), 1, weights, results)


MODELS = {
    "Clip without a minimum": lambda: program("Clip(%h, _, 0.5)"),
    "Clip without a maximum": lambda: program("Clip(%h, 0.1, _)"),
    "Clip without bounds": lambda: program("Clip(%h, _, _)"),
    "Slice without axes": lambda: program("Slice(%h, [0, 1], [9223372036854775807, 5], _, [1, 1])"),
    "Pad without a value": lambda: program("Pad(%h, [1, 1], _, [1])"),
    "LayerNormalization without a bias": lambda: program("LayerNormalization(%h, %s, _)", weights={"%s": "(6,)"}),
    "Gemm without an addend": lambda: program("Gemm(%h, %s, _)", weights={"%s": "(6, 5)"}),
    "ReduceMean without axes": lambda: program("ReduceMean[noop_with_empty_axes = 1](%h, _)"),
    "Resize by scales": lambda: program("Resize(%h, _, [1.0, 1.0, 2.0, 2.0])", (4, 2, 3, 3)),
    "Resize to sizes": lambda: program('Resize[mode = "linear"](%h, _, _, [4, 2, 6, 6])', (4, 2, 3, 3)),
    "Conv without a bias": lambda: program("Conv(%h, %s, _)", (4, 2, 5, 5), weights={"%s": "(3, 2, 3, 3)"}),
    "Dropout without a ratio": lambda: program("Dropout(%h, _, false)"),
    "RNN without lengths": lambda: recurrent("RNN", 1, "%k, %r, %b, _, _"),
    "GRU without a bias": lambda: recurrent("GRU", 3, "%k, %r, _, _, _"),
    "LSTM without a bias": lambda: recurrent("LSTM", 4, "%k, %r, _, _, _, _, _"),
    "LSTM without lengths": lambda: recurrent("LSTM", 4, "%k, %r, %b, _, _, _, _"),
}

CHAINS = [
    ["pp=1 microbatches=2"],
    ["pp=2 microbatches=2"],
    ["dp=2"],
    ["grad loss=mse", "dp=2", "overlap"],
    ["tp=2"],
    ["dtp=2,1,2 microbatches=2"],
    ["cse", "fold", "dce"],
    ["inline"],
    ["outline=1"],
    ["reschedule"],
    ["seeded"],
    ["fp8=block"],
    ["fuse"],
    ["accumulate=2"],
    ["attention=written", "grad loss=mse"],
    ["grad loss=mse"],
    ["grad loss=mse", "fuse"],
    ["grad loss=mse optimizer=adam", "pp=2 microbatches=2"],
    ["grad loss=mse", "pp=2 microbatches=2 schedule=zb-h1"],
    ["grad loss=mse", "checkpoint"],
    ["grad loss=mse optimizer=adam", "offload=optimizer"],
    ["grad loss=mse", "dp=2", "zero=3"],
    ["grad loss=mse", "tp=2"],
    ["mesh dp=2 tp=2"],
    ["grad loss=mse optimizer=adam", "mesh dp=2 zero=3"],
    ["ep=2"],
    ["cp=2"],
    ["decompose=SoftmaxCrossEntropyLoss"],
]


REFUSED = {"DIR601", "DIR609", "DIR610", "DIR623", "DIR680"}
"""No gradient, no `Dropout`, no product of a layer, nothing to split or to recompute: with or without the operand."""


def test_every_step_has_its_turn():
    taken = {word.partition("=")[0] for chain in CHAINS for step in chain for word in step.split()[:1]}
    ours = {name for name, step in STEPS.items() if step.transform.__module__.startswith("distir.")}
    assert taken == ours


def refusal(module, chain):
    """The sequential program, the one that the steps make of it, and the codes of what refuses that."""
    sequential = module
    for step in chain:
        try:
            module = transform(module, *step.split())
        except ProgramError as error:
            return sequential, module, {found.code.number for found in error.diagnostics}
        sequential = module if step.startswith("grad") else sequential
    return sequential, module, set()


@pytest.mark.parametrize("chain", CHAINS, ids=" ".join)
@pytest.mark.parametrize("name", MODELS)
def test_a_left_out_operand_goes_through(name, chain):
    assert not distir.check(MODELS[name]())
    sequential, module, codes = refusal(MODELS[name](), chain)
    along_the_batch = {"DIR641"} if name.startswith("Slice") else set()  # without axes it begins at the first
    assert codes <= REFUSED | along_the_batch
    assert not [d for d in distir.check(module) if d.severity is Severity.ERROR], distir.format(module)
    assert verify(sequential, module).equal
