"""DIR6xx: why a transform cannot be applied."""

from distir.diagnostics.core import code

NOT_DIFFERENTIABLE = code(
    "DIR601",
    "not-differentiable",
    """
An op stands on the way from a parameter to the loss, and its definition has no gradient rule. State one where the op
is defined (`@Op.grad`), or keep the op off that way.
""",
)

NO_ENTRY = code(
    "DIR602",
    "no-entry-function",
    """
There is no function to transform.

A transform works on the entry function, `@main`, or else the last one of the module, and on what it calls.
""",
)

NO_WEIGHTS = code(
    "DIR603",
    "no-weights",
    """
There is nothing to train: no parameter of the entry function is a weight.

Weights are the parameters marked `{param}`: `%w: Tensor[Float32, (768, 768), 1] {param}`. If no parameter has a role in
braces, all tensors of floating-point numbers are taken to be weights.
""",
)

BAD_LOSS = code(
    "DIR604",
    "bad-loss",
    """
The loss does not fit what the entry function returns.

`loss=mse` compares the first result with a target of the same shape; `loss=cross_entropy` takes it as logits along its
last dimension, with a label for each row; `loss=none` takes the first result as the loss, which must then be a scalar.
""",
)

ALREADY_DISTRIBUTED = code(
    "DIR605",
    "already-distributed",
    """
The gradient of a program that is already distributed would need other functions to scatter its parameters and gather
its results. Take the gradient first, then distribute: `distir transform grad dp=2`.
""",
)

BROKEN_RESULT = code(
    "DIR606",
    "broken-result",
    """
A step has made a program that does not check, so there is no result: nothing is printed or written.

The diagnostic names the step, what is wrong in the program that it made, and the statement there. The step is at fault,
ours or a plugin's: please report it together with the program. Until it is mended, other steps or options may do.
""",
)

INDIVISIBLE_SPLIT = code(
    "DIR620",
    "indivisible-split",
    """
A dimension that is to be split over devices does not divide by their number.

The parts must be equal. The diagnostic names the dimension, its size, and the numbers of devices that would do.
Choose one of them, or make the dimension larger: a batch by more examples, a vocabulary by tokens that never occur.
""",
)

NO_BATCH = code(
    "DIR621",
    "no-batch-dimension",
    """
Data parallelism splits the batch, but no parameter of the entry function says which dimension that is.

Say so in braces after the parameter's type: `%x: Tensor[Float32, (64, 768), 1] {batch = 0}`.
""",
)

NO_SHARDING_RULE = code(
    "DIR622",
    "no-sharding-rule",
    """
A value that is split over devices meets an op of which nothing says how it can be split.

Its signature leaves a shape open, and its definition has no rule. State one where the op is defined
(`@Op.sharding`), or split something else.
""",
)

NOTHING_TO_SPLIT = code(
    "DIR623",
    "nothing-to-split",
    """
Tensor parallelism found no dimension of a parameter that it could split.

It splits dimensions that neither the program's inputs nor a whole-dimension op (a normalisation, a softmax) has: the
hidden width of a perceptron, the heads of attention. They must divide by the number of devices. State a split by hand
with `shard=w1:1,w2:0`, parameters and dimensions.
""",
)

BAD_SPLIT = code(
    "DIR624",
    "bad-split",
    """
A split that was asked for does not exist: there is no such parameter, or it has no such dimension.

Name parameters of the entry function, and their dimensions counted from 0: `shard=w1:1,w2:0`.
""",
)

STAYS_WHOLE = code(
    "DIR625",
    "stays-whole",
    """
Tensor parallelism with `strict` leaves something heavy whole: a parameter with 1 % of the weights or more that every
device holds a copy of, or ops that every device does more of than its part, by 1 % of all FLOPs or more.

The notes name the parameters and ops, and why no dimension of them is split. Restate the statement that needs a
dimension whole, state a split by hand (`shard=w1:1,w2:0`), take a number of devices that divides the dimension, or
leave `strict` out.
""",
)

INDIVISIBLE_BATCH = code(
    "DIR640",
    "indivisible-batch",
    """
The batch does not divide by the number of microbatches.

Microbatches are equal parts of each `{batch}` parameter. The diagnostic names the batch's size and the numbers of
microbatches that would do. Choose one of them, or a batch of another size.
""",
)

NOT_IN_MICROBATCHES = code(
    "DIR641",
    "not-in-microbatches",
    """
A statement cannot be computed one microbatch at a time.

Each microbatch must give its part of a result: some rows of it, or a term of a sum or of a mean. That is not so for an
op that mixes the examples of a batch (a `Softmax` along the batch), for one that uses a sum over the batch before all
of it is there (a `BatchNormalization` with the statistics of the batch: leave out `mode=train` of `grad`), and for a
size that is written down for the whole batch (`Reshape` to `(64, 768)`: write -1 or 0 where the batch stands). Restate
that statement.
""",
)

TOO_FEW_LAYERS = code(
    "DIR642",
    "too-few-layers",
    """
A pipeline cannot be cut into that many stages, or not so as was said.

Stages are runs of layers: calls that use weights, or, if those are too few, statements that do. Each stage has at least
one. In `balance=3,2,3` there is one number of layers per stage, and they add up to all layers. Use fewer devices, fewer
stages per device (`virtual`), or other numbers.
""",
)

BAD_SCHEDULE = code(
    "DIR643",
    "bad-schedule",
    """
The schedule cannot be made for these numbers of devices, microbatches and stages per device.

`interleaved` with several stages per device takes microbatches in groups as large as the pipeline, so their number must
be a multiple of it. Other schedules have a number of stages per device of their own, and `virtual` cannot change it.
""",
)

NOT_A_PIPELINE = code(
    "DIR644",
    "not-a-pipeline",
    """
The entry function is nothing that a pipeline can be made of.

It must run on one device, and have a parameter that says which dimension the batch is:
`%x: Tensor[Float32, (64, 768), 1] {batch = 0}`. Apply `pp` before transforms that add devices.
""",
)

SCHEDULE_PASSES = code(
    "DIR645",
    "schedule-passes",
    """
A schedule does not run every pass once.

The order that a schedule gives has a row of passes for each device, and in all of them together, for each stage and
each microbatch, one forward pass, one backward pass and, if it is registered with `splits=True`, one pass for the
gradients of the weights. The diagnostic names the pass that is missing, comes twice, or does not exist: `F3@1` is the
forward pass of stage 1 over microbatch 3, where both count from 0. Correct the function under `@schedule`.
""",
)

SCHEDULE_STAGE_MOVES = code(
    "DIR646",
    "schedule-stage-moves",
    """
A schedule runs one stage on several devices.

A stage has its weights on one device, which runs all of its passes. Which one is up to the schedule: stages may go
round the devices, or there and back again. Correct the function under `@schedule`.
""",
)

SCHEDULE_DEADLOCK = code(
    "DIR647",
    "schedule-deadlock",
    """
A schedule lets devices wait for each other for ever.

A forward pass needs that of the stage before it, a backward pass those of its own stage forward and of the stage behind
it backward, and the gradients of weights need the backward pass of their stage. Each device runs its passes one after
the other, so none may stand before a pass that it needs. The diagnostic names the passes: `B3@1` is the backward pass
of stage 1 over microbatch 3, where both count from 0. Correct the function under `@schedule`.
""",
)

NO_DATA_PARALLEL_GROUP = code(
    "DIR660",
    "no-data-parallel-group",
    """
ZeRO partitions what data-parallel devices hold copies of, and there are no such devices.

It looks for weights that `@main.scatter` copies to several devices, whose gradients are summed over these devices and
given to an optimizer on each. Make a training step (`grad`), replicate it (`dp`), then apply `zero`:
`distir transform grad dp=4 zero=2`.
""",
)

NOT_PARTITIONABLE = code(
    "DIR661",
    "not-partitionable",
    """
What an optimizer keeps of a weight is used for something else than the update of that weight, so that every device
needs all of it.

Compute what is needed from the gradients instead, or leave `zero` out.
""",
)

NOTHING_TO_RECOMPUTE = code(
    "DIR680",
    "nothing-to-recompute",
    """
Checkpointing found no value that a block computes on the way forward and the way back needs again, so that it could be
dropped in between.

It works on a training step: one with weights marked `{param}` that the way back uses again. Blocks are calls of
functions that use weights, or else the statements that do. What passes from one block to the next is kept: if blocks
keep nothing else, several at a time (`checkpoint=2`) leave something to drop.
""",
)

OVER_CHECKPOINT_TARGET = code(
    "DIR681",
    "over-checkpoint-target",
    """
Recomputing activations does not bring the program down to the memory that was asked for.

The diagnostic says how little it takes, and with which checkpoints. What remains is parameters, the optimizer's state,
gradients, and what one run of blocks needs at once: a smaller batch, `dp`, `tp`, `pp` or `zero` make these smaller.
""",
)

CHECKPOINT_FIRST = code(
    "DIR682",
    "checkpoint-before-distributing",
    """
The program is distributed already. Checkpointing looks at the order of one device's statements, and other transforms
carry what it does to many devices: apply it first, as in `distir transform grad checkpoint=block dp=2`.
""",
)
