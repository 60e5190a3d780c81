"""DIR6xx: why a transform cannot be applied."""

from distir.diagnostics.core import code

NOT_DIFFERENTIABLE = code(
    "DIR601",
    "not-differentiable",
    """
An op on the path from a parameter to the loss has no gradient rule. Define one with the op (`@Op.grad`), or remove the
op from that path.
""",
)

NO_ENTRY = code(
    "DIR602",
    "no-entry-function",
    """
There is no function to transform.

A transform works on the entry function, `@main` or else the last one of the module, and on the functions that it calls.
""",
)

NO_WEIGHTS = code(
    "DIR603",
    "no-weights",
    """
No parameter of the entry function is a weight, so there is nothing to train.

Weights are the parameters marked `{param}`: `%w: Tensor[Float32, (768, 768), 1] {param}`. If no parameter has a role in
braces, all floating-point tensors are weights.
""",
)

BAD_LOSS = code(
    "DIR604",
    "bad-loss",
    """
The loss does not fit the results of the entry function.

`loss=mse` compares the first result with a target of the same shape; `loss=cross_entropy` uses it as logits along its
last dimension, with a label for each row; `loss=none` uses the first result as the loss, which must be a scalar.
""",
)

WRONG_ORDER = code(
    "DIR605",
    "wrong-order",
    """
A step comes before others of which the program shows a trace: it is distributed, has gradients or kernels, or keeps
state in the memory of hosts. What the step looks for is not there any more, or its result would be another one.

`distir transform --list` says which steps come before which others. Apply the step to the program that there was
before those: `distir transform grad checkpoint=full dp=2`, not `grad dp=2 checkpoint=full`.
""",
)

BROKEN_RESULT = code(
    "DIR606",
    "broken-result",
    """
A step has produced an invalid program, so there is no result: nothing is printed or written.

The diagnostic names the step, the error in its result, and the statement there. This is a bug in the step, ours or a
plugin's: please report it with the program. Until it is fixed, try other steps or options.
""",
)

NOT_IN_PRECISION = code(
    "DIR607",
    "not-in-precision",
    """
An op cannot be computed in the element type that `grad precision=` gives to the weights: it takes no such elements.

Operands of other floating-point types are cast to that of the weights where they meet, and that did not help. Convert
the operands in the program with `Cast`, or train in the element types that the program has: leave out `precision`.
""",
)

NOTHING_TO_SEED = code(
    "DIR609",
    "nothing-to-seed",
    """
The program has no `Dropout` that needs random numbers.

The step `seeded` gives a key to each `Dropout` whose operand `training_mode` is `true` and that has none. Models that
are imported for inference have no `Dropout`; import them with `--dropout`.
""",
)

NOTHING_IN_FLOAT8 = code(
    "DIR610",
    "nothing-to-quantize",
    """
The program has no product that `fp8` would compute in 8-bit floats.

The step changes products of an activation and a matrix of weights (`{param}`) in functions that are called, such as
layers; the products of the entry function itself stay.
""",
)

INDIVISIBLE_SPLIT = code(
    "DIR620",
    "indivisible-split",
    """
The number of devices does not divide a dimension that is to be split over them.

The parts must be equal. The diagnostic names the dimension, its size, and the numbers of devices that divide it. Choose
one of them, or pad the dimension: a batch with more examples, a vocabulary with unused tokens.
""",
)

NO_BATCH = code(
    "DIR621",
    "no-batch-dimension",
    """
Data parallelism splits the batch, but no parameter of the entry function declares its batch dimension.

Declare it in braces after the parameter's type: `%x: Tensor[Float32, (64, 768), 1] {batch = 0}`.
""",
)

NO_SHARDING_RULE = code(
    "DIR622",
    "no-sharding-rule",
    """
An operand is sharded, but its op has no sharding rule.

The rule does not follow from the op's signature, which leaves a shape open, and its definition has none. Define one
with the op (`@Op.sharding`), or shard other values.
""",
)

NOTHING_TO_SPLIT = code(
    "DIR623",
    "nothing-to-split",
    """
Tensor parallelism found no parameter dimension to shard.

It shards dimensions that are neither in the program's inputs nor reduced by an op that needs the whole dimension (a
normalisation, a softmax): the hidden dimension of an MLP, the heads of attention. The number of devices must divide
them. Specify shardings by hand with `shard=w1:1,w2:0`, parameters and dimensions.
""",
)

BAD_SPLIT = code(
    "DIR624",
    "bad-split",
    """
A requested sharding is invalid: there is no such parameter, or it has no such dimension.

Name parameters of the entry function, and their dimensions from 0: `shard=w1:1,w2:0`.
""",
)

STAYS_WHOLE = code(
    "DIR625",
    "stays-whole",
    """
Tensor parallelism with `strict` replicates something expensive: a parameter with 1 % of the weights or more that every
device holds, or ops with replicated work of 1 % of all FLOPs or more.

The notes name the parameters and ops, and why no dimension of them is sharded. Rewrite the statement that needs the
whole dimension, specify a sharding by hand (`shard=w1:1,w2:0`), choose a number of devices that divides the dimension,
or omit `strict`.
""",
)

INDIVISIBLE_BATCH = code(
    "DIR640",
    "indivisible-batch",
    """
The number of microbatches does not divide the batch size.

Microbatches are equal parts of each `{batch}` parameter. The diagnostic names the batch size and the numbers of
microbatches that divide it. Choose one of them, or another batch size.
""",
)

NOT_IN_MICROBATCHES = code(
    "DIR641",
    "not-in-microbatches",
    """
A statement cannot be computed one microbatch at a time.

Each microbatch must contribute its part of a result: some rows, or a term of a sum or mean. This fails for an op that
mixes examples (a `Softmax` along the batch): after the layers it runs at the end, on the whole batch, but no layer and
no gradient can wait for it. It fails for an op that uses a reduction over the whole batch (a `BatchNormalization`
with batch statistics: omit `mode=train` of `grad`), and for a constant size of the whole batch (`Reshape` to `(64,
768)`: write -1 or 0 for the batch dimension). Rewrite that statement.
""",
)

TOO_FEW_LAYERS = code(
    "DIR642",
    "too-few-layers",
    """
The program has too few layers for the number of stages, or for the given balance.

Stages are consecutive layers: calls that use weights, or, if there are too few, statements that do. Each stage has at
least one. There are as many stages as devices times stages per device: `virtual`, which is 2 with `interleaved` and
`looped-bfs` unless it is given; `zb-v` always has 2. `balance=3,2,3` has one number of layers per stage, and their sum
is the number of layers. Use fewer devices, fewer stages per device, or another balance.
""",
)

STAGES_TOO_LARGE = code(
    "DIR648",
    "stages-too-large",
    """
No cut of the program into stages fits into the memory that `memory` states.

What stages hold is estimated from the sequential program: weights, their gradients, what an optimizer keeps of them,
and the activations of the microbatches that the schedule has in flight. State more `memory`, or use more stages,
`checkpoint`, or smaller microbatches.
""",
)

BAD_SCHEDULE = code(
    "DIR643",
    "bad-schedule",
    """
The schedule does not support these numbers of devices, microbatches and stages per device.

Some schedules have a fixed number of stages per device, which `virtual` cannot change. `dualpipev` needs at least twice
as many microbatches as devices. `best` finds no order if `in_flight` lets a device hold fewer microbatches than it has
stages, and needs OR-tools (`pip install 'distir[schedules]'`). A file (`schedule=order.csv`) is for the numbers that it
has.
""",
)

NOT_A_PIPELINE = code(
    "DIR644",
    "not-a-pipeline",
    """
The entry function cannot be pipelined.

It must run on one device, and have a parameter that declares its batch dimension: `%x: Tensor[Float32, (64, 768), 1]
{batch = 0}`. No statement may belong to two stages, as a function with the weights of two layers can.
""",
)

SCHEDULE_PASSES = code(
    "DIR645",
    "schedule-passes",
    """
A schedule does not run every pass once.

A schedule returns an order: a row of passes for each device. All rows together have, for each stage and microbatch, one
forward pass, one backward pass and, if the schedule is registered with `splits=True`, one weight-gradient pass. The
diagnostic names the pass that is missing, duplicate, or invalid: `F3@1` is the forward pass of stage 1 over microbatch
3, both counted from 0. Correct the function under `@schedule`.
""",
)

SCHEDULE_STAGE_MOVES = code(
    "DIR646",
    "schedule-stage-moves",
    """
A schedule runs one stage on several devices.

A stage has its weights on one device, which runs all of its passes. The schedule chooses this device: stages may be
placed round-robin, in a V, or in any other way. Correct the function under `@schedule`.
""",
)

SCHEDULE_DEADLOCK = code(
    "DIR647",
    "schedule-deadlock",
    """
A schedule deadlocks.

A forward pass depends on the forward pass of the previous stage, a backward pass on its own stage's forward pass and on
the next stage's backward pass, and a weight-gradient pass on its stage's backward pass. Each device runs its passes in
order, so every pass must follow its dependencies. The diagnostic names the passes: `B3@1` is the backward pass of stage
1 over microbatch 3, both counted from 0. Correct the function under `@schedule`.
""",
)

NO_SCHEDULE = code(
    "DIR651",
    "no-schedule",
    """
A program runs no passes of pipeline stages whose order could be exported.

`distir export torch-csv` reads the schedule off the calls of `@stage_1_forward`, `@stage_1_backward` and the like that
`pp`, `dtp` and `accumulate` write. Steps that write them out, such as `inline` or `zero=3`, come after the export.
""",
)

NO_DATA_PARALLEL_GROUP = code(
    "DIR660",
    "no-data-parallel-group",
    """
ZeRO partitions state that data-parallel devices replicate, and the program has no data-parallel devices.

It looks for weights that `@main.scatter` copies to several devices, and whose all-reduced gradients go to an optimizer
on each. Derive the training step (`grad`), replicate it (`dp`), then apply `zero`: `distir transform grad dp=4 zero=2`.
""",
)

NOT_PARTITIONABLE = code(
    "DIR661",
    "not-partitionable",
    """
The optimizer state of a weight has a use other than the update of that weight, so every device needs all of it.

Compute that use from the gradients instead, or omit `zero`.
""",
)

NOTHING_TO_RECOMPUTE = code(
    "DIR680",
    "nothing-to-recompute",
    """
Activation checkpointing found no residuals to recompute: no value that a block computes in the forward pass and the
backward pass uses.

It needs a training step, with weights marked `{param}` that the backward pass uses. Blocks are calls of functions that
use weights, or else the statements that do. The inputs of blocks are saved: if blocks have no other residuals,
checkpoint several blocks together (`checkpoint=2`).
""",
)

OVER_CHECKPOINT_TARGET = code(
    "DIR681",
    "over-checkpoint-target",
    """
Recomputing activations does not reduce the program's memory to the target.

The diagnostic reports the least possible peak memory, and its checkpoints. The rest is parameters, optimizer state,
gradients, and the activations of one group of blocks: a smaller batch, `dp`, `tp`, `pp` or `zero` reduce these.
""",
)

NOTHING_TO_OFFLOAD = code(
    "DIR683",
    "nothing-to-offload",
    """
`offload` found no activations to offload: no value that a block, but the last one, computes in the forward pass and the
backward pass uses.

It needs a training step on one device, with weights marked `{param}` that the backward pass uses. Blocks are calls of
functions that use weights, or else the statements that do.
""",
)

NOTHING_TO_OVERLAP = code(
    "DIR684",
    "nothing-to-overlap",
    """
No communication of the program can run beside computation.

`overlap` works on distributed programs: apply it last, as in `distir transform grad optimizer=adam dp=4 overlap`. Each
of its kinds looks for something else (`distir transform --list`); the notes say why it does not apply.
""",
)

NOT_WRITTEN_OUT = code(
    "DIR690",
    "not-written-out",
    """
An op cannot be written out as others.

`attention=written` replaces each `Attention` by products, masks and a softmax. For this the number and the size of its
heads must be known.
""",
)

ON_A_MESH = code(
    "DIR691",
    "program-on-a-mesh",
    """
This takes a program of single devices, or of one, and was given one whose devices each represent a mesh of several.

```dir
func @main(%x: Tensor[Float32, (8@dp, 4), 1]) mesh (dp = 2) {
  %y = Relu(%x)
  return %y
}
```

`distir erase` gives the sequential program, which steps as `grad` take; `distir expand` the program of every device, as
`distir simulate`, `run`, `lower` and `prove` make it themselves.
""",
)
