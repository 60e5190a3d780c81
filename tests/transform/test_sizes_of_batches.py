"""Programs that ask for the size of a batch, for means over it and indices of its examples, in microbatches."""

import pytest
from sharding_samples import statements
from thorough import also

import distir
from distir.diagnostics import ProgramError
from distir.prove import prove
from distir.transform import transform, verify

PARAMS = (
    "%x: Tensor[Float32, (B, S, 8), 1] {batch = 0}, %t: Tensor[Float32, (B, S, 6), 1] {batch = 0},"
    " %w: Tensor[Float32, (8, 8), 1] {param}, %v: Tensor[Float32, (8, 6), 1] {param}"
)

LOSSES = {
    "MSE": "%e = Sub(%y, %t) %q = Mul(%e, %e) %loss = ReduceMean[keepdims = false](%q)",
    "z-loss": """
        %e = Sub(%y, %t) %q = Mul(%e, %e) %mse = ReduceMean[keepdims = false](%q)
        %z = ReduceLogSumExp[keepdims = false](%y, [2]) %zz = Mul(%z, %z)
        %mean = ReduceMean[keepdims = false](%zz) %less = Mul(%mean, 0.1) %loss = Add(%mse, %less)
    """,
    "DPO": """
        %chosen = ReduceSum[keepdims = false](%y, [1, 2]) %rejected = ReduceSum[keepdims = false](%t, [1, 2])
        %margin = Sub(%chosen, %rejected) %s = Sigmoid(%margin) %l = Log(%s)
        %mean = ReduceMean[keepdims = false](%l, [0]) %loss = Neg(%mean)
    """,
    "a sum by its size": """
        %e = Sub(%y, %t) %q = Mul(%e, %e) %sum = ReduceSum[keepdims = false](%q)
        %n = Size(%q) %c = Cast[to = Float32](%n) %loss = Div(%sum, %c)
    """,
}


def program(body, params=PARAMS, returned="y", others=""):
    lines = body.replace(" %", "\n%")
    text = f"{others}\nfunc @main({params}) {{\n%h = MatMul(%x, %w)\n%a = Tanh(%h)\n{lines}\nreturn %{returned}\n}}"
    return distir.parse(text)


@pytest.mark.parametrize("chain", ["pp=2 microbatches=2", *also("accumulate=4", "dtp=2,1,2 microbatches=2")])
@pytest.mark.parametrize("loss", LOSSES)
def test_a_mean_over_a_batch_of_any_size_is_a_loss(loss, chain):
    model = program(f"%y = MatMul(%a, %v) {LOSSES[loss]}", returned="loss")
    step = transform(model, "grad", "loss=none")
    program_of_many = transform(step, *chain.split())
    assert verify(step, program_of_many, bind={"B": 8, "S": 3}).equal


def test_what_is_no_sum_over_the_examples_is_no_loss_of_microbatches():
    body = f"%y = MatMul(%a, %v) {LOSSES['MSE'].replace('%loss', '%mse')} %loss = Sqrt(%mse)"
    step = transform(program(body, returned="loss"), "grad", "loss=none")
    with pytest.raises(ProgramError, match="together with the batch itself"):
        transform(step, "accumulate=2")


ROWS = "%B = Shape[start = 0, end = 1](%x) %n = Squeeze(%B, [0]) %r = Range(0, %n, 1) "

INDICES = {
    "added": "%u = Unsqueeze(%r, [1, 2]) %f = Cast[to = Float32](%u) %g = Add(%a, %f) %y = MatMul(%g, %v)",
    "used twice": """
        %u = Unsqueeze(%r, [1, 2]) %f = Cast[to = Float32](%u) %g = Add(%a, %f) %k = Mul(%g, %f) %y = MatMul(%k, %v)
    """,
    "a mask": """
        %u = Unsqueeze(%r, [1, 2]) %q = Range(0, 4, 1) %qq = Unsqueeze(%q, [1]) %c = LessOrEqual(%q, %qq)
        %even = Mod(%u, 2) %first = Equal(%even, 0) %mask = Or(%first, %c)
        %at = Transpose[perm = [0, 2, 1]](%a) %scores = MatMul(%a, %at) %seen = Where(%mask, %scores, -1e9)
        %shares = Softmax[axis = -1](%seen) %g = MatMul(%shares, %a) %y = MatMul(%g, %v)
    """,
    "given to a layer": """
        %u = Unsqueeze(%r, [1, 2]) %f = Cast[to = Float32](%u) %g = @layer(%a, %f) %y = MatMul(%g, %v)
    """,
}

LAYER = "func @layer(%a, %f) {\n%b = Add(%a, %f)\n%c = Tanh(%b)\nreturn %c\n}"


@pytest.mark.parametrize("batch", ["B", *also("8")])
@pytest.mark.parametrize("chain", ["pp=2 microbatches=2", *also("accumulate=4", "pp=2 microbatches=8")])
@pytest.mark.parametrize("indices", INDICES)
def test_indices_of_examples_are_split_with_them(indices, chain, batch):
    model = program(ROWS + INDICES[indices], PARAMS.replace("(B, S,", f"({batch}, 4,"), others=LAYER)
    step = transform(model, "grad", "loss=mse")
    bind = {"B": 8} if batch == "B" else {}
    for sequential in (model, step):
        assert verify(sequential, transform(sequential, *chain.split()), bind=bind).equal


def test_indices_of_a_batch_are_split_before_the_stages():
    model = program(ROWS + INDICES["added"], PARAMS.replace("(B, S,", "(8, 4,"))
    pipeline = transform(model, "pp=2", "microbatches=2")
    assert prove(pipeline, model).proved
    assert len(statements(pipeline, "Split")) == 2  # of the input and of its indices
