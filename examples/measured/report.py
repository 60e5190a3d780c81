"""How true the simulator is: predicts all runs of this folder, and writes `docs/explanation/truth.md`.

python examples/measured/report.py [FILE.csv…]

Predictions are kept in `docs/explanation/truth/predictions.csv`, each with digests of what it is of. Runs are predicted
again where their rows, frameworks, machines or the code have changed since. With files, runs of other files are not
predicted: the page lists those whose predictions do not hold any more.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import median

from distir.cost.hardware import MemoryErrors, PublishedErrors
from distir.validate.causes import PARAMETERS, Cause
from distir.validate.figures import (
    Errors,
    FitCounts,
    GroupFigures,
    Outcome,
    memory_errors,
    published_errors,
    summaries,
    summary,
)
from distir.validate.frameworks import FRAMEWORKS
from distir.validate.log import PredictionsLog
from distir.validate.machines import GPUS
from distir.validate.plot import plot
from distir.validate.predictions import predict_all
from distir.validate.runs import MeasuredRun, read_runs

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "explanation" / "truth.md"
PREDICTIONS = PAGE.parent / "truth" / "predictions.csv"
PICTURE = PAGE.parent / "truth" / "errors.svg"

HEAD = """# How true the simulator is

Published measurements of training runs, and what DistIR predicts of them from what their rows say: the model, the GPUs,
the degrees of parallelism, the framework. `make truth` writes this page; [the
files](../../examples/measured/README.md) name their sources, and `distir validate` does the same with runs of yours.
Costs come from tables of measured ops and from data sheets. Sources differ by 2 to 4 % between releases of the same
configuration, so that an error below 3 % means nothing.

Each parameter of a framework or a machine has a cause that can be read: code of that version, a data sheet, a table of
measured ops ([which](#what-frameworks-are-taken-to-do)). What has none is not in the model, but in the
[band](#how-far-a-simulated-time-may-be-off). A test goes through all of them.

Groups are runs of the same work on equally many GPUs. *ρ within* is Spearman's rank correlation of step times within
groups. *Regret* is the measured time of the layout that predictions choose, over the best measured time, less 1: the
median over groups, and the worst one. An error is a step time, predicted over measured, less 1: the tables have the
mean of absolute errors (MAPE), their median, 9th decile and largest, and the mean error (bias). ρ is the rank
correlation of all runs of a source.
"""

HELD_BACK = """## Sources held back

No run of these sources chose a figure that it is predicted with. A source is a repository: all of its files together.
Those with a † came when the definitions of frameworks were there. The others were at hand while these were written: no
figure was chosen by them, but causes were looked for where they did not fit.
"""

CHOSE = """## Sources that chose a figure

Their own figures are no test of it:
"""

BY_FILE = """## By file and framework
"""

LATER = (*("automodel", "bloom", "flagperf", "fsdp", "internevo", "jax_toolbox", "moe_zoo", "seqsel", "titan_8b"),)
"""Files whose runs were predicted before anything was changed for them."""

BANDS = """## How far a simulated time may be off

What 8 of 10 of these runs lie within. Profiles state it (`[published]`), `distir simulate` shows it beside each
latency, and `distir search` says which rows cannot be distinguished. A test takes the bands from every other run and
counts how many of the rest lie in them, which are of the same files. NVIDIA's tests of small models are left out: they
wait for the host, and repeats of them differ by 11 %. GPUs without runs have the band of all.
"""

MEMORY = """## Memory

Simulated memory has a band, too: what 8 of 10 measured peaks lie within, over predicted ones, each source that states
peaks counting as much as another. Profiles state it. A program *fits* if the upper end of the band of what it needs is
within the capacity, *does not fit* if the lower end is not, and else *may not fit*. Below, each source has the band of
the others. *Missed* ran out of memory and was predicted to fit, *false alarms* ran and were predicted not to. Peaks of
torchtitan are what its allocator has reserved, with what it would free before memory runs out: they widen the band.
"""

HOST_BOUND = ("megatron_golden",)

CAUSES = """## What does not fit, and why

- **LLaMA 13B with FlashAttention 2 and two stages.** With M microbatches a step takes 1.04 to 1.08 times (M + 7) / M of
  what one stage takes for as much work: as if pipelines ran eight times in a step, each filled and drained. With 8
  microbatches that is as long as if the stages ran one after the other (72.8 s, twice the 36.7 s of one stage). So it
  is on 32 and 64 GPUs, with 8 to 256 microbatches, with and without tensor parallelism and recomputation; with the
  other kernels of the same table the bubble is that of 1F1B, one microbatch. The schedule of Aleph Alpha's code, as far
  as it is public, is 1F1B with sends that wait, once in a step. No cause is known, so that it is not in the model, and
  these 26 runs are predicted up to 44 % too fast. Earlier versions had eight turns, which four of the runs had chosen:
  on runs of other sizes of the same source that was further off than no turns.
- **LLaMA 13B out of memory.** Twelve layouts ran out of memory that are predicted to need less than there is: one by
  half a GB, eleven are predicted to need 57 to 80 of 85 GB. Within the band of memory ten of the twelve may not fit.
  They are layouts with `fused` or `unfused` attention, or recomputation and a
  microbatch of 8. What their code, as far as it is public, holds explains part of it (logits of all shards, and those
  of two microbatches beside); the rest is not found. No number of bytes for each score, or each logit, agrees with all
  of these runs and with those of the same kernels that fit: with two shards and a microbatch of 8 a device has as many
  scores as with one shard and a microbatch of 4, which fits. (All 16 runs with a microbatch of 8 and scores in memory
  are listed as out of memory, whatever their shards, stages and recomputation.) Nor is it the allocator's blocks: laid
  out as PyTorch's caching allocator does (best fit, split, joined with free neighbours), what these programs allocate
  takes 2 to 10 GB more than their tensors, and 31 GB are missing. The public code is a later version, and would hold
  less, not more: its RMS norm is computed in 16 bits, and here in Float32, which is up to 13 GB without recomputation.
- **LLaMA 13B, recomputation.** With tensor parallelism, Aleph Alpha's code gathers the logits once more, too, when it
  recomputes the output layer; here only the product is done again. That is 0.2 % of a step.
- **Runs at the limit of memory** take 10 to 18 % longer than predicted, those of the same table with more memory left
  about 5 %: LLaMA 13B on one stage without FlashAttention 2, MPT-13B on 8 GPUs. A likely cause, not verified, is the
  allocator, which gives memory back to the device and takes it again.
- **LLaMA 13B, `fused`**: the scale and the mask are kernels of their own in our program, and in Megatron-LM's kernel
  they are not; steps take longer than predicted even so.
- **Megatron's small models wait for the host.** What an op of a fused program takes there is 46 µs, a figure that is
  chosen among five by all 23 rows of vTrain on one node, so that those rows are no test of it. It includes several
  launches, and dropout. What the tests do besides is not in the program: they log the norm of weights and the zeros of
  gradients, each weight by ops of its own (`--log-params-norm`, `--log-num-zeros-in-grad`), and add gradients of
  microbatches by ops of their own (`--no-gradient-accumulation-fusion`). Hosts differ, and no column says which one a
  run has: with the same layouts, steps take 1.4 times as long as predicted on nodes of H100 (median), 2.1 times on
  those of A100, 0.7 times on two of GB200. Tests on one node of four GB200 take 2 to 8 times as long as predicted, and
  one run takes 4.8 s where others of the same layout take 0.2 to 0.4 s (megatron_golden:468): no op of the programs
  explains that.
- **Memory of Megatron's tests with a fused cross entropy** (megatron_golden:342 to 344) is a third more than predicted:
  no column says so.
- **Mixtures of experts whose host is the limit.** With microbatches of one sequence a layer of Qwen3 30B takes 8.8 to
  9.4 ms on B200 and on H100 alike, where what devices compute takes a third of that on B200. What a product of an
  expert takes the host in 8 bits, 40 µs, is twice the 20 µs of 16 bits, as a linear layer in 8 bits takes the host more
  than twice as long (NVIDIA/TransformerEngine, issue 761). Two of these runs, on B200, had chosen the same before this
  cause was known. It includes what quantises rows, and what Python does for each expert. An earlier release, which
  drops tokens, takes half as long (25.09, not in the file). Recipes for Blackwell replay routers and what prepares the
  dispatch as graphs, those for H100 do not: a profile of the host has 1.9 ms for these in a layer's forward pass
  (yanring/Megatron-MoE-ModelZoo, issue 7), and here they are three ops, with graphs and without. In one measurement, on
  H100 in 16 bits, graphs of these parts gain nothing (NVIDIA-NeMo/Megatron-Bridge, pull request 3868).
- **The host of GB200 and GB300** issues an op in 2.75 times as long as others here, as torch's linear layer takes it
  over that of an H100 (NVIDIA/TransformerEngine, issue 2053, August 2025). With that, mixtures of small experts are
  predicted too slow: Qwen3 30B and 235B on GB200 by 64 to 92 % up to release 26.04.01, DeepSeek-V3 by 11 to 19 %. The
  true ratio is smaller for them, perhaps as less of their host's time is Python's, or in later releases. Earlier
  versions had 1.5, which two of these runs had chosen, and no source says so.
- **Qwen3 30B on 16 H100**, experts on two nodes (megatron_bridge:50, 101, 147), is predicted a quarter too fast: a
  layer takes as long as in one node, with half of the experts on each device. What the host does besides experts'
  products, in routers that are no graph, would explain it; how long that takes there is not known.
- **HybridEP on B300 and GB300.** Tokens go at the rates of its kernels, by the table of its documentation: on B200
  twice those of DeepEP. Qwen3 30B on B300 is predicted 18 to 22 % too fast up to release 26.04.01, and 8 % too slow
  from 26.06 on: it is the releases that differ, which no column says. GPT-OSS 120B and DeepSeek-V3 on B300 are
  predicted 5 % faster than with DeepEP's rates, which is further off.
- **Two releases of Qwen3 30B and 235B** (megatron_bridge:228, 260; B300 in 26.02 and 26.02.01) take 1.6 to 1.8 times as
  long as the next ones with the same layout, or without virtual stages. No column says what differs.
- **GPT-OSS 120B in 16 bits** is predicted 12 to 16 % too fast on H100, 17 to 24 % on B200 and B300, 18 to 20 % on
  GB300, and 11 to 27 % on GB200; in 8 bits, with graphs, 9 % on GB300 and 21 % on GB200, without them a third on B300.
  Of Megatron Core's ops of experts (core/transformer/moe/experts.py, fusions/fused_bias_geglu.py) what is read and
  written is expressed, as are waits of the host: biases and clamps are kernels of their own. In 8 bits with the same
  layout a step on GB200 is 3.5 % shorter than in 16 (NVIDIA-NeMo/Megatron-Bridge, pull request 3561), so that it is not
  products that are missing; those of its experts were measured on an H200, in 16-bit floats, at 480 to 680 Tflop/s, 650
  in one kernel. Attention is not written out there: its scores would not fit. How fast cuDNN's attention with sinks and
  a sliding window is on Blackwell is not known. Here biases of first products are kernels of their own, where cuBLAS
  adds them as it multiplies.
- **GPT-OSS 120B with experts on 64 GPUs of 8 nodes** (26.02) takes as long on B300 as on B200: as if all-to-alls went
  at 36 GB/s for each GPU on both, where cards of B300 send 100 GB/s. It is predicted 40 % too fast there, 17 % on B200.
  Such cards would explain half of what is missing of B300's other runs of this model, whose gradients cross nodes.
- **GPT-OSS 120B on B200 in 25.11** (two microbatches) takes 4.0 s, and five microbatches 6.0 s in later releases: a
  microbatch takes what is predicted, and 1.5 s of each step are missing, more than gradients and weights take between
  nodes.
- **Steps that are replayed as graphs** (26.06 and 26.08) have one kernel for experts' products and gates in 8 bits;
  here they are several. Such steps are predicted up to a third too slow on GB300.
- **Experts with tensor parallelism** (Qwen3 235B on H100) have products in 16 bits here, in 8 there. Its recipe sends
  tokens by NCCL's all-to-all, beside what another microbatch computes; here hardly any of that is hidden, and a step
  is predicted 21 % too slow.
- **DeepSeek-V3's layer for multi-token prediction** is not in our program. It is 4 % of the published FLOPs.
- **GPT-3 175B in the first release of NVIDIA's tables** (dgxc:65 to 74, NeMo 24.05) takes 10 to 22 % longer than
  predicted, in the second one (NeMo 24.12) 2 to 4 %. The first one's steps are 5 to 15 % longer, with twice as many
  virtual stages, which take less time here; FlashAttention 2 in the place of cuDNN's explains 1.5 %.
- **Ranks of layouts in NVIDIA's tables** (dgxc). Layouts of equal work on equally many GPUs are of GPT-3 175B alone,
  with 12 virtual stages of a device in NeMo 24.05 and with 6 in NeMo 24.12: what is ranked are releases.
- **B200's attention** is estimated: forward cuDNN's best of a paper, backward by how much its shared memory moves. On
  two and four GPUs, at short sequences, steps take 10 % longer than predicted.
- **torchtitan with context parallelism on 4 and 8 devices** is predicted a fifth too fast, on 2 devices right within 7
  %: what is measured beyond one device's time is attention at 280 Tflop/s on two devices and at 180 on more, and a ring
  computes the same kernels on any number of them. From four devices on it is as if parts were attended to whole,
  without the balance of the causal mask, which torch's ring has by default: twice the arithmetic, at 345 Tflop/s. Why
  is not found; merging what rings find takes some per cent, and is in the program.
- **torchtitan's 8-bit floats** have the scales of each step, and here those of steps before.
- **MPT on H100** (mosaic_80gb) is predicted 4 to 12 % too fast at up to 2,048 tokens, with few weights and many, on one
  node and on eight; the same runs on A100 within 7 %. Its images have CUDA 11.8, whose cuBLAS is older than those that
  products of the profile were measured with: a likely cause, not verified.
- **MPT at long sequences** (16,384 tokens and more) is predicted 1 to 14 % too slow: the kernel in Triton is taken to
  have a share of FlashAttention 2's rate that is a figure of a paper, for all sizes. 350M in 8 bits on H100
  (mosaic_80gb:54, 55; heads of 64) is predicted a third too slow.
- **MPT with full recomputation on A100 with 80 GB** is predicted 2 to 7 % too slow, without recomputation not: PyTorch
  2.1 ends with what the backward pass needs, without a layer's last product, 2.0 and 1.13 do not, and the rows do not
  say the release. MPT-30B with 8,192 tokens (mosaic_80gb:3, 59) takes a third longer than predicted: it is at the limit
  of memory.
- **Weights of MPT's runs** are in 16 bits here. Most runs of mosaic_80gb have them in Float32, with sums of gradients
  in 16 bits (`amp_bf16`, `DEFAULT`), which takes memory and hardly any time, and no column says so.
- **NeMo of 24.03 and 24.07** (nemo_dense) is predicted too fast, by 7 to 22 %, and later releases are not: Llama 3 8B
  with one layout on 8 H100 takes 10.9 s with 24.07 (nemo_dense:11), 9.7 s and 9.3 s later (dgxc:48 and 264). No column
  says the release.
- **GB300** trains Llama 3 8B a fifth faster than GB200 does, with the same layout (bridge_dense:13 and 17, 14 and 18),
  and multiplies in 8 bits here as that does: its runs are predicted 10 % too slow, those of GB200 8 % too fast.
- **Llama 3.1 405B in MXFP8 on GB200** in the first release (bridge_dense:6) is predicted a fifth too fast. B200 takes
  less time with the same layout (10), and is predicted 6 % too fast. No column says what differs.
- **Products in bf16 on GB200 and GB300** run at half of the rate of shorter ones in the table of measured products from
  half a millisecond on. B200, the same chip with a lower limit of power, slows by a quarter, so the devices of that
  table met another limit. Runs are predicted with the clock of B200, times the cube root of the ratio of limits.
- **Collectives of GPT-3 175B's tensor parallelism** (dgxc) are in user buffers, as its configuration has it, and so are
  those of Llama 3.1 405B and Nemotron, which are predicted 12 to 18 % too slow otherwise. What products beside them
  lose to the multiprocessors that send is not in the program.
- **Llama 3 70B on GB300 in MXFP8** without virtual stages (bridge_dense:38) would idle for 27 % of a step, and not fit,
  and takes less time than with five (28): the table seems to leave them out.
- **Llama 2 13B of torchtitan without recomputation** (titan_dense:13) is predicted to need 97 GB of tensors on 80 GB,
  and ran: with a fused norm, which no column says, it would be 70 GB. What the allocator holds beyond them is freed
  before a run ends out of memory.
- **Tensor parallelism of NeMo.** Of its user buffers those in bulk are in the programs; those that cut a collective
  with its product are not: these collectives are waited for, and products beside others have all multiprocessors.
- **The embedding's gradient with sequence parallelism**: each shard sums that of the whole table for its part of the
  sequence, and the sums are scattered once in a step. Megatron gathers what the layers give, for each microbatch, and
  sums the rows of the shard.
- **Nemotron 4 15B on 64 H100** (dgxc_dense:67) reports a peak of 73.0 GB, and is predicted to have 63.8. What it holds
  between steps, by its log 34.5 GB, are weights, 16-bit gradients and a share of the state (34.2); the rest is not
  found.
- **torchtitan with tensor parallelism and 8-bit floats** (titan_dense:1, 2) is predicted 14 % too slow. A third
  of the step is communication: its gathers before products are in 8 bits, and here in 16.
- **torchtitan of 2025 on H200** (titan_dense:9, 10) is predicted 13 % too fast, and to hold 59 GB of reported 51: its
  scripts compile the loss, which no column says.
- **torchtitan** reports what its allocator has reserved, a fifth more than tensors take in the mean of rows 1 to 7. Why
  so much is reserved is not found: it is in the band of memory, not in the model. Its GPUs have 500 W; by how much that
  slows products is what an H200 shows at its own limit. Bf16 on them (1, 2, 4, 5) is predicted 6 to 8 % too fast: where
  voltage falls no further, clocks fall with power more than that (not measured).
- **BLOOM on Jean Zay** (bloom) is predicted a fifth too fast, while like models of Megatron-LM on Selene (seqsel) are
  right within 8 %. What is missing is about 10 ms of a layer and a microbatch, and 5 ms more of each of its sequences,
  with one shard as with eight. Their script has the host wait for each op (`CUDA_LAUNCH_BLOCKING=1`), so that it is not
  hidden; no column says that, and the second part is not found. Layouts are ranked nearly as measured (regret 3 %).
  Some numbers of heads (112 on eight shards, 104 on four) take 15 to 18 % longer there, and no longer here. Nodes were
  mended on 25 February, and are 1 to 5 % faster since.
- **InternEvo** (internevo) has no definition, and is predicted as NeMo is: within 17 % on 8 to 64 GPUs, too fast. It
  copies residuals to Float32 before each norm, and adds them by ops of their own. With ZeRO-1 over all replicas each
  rank broadcasts the weights that it updates: on 1,024 GPUs a step takes 1.6 times as long as with groups of 8, which
  are predicted within 10 %.
- **Paxml of 2023** (jax_toolbox) takes up to twice as long as predicted. Its flags have no pipelined collectives, as
  those of MaxText's of 2024 have. GPT-3 175B, which waits least for them, is predicted within 10 % on A100. No column
  says the release.
- **torchtitan on H100 and B200 in torchao's tables** (titan_8b:1 to 8): B200 have a power limit that is not stated,
  and 8 H100 are as fast as those with 500 W (torchtitan:2). AWS's (9, 10) are predicted within 9 %, and report as much
  memory as two sequences take, where the configuration has one. torchtitan of 2025 compiles the loss, or cuts it into
  chunks (11), which no column says: logits take less memory.
- **NeMo AutoModel** (automodel) is predicted as FSDP2 in torch's kernels, up to 37 % too slow: its layers are
  Transformer Engine's. Its state seems to be in 16 bits, for in Float32 it would not fit.
- **Qwen3 235B in Megatron Core** (moe_zoo) is predicted a third too fast with NCCL's all-to-all in pipelines of 32
  ranks (4), and with four shards (5), and a quarter too slow with sequences of 32,768 tokens in two parts (7). Why is
  not found.

## What is assumed

- A device in a training step is hot: products and attention run at the clock of the longest ones that were measured
  alone, and at most as fast on average as tables by size of repeated products say. No figure of it is from these runs.
- FlashAttention 1 runs at half the rate of the second version, by figures of the latter's paper, and the kernel in
  Triton at 0.71 of it forward, at half backward.
- With dropout, attention's forward pass takes twice as long on H100, its backward pass a fifth longer: what cuDNN 9.19
  takes on an H200. Kernels of 2024 may differ. On A100 it is what FlashAttention 2 takes there.
- The host takes no time to issue an op where no source says how long: in FSDP, llm-foundry, Paxml, torchtitan and Aleph
  Alpha's code.
- Each device gets as many tokens as another from routers. Where a run has natural routing, no column says so.
- What no column says of a model is that of the published one of its sizes: ranks of latent attention, the norm of
  heads, the router. Latent attention of other models has the ranks that are Megatron Core's defaults.
- B300 and GB300 multiply and attend as B200 and GB200 do: no measured ops are at hand. MXFP8's scales are moved
  and sent as 4 bytes here, and are held as one.
- Of a rack of 72 GPUs as many run as divide the GPUs of the run, such as 64.
- What sources state of frameworks is as the files cite it. Opened were those of Aleph Alpha's scaling, llm-foundry,
  NeMo's performance scripts, NeMo-Framework-Launcher's configurations, Megatron-Bridge's of Qwen3 and Llama, and
  NVIDIA's dgxc-benchmarking; not all others.
"""


def main(words: Sequence[str]) -> None:
    """Predict, and write the page."""
    files = sorted(HERE.glob("*.csv"))
    chosen = [Path(word).resolve() for word in words] or files
    if others := [str(path) for path in chosen if path not in files]:
        sys.exit(f"expected files of {HERE}, found {', '.join(others)}")
    by_file = {file: read_runs(str(file)) for file in files}
    runs = [run for some in by_file.values() for run in some]
    PREDICTIONS.parent.mkdir(exist_ok=True)
    with PredictionsLog(str(PREDICTIONS), runs) as log:
        known = dict(log.resume().known)
        for prediction in predict_all([run for file in chosen for run in by_file[file] if run.id not in known]):
            known[prediction.id] = prediction
            log.add(prediction)
        log.write(known[run.id] for run in runs if run.id in known)
    outcomes = [Outcome(run, known[run.id]) for run in runs if run.id in known]
    plot(outcomes, str(PICTURE))
    PAGE.write_text(page(outcomes, [run for run in runs if run.id not in known]), encoding="utf-8")


def page(outcomes: Sequence[Outcome], later: Sequence[MeasuredRun] = ()) -> str:
    """The text of the page. `later`: runs that are not predicted yet."""
    outcomes = with_memory_of_others(outcomes)
    chose = [o for o in outcomes if _chose(o)]
    groups = summaries(outcomes)
    parts = [HEAD, HELD_BACK, *_ranks([o for o in outcomes if not _chose(o)], all_of="all of these"), ""]
    parts += ["![Predicted over measured step times](truth/errors.svg)", "", CHOSE, *_choices(chose), ""]
    parts += [*_ranks(chose), "", BY_FILE, *_table(groups), "", *_bands(outcomes), ""]
    parts += [*_memory(outcomes, groups), "", CAUSES, *_frameworks({o.run.framework for o in outcomes}), ""]
    parts += _left_out(outcomes)
    if later:
        listed = ", ".join(run.id for run in later)
        parts += ["## Runs that are not predicted yet", "", f"`make truth` continues with them: {listed}.", ""]
    return "\n".join(parts)


@cache
def published_by(file: str) -> str:
    """The repository that a file is of, as its first line says; the file itself where it names none."""
    path = HERE / f"{file}.csv"
    found = re.search(r"github (\S+?)(@|\s)", path.read_text().partition("\n")[0]) if path.exists() else None
    return found.group(1) if found else file


def _by_source(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    found: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[published_by(outcome.run.source)].append(outcome)
    return found


def with_memory_of_others(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The same, each with the band of memory that all other sources say."""
    sources = _by_source(outcomes)
    bands = {name: memory_errors(some for other, some in sources.items() if other != name) for name in sources}
    return [replace(o, memory=bands[published_by(o.run.source)]) for o in outcomes]


def _chose(outcome: Outcome) -> bool:
    """Whether runs of the same source chose a figure that this one is predicted with."""
    causes = chain(FRAMEWORKS[outcome.run.framework].sources, *(found.causes for found in PARAMETERS.values()))
    return any(published_by(outcome.run.source) in each.chosen_by for each in causes)


def _choices(chose: Sequence[Outcome]) -> list[str]:
    """What runs of these sources chose."""
    sources = {published_by(o.run.source) for o in chose}
    causes = dict.fromkeys(each for found in FRAMEWORKS.values() for each in found.sources)
    return [_caused(each) for each in causes if sources & {*each.chosen_by}]


def _ranks(outcomes: Sequence[Outcome], all_of: str = "") -> list[str]:
    """A table by source: ranks first, then errors."""
    sources = _by_source(outcomes)
    named = [(_marked(name, some), summary(name, some)) for name, some in sorted(sources.items())]
    heads = ("source", "runs", "ρ within", "regret", "worst", "MAPE", "median", "p90", "worst", "bias", "ρ")
    lines = ["", f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1)]
    lines += [_ranked(name, g) for name, g in named]
    if all_of:
        every, times = summary(all_of, outcomes), [g.time for _, g in named if g.time is not None]
        lines.append(_ranked(f"**{all_of}**", every))
        of_sources = [
            f"{100 * median(x):.1f} %" for x in zip(*((t.mean, t.median, t.p90, t.worst) for t in times), strict=True)
        ]
        bias = f"{100 * median(t.bias for t in times):+.1f} %"
        lines.append(f"| **median of sources** | {' | '.join(['', '', '', '', *of_sources, bias, ''])} |")
    return lines


def _marked(name: str, outcomes: Sequence[Outcome]) -> str:
    later = {o.run.source in LATER for o in outcomes}
    return name + (" †" if later == {True} else " (†)" if True in later else "")


def _ranked(name: str, g: GroupFigures) -> str:
    cells = [name, f"{g.expressed} of {g.runs}", _number(g.rank_within), _percent(g.regret), _percent(g.worst_regret)]
    return f"| {' | '.join([*cells, *_errors(g.time), _number(g.rank)])} |"


def bands(outcomes: Sequence[Outcome]) -> dict[str, PublishedErrors]:
    """By profile: within which factors of the simulated time 8 of 10 runs lie; under `""`, those of all runs.

    Without the runs that wait for the host: their times differ by more between repeats than between layouts.
    """
    judged = [o for o in outcomes if o.run.source not in HOST_BOUND]
    named = {name: [o for o in judged if GPUS.get(o.run.gpu) == name] for name in sorted(GPUS.values())}
    found = {name: published_errors(some) for name, some in [*named.items(), ("", judged)]}
    return {name: errors for name, errors in found.items() if errors is not None}


def _bands(outcomes: Sequence[Outcome]) -> list[str]:
    lines = [BANDS, "| profile | measured over simulated | ratios of layouts are off by |", "|---|---:|---:|"]
    for name, errors in bands(outcomes).items():
        lines.append(f"| {name or 'all'} | {errors.low:.2f} to {errors.high:.2f} | {100 * errors.apart:.0f} % |")
    share = held_back(outcomes)
    if share is not None:
        lines += ["", f"Of runs of a source, {100 * share:.0f} % lie in the band of all other sources."]
    return lines


def held_back(outcomes: Sequence[Outcome]) -> float | None:
    """What share of runs lies in the band of all other sources, which the band has not seen."""
    judged = _by_source([o for o in outcomes if o.run.source not in HOST_BOUND and o.time_error is not None])
    within: list[bool] = []
    for name, some in judged.items():
        errors = published_errors([o for other, others in judged.items() if other != name for o in others])
        ratios = [1 / (1 + (o.time_error or 0.0)) for o in some]
        within += [errors.low <= ratio <= errors.high for ratio in ratios] if errors is not None else []
    return sum(within) / len(within) if within else None


def _table(groups: Sequence[GroupFigures]) -> list[str]:
    heads = ("file/framework", "runs", "ρ within", "regret", "worst", "MAPE", "median", "p90", "worst", "bias", "ρ")
    return [f"| {' | '.join(heads)} |", "|---|" + "---:|" * (len(heads) - 1), *(_ranked(g.name, g) for g in groups)]


def _memory(outcomes: Sequence[Outcome], groups: Sequence[GroupFigures]) -> list[str]:
    every, counts = memory_band(outcomes), FitCounts.of(outcomes)
    lines = [MEMORY, f"The band of all sources is {every.low:.2f} to {every.high:.2f}."]
    decided, out = counts.n - counts.open, sum(o.run.status == "oom" and o.fit is not None for o in outcomes)
    lines.append(
        f"Of {counts.n} runs, {out} of them out of memory, {_share(decided, counts.n)} are decided. "
        f"Of {counts.fitting} that fit, {counts.missed} ran out of memory ({_share(counts.missed, counts.fitting)}); "
        f"of {counts.not_fitting} that do not fit, {counts.false_alarms} ran "
        f"({_share(counts.false_alarms, counts.not_fitting)}).\n"
    )
    lines.append(
        "| file/framework | right | missed | false alarms | may not fit | peak: MAPE | median | p90 | worst | bias |"
    )
    lines.append("|---|" + "---:|" * 9)
    for g in groups:
        if g.memory.n:
            cells = [
                f"{g.memory.right} of {g.memory.n}",
                *map(str, (g.memory.missed, g.memory.false_alarms, g.memory.open)),
            ]
            lines.append(f"| {' | '.join([g.name, *cells, *_errors(g.memory_error)])} |")
    return lines


def memory_band(outcomes: Sequence[Outcome]) -> MemoryErrors:
    """The band of memory that all sources say."""
    return memory_errors(_by_source(outcomes).values())


def _share(part: int, of: int) -> str:
    return f"{100 * part / of:.1f} %" if of else "none"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _frameworks(names: set[str]) -> list[str]:
    lines = ["## What frameworks are taken to do", ""]
    for name in sorted(names):
        found = FRAMEWORKS[name]
        lines += [f"`{name}`: {found.title}.", "", *map(_caused, found.sources), ""]
    lines += ["All frameworks, and machines beside what their profiles cite:", ""]
    return [*lines, *(_caused(each) for _, found in sorted(PARAMETERS.items()) for each in found.causes), ""]


def _caused(by: Cause) -> str:
    """The parameters that a cause is of, and where it is read."""
    names = ", ".join(f"`{name}`" for name in by.of)
    return f"- {names}: {by}" if names else f"- {by}"


def _left_out(outcomes: Sequence[Outcome]) -> list[str]:
    reasons: dict[str, list[MeasuredRun]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.predicted.step_time_s is None:
            reasons[outcome.predicted.note].append(outcome.run)
    lines = ["## Runs that cannot be expressed", ""]
    for reason, runs in sorted(reasons.items(), key=lambda item: -len(item[1])):
        files: dict[str, list[str]] = defaultdict(list)
        for run in runs:
            files[run.source].append(run.id.partition(":")[2])
        listed = "; ".join(f"{file}: {', '.join(ids)}" for file, ids in files.items())
        lines.append(f"- {reason} ({listed})")
    return [*lines, ""]


def _errors(of: Errors | None) -> list[str]:
    if of is None:
        return [""] * 5
    return [*(f"{100 * x:.1f} %" for x in (of.mean, of.median, of.p90, of.worst)), f"{100 * of.bias:+.1f} %"]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    main(sys.argv[1:])
