"""Random chains of steps over small models, drawn from what the steps declare: a new step or option enters by itself.

A chain is words of `distir transform`, mostly in the order that steps declare, now and then in any.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from distir import parse, simulate
from distir.diagnostics import ProgramError
from distir.ir import Apply, Call, Module
from distir.ir.rewrite import facts_of
from distir.models import mlp
from distir.models.decoder import Decoder
from distir.models.decoder_program import decoder
from distir.models.encoder import Bert
from distir.models.published import PUBLISHED, resized
from distir.syntax import print_module
from distir.transform import STEPS, Option, Step, StepError, VerifyError, reference, transform, verify
from distir.transform.steps import in_order

BATCH, SEQUENCE = 8, 8

DECODER = {"layers": 2, "width": 16, "heads": 4, "ffn": 32, "vocabulary": 32}
SHARED_HEADS = DECODER | {"kv_heads": 2, "head_size": 4}
HAVING_EXPERTS = {name: size for name, size in SHARED_HEADS.items() if name != "ffn"}
EXPERTS = HAVING_EXPERTS | {"experts": 4, "top_k": 2, "expert_ffn": 16}

LATENT = {"expert_ffn": 16, "top_k": 2, "layers": 3, "dense_layers": 1, "experts": 16}

CONVOLUTIONS = """
func @main(
  %c1: Tensor[Float32, (8, 3, 3, 3), 1] {param}, %s1: Tensor[Float32, (8,), 1] {param},
  %b1: Tensor[Float32, (8,), 1] {param}, %m1: Tensor[Float32, (8,), 1], %v1: Tensor[Float32, (8,), 1],
  %c2: Tensor[Float32, (8, 8, 3, 3), 1] {param}, %c3: Tensor[Float32, (8, 8, 3, 3), 1] {param},
  %head: Tensor[Float32, (8, 4), 1] {param}, %bias: Tensor[Float32, (4,), 1] {param},
  %image: Tensor[Float32, (8, 3, 8, 8), 1] {batch = 0}
) {
  %x1 = Conv[pads = [1, 1, 1, 1]](%image, %c1)
  %n1 = BatchNormalization(%x1, %s1, %b1, %m1, %v1)
  %a1 = Relu(%n1)
  %x2 = Conv[pads = [1, 1, 1, 1]](%a1, %c2)
  %a2 = Relu(%x2)
  %x3 = Conv[pads = [1, 1, 1, 1], strides = [2, 2]](%a2, %c3)
  %a3 = Relu(%x3)
  %pooled = ReduceMean[keepdims = false](%a3, [2, 3])
  %scores = MatMul(%pooled, %head)
  %logits = Add(%scores, %bias)
  return %logits
}
"""


def _published(name: str, sizes: dict[str, int]) -> Callable[[], Module]:
    def made() -> Module:
        model = resized(name, PUBLISHED[name], sizes)
        if isinstance(model, Decoder):
            return decoder(model, SEQUENCE, BATCH, "Float32")
        return model.module(*([SEQUENCE] if isinstance(model, Bert) else []), batch=BATCH, dtype="Float32")

    return made


MODELS: dict[str, Callable[[], Module]] = {
    "mlp": lambda: mlp(4, 8, BATCH, dtype="Float32"),
    "gpt3": _published("gpt3-125m", DECODER),
    "llama": _published("llama3-8b", SHARED_HEADS | {"layers": 4}),
    "qwen3": _published("qwen3-0.6b", SHARED_HEADS),
    "gemma2": _published("gemma2-2b", SHARED_HEADS | {"window": 4}),
    "mixtral": _published("mixtral-8x7b", EXPERTS),
    "qwen3-moe": _published("qwen3-30b-a3b", EXPERTS),
    "deepseek": _published("deepseek-v3", DECODER | LATENT),
    "gpt-oss": _published("gpt-oss-20b", EXPERTS | {"window": 4}),
    "bert": _published("bert-base", DECODER),
    "vit": _published("vit-b", {"layers": 2, "width": 16, "heads": 4, "ffn": 32, "image": 8, "patch": 4, "classes": 8}),
    "convolutions": lambda: parse(CONVOLUTIONS),
}
"""By name: a small model of each kind."""

LONGEST = 7
"""Steps in a chain."""

NUMBERS = {
    "int": ("0", "1", "1", "2", "2", "2", "3", "4", "4", "8"),
    "Count": ("1", "2", "2", "2", "3", "4", "4", "8"),
    "Bytes": ("0", "300", "25MiB"),
    "float": ("0", "0.1", "1", "2"),
    "float | str": ("0.1", "2"),
    "bool": ("true", "false"),
    "tuple[int, ...]": ("1", "1,2"),
}
"""What is drawn for an option whose words are not listed, by its kind."""


@dataclass(frozen=True)
class Chain:
    """A model by name, and the words of each step."""

    model: str
    steps: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return f"{self.model}: {' '.join(word for words in self.steps for word in words)}"

    @property
    def module(self) -> Module:
        """The forward program."""
        return _model(self.model)


def chains(seed: int, count: int) -> Iterator[Chain]:
    """So many chains: the same ones every time."""
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        yield Chain(rng.choice([*MODELS]), tuple(_steps(rng)))


@dataclass
class Outcome:
    """What came of a chain: the program, the words that it took, the refusals, and what must not be."""

    program: Module
    taken: list[str]
    refused: list[tuple[str, str]]
    """Words of a step, and the code of the diagnostic; `value` for a value that does not fit."""
    fault: str | None = None


def outcome(chain: Chain, run: bool = False) -> Outcome:
    """Apply the steps of a chain in turn, each without its options where it is refused with them.

    Refused steps are left out, so that a chain gets on. With `run` the result is compared with the sequential program
    by the reference executor, and simulated.
    """
    found = Outcome(chain.module, [], [])
    for words in chain.steps:
        for tried in dict.fromkeys((words, words[:1])):
            refused = found.fault = None
            try:
                made = transform(found.program, *tried)
                assert parse(print_module(made)) == made, "the result does not read back as it was printed"
                assert not (lost := unstated(made)), f"statements of no phase: {lost[:3]}"
            except StepError:
                refused = "value"
            except ProgramError as error:
                refused = error.diagnostics[0].code.number
                found.fault = None if is_refusal(refused) else str(error)
            except Exception as error:
                found.fault = f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
            if found.fault:
                found.fault = f"{chain.model}: {' '.join(found.taken)} | {' '.join(tried)}\n{found.fault}"
                return found
            if refused is None:
                found.program = made
                found.taken += tried
                break
            found.refused.append((" ".join(tried), refused))
    if run and (fault := _run(chain, found)):
        found.fault = f"{chain.model}: {' '.join(found.taken)}\n{fault}"
    return found


def unstated(module: Module) -> list[tuple[str, Apply]]:
    """The ops of a training step that are of no phase, each with its function."""
    entry = module.entry()
    if entry is None or not any(facts_of(statement).phase for statement in entry.body):
        return []
    found: list[tuple[str, Apply]] = []
    waiting, seen = [(entry, bool(entry.facts.phase))], set()
    while waiting:
        function, within = waiting.pop()
        for statement in function.body:
            stated = within or bool(facts_of(statement).phase)
            if isinstance(statement, Apply) and not stated:
                found.append((function.name, statement))
            elif isinstance(statement, Call) and (key := (statement.function, stated)) not in seen:
                seen.add(key)
                callee = module.functions[statement.function]
                waiting.append((callee, stated or bool(callee.facts.phase)))
    return found


def is_refusal(code: str) -> bool:
    """Whether a diagnostic says why a step does not apply: not that it is at fault, nor that its result is."""
    return code.startswith(("DIR5", "DIR6")) and code != "DIR606"


def _run(chain: Chain, found: Outcome) -> str | None:
    try:
        simulate(found.program, "dgx-h100x64")
        compared = verify(reference(chain.module, found.taken), found.program)
    except VerifyError:  # parts of a whole program: one of each group of devices, or no `.scatter`
        return None
    except Exception as error:
        if any(word.startswith("skew=") for word in found.taken) and "choices of a group for each owner" in str(error):
            return None  # experts got more tokens than the chain has room for
        return f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}"
    wrong = [result for result in compared.results if not result.equal]
    return f"other results: {wrong}" if wrong else None


@cache
def _model(name: str) -> Module:
    return MODELS[name]()


def _steps(rng: random.Random) -> Iterator[tuple[str, ...]]:
    known = [STEPS[name] for name in sorted(STEPS)]
    weights = [1 + 2 * (step.value is not None or bool(step.options)) for step in known]
    chosen = rng.choices(known, weights, k=rng.randint(1, LONGEST - 1))
    if rng.random() < 0.8:
        chosen.append(STEPS["grad"])
    rng.shuffle(chosen)
    if rng.random() < 0.75:
        chosen = in_order({step.name: step for step in chosen}.values())
    for step in chosen:
        yield tuple(_applied(rng, step))


def _applied(rng: random.Random, step: Step) -> Iterator[str]:
    """A step, its value where it needs one, and few of its options: most pairs of these contradict each other."""
    value = step.value
    if value is not None and (value.required or rng.random() < 0.7) and (text := _drawn(rng, value)):
        yield f"{step.name}={text}"
    else:
        yield step.name
    options = [step.options[name] for name in sorted(step.options)]
    taken = rng.sample(options, k=min(len(options), rng.choice((0, 0, 1, 1, 2, 3))))
    for option in taken:
        if text := _drawn(rng, option):
            yield f"{option.name}={text}"


def _drawn(rng: random.Random, option: Option) -> str | None:
    """A text for an option, or None where it declares no words."""
    words = option.examples or tuple(option.choices or ()) or NUMBERS.get(option.kind.removesuffix(" | None"), ())
    return rng.choice(sorted(words)) if words else None
