"""Arguments of a training script on Hugging Face's Trainer: a launch script, or the YAML or JSON that one reads.

They say the batches, the precision and what is recomputed; how it is distributed is accelerate's, which they configure.
Facts of transformers 5.24: training_args.py (`TrainingArguments`, `_process_fsdp_args`), integrations/deepspeed.py
(what `auto` is); llamafactory 0.9.5: hparams, model/model_utils/checkpointing.py (layers are recomputed by default).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from distir.configurations import accelerate, arguments, deepspeed, texts
from distir.configurations.accelerate import beside_of
from distir.configurations.deepspeed import Loop
from distir.configurations.formats import Format, configuration_format
from distir.configurations.jobs import MICRO_BATCH, ReadJob, Supplied, optimizer_of
from distir.configurations.known import known, words
from distir.configurations.launchers import ProcessCounts
from distir.configurations.models import of_name
from distir.configurations.options import ConfigurationError, Known, Options, Remark, Setting, as_list

VERSION: Final = "transformers 5.24"

KNOWN: Final = known(
    "the Trainer",
    f"{VERSION}, training_args.py; for other frameworks see `distir import --help`",
    "trainer",
    words("trainer_idle"),
    ("fsdp_config.*", "deepspeed.*", "parallelism_config.*", "*_kwargs.*", "accelerator_config.*", "dataset_mixture.*"),
)

SEQUENCES: Final = ("cutoff_len", "max_seq_length", "max_length", "model_max_length", "block_size")
"""What scripts call the tokens to which sequences are cut, or packed."""

BATCHES: Final = ("per_device_train_batch_size", "per_gpu_train_batch_size", "gradient_accumulation_steps")

EFFECTIVE: Final = frozenset(name for name in KNOWN.defaults if not KNOWN.is_idle(name))
"""Arguments that may change a step."""

MODELS: Final = ("model_name_or_path", "model_name", "model_id", "base_model", "model")

SMALLER: Final = re.compile(r"8bit|4bit|lomo|galore|apollo|adafactor|sgd|lion|rmsprop|adagrad|stable|schedule")
"""Optimizers whose state is not AdamW's in Float32."""

LORA: Final = ("use_peft", "use_lora", "lora_enable", "lora_r", "lora_rank", "lora_target", "lora_target_modules")
QUANTIZED: Final = ("load_in_4bit", "load_in_8bit", "quantization_bit", "bits")


def read(text: str, path: str, given: Supplied) -> ReadJob:
    """What arguments say. Raises ConfigurationError."""
    source = _source(text, path, given)
    source = replace(source, settings={n: s for n, s in source.settings.items() if not n.startswith("_")})
    strange = [name for name in source.settings if not KNOWN.has(name) and name not in MODELS]
    misspelt = KNOWN.meant(strange)
    of_script = {name for name in strange if name not in misspelt}
    if len(of_script) == len(source.settings):
        of_script = set[str]()  # none is of the Trainer, as is said of all of them
    plain = {name: setting for name, setting in source.settings.items() if name not in (*of_script, *MODELS)}
    options = Options(path, plain, KNOWN)
    shown = [name for name in strange if name in of_script and not accelerate.KNOWN.has(name)]
    if shown:
        first = source.settings[shown[0]].line
        options.notes.append(Remark(f"arguments of the script itself are not read: {', '.join(shown)}", first))
    options.notes += source.notes
    if cut := next((name for name in strange if name.endswith("_model_parallel_size")), None):
        message = f"`{cut}`: Megatron's arguments among the Trainer's are not read"
        raise options.wrong(source.settings[cut].line, message, "import them by themselves: `distir import megatron`")
    beside = _with_model(options, source.settings, given)
    loop = _loop(options, given)
    _note_adapters(options)
    found = _distributed(options, source, beside, loop)
    if not loop.recompute and found.job.recompute == "none":
        options.note("nothing is recomputed, as `gradient_checkpointing` is not set")
    return replace(found, notes=[*found.notes, *options.rest()])


@dataclass(frozen=True, slots=True)
class _Source:
    """The settings of a text, how its command is launched, the options of its launcher; notes."""

    settings: Mapping[str, Setting]
    launch: ProcessCounts
    launcher: Mapping[str, Setting]
    notes: tuple[Remark, ...] = ()


def _source(text: str, path: str, given: Supplied) -> _Source:
    """JSON, YAML, or a command with its arguments."""
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    if first.lstrip().startswith("{"):
        return _Source(texts.of_json(text, path), ProcessCounts(), {})
    if re.match(r"[\w.-]+\s*:(\s|$)", first):
        return _Source(texts.of_yaml(text, path), ProcessCounts(), {})
    found = arguments.arguments(text, path, given.variables)
    if not found.words:
        raise ConfigurationError(f"{path}: no command with options, such as --per_device_train_batch_size", None)
    settings = arguments.settings(found.words)
    deciding = [str(settings[name].value) for name in (*BATCHES, *SEQUENCES, "deepspeed", "fsdp") if name in settings]
    if (asked := arguments.asked(found, deciding, EFFECTIVE)) is not None:
        raise ConfigurationError(f"{path}: {asked[0]}", asked[1])
    shown = (one for one in found.skipped if not one.options or not one.options.isdisjoint(EFFECTIVE))
    notes = [Remark(one.text, one.line) for one in shown]
    notes += [
        Remark(f"`{name}` is `{value}`, which only the machine says; `--gpus N` does", line)
        for name, value, line in found.launch.unclear
    ]
    return _Source(settings, found.launch, arguments.settings(found.launcher), tuple(notes))


def _with_model(options: Options, settings: Mapping[str, Setting], given: Supplied) -> Supplied:
    """What is given, with the model and the sequences that the arguments name."""
    named = next((name for name in MODELS if name in settings), None)
    options.get("model_name_or_path")
    lengths = {name: options.optional(name) for name in SEQUENCES}
    length = next((value for value in lengths.values() if value), None)
    beside = replace(given, seq=given.seq or length)
    if named is None or given.model is not None:
        return beside
    repository = str(settings[named].value)
    published = of_name(repository)
    if published is None:
        return replace(beside, name=repository)
    return replace(beside, name=published[0], model=published[1])


def _loop(options: Options, given: Supplied) -> Loop:
    """Batches, precision, recomputation, optimizer: what a training loop says."""
    name = BATCHES[1] if BATCHES[1] in options else BATCHES[0]
    micro = options.supplied(name, given.micro_batch, MICRO_BATCH)
    if name not in options and not given.micro_batch:
        options.note(f"micro batches of {micro} sequences, the default of `per_device_train_batch_size`")
    half, brain, eight = options.flag("fp16"), options.flag("bf16"), options.flag("fp8")
    if options.flag("pure_bf16") and not half:
        brain = True
        options.note("weights and state in bfloat16 alone are simulated with those in Float32", "pure_bf16")
    if half and brain:
        raise options.wrong(options.line("fp16"), "`fp16` and `bf16` contradict each other", "use one of them")
    if options.flag("tf32") and not (half or brain or eight):
        options.note("products in TF32 are not simulated, in Float32 they are slower", "tf32")
    muon = options.flag("use_muon")
    return Loop(
        micro_batch=micro,
        steps=options.optional("gradient_accumulation_steps") or 1,
        precision="fp8" if eight else "fp16" if half else "bf16" if brain else _of_weights(options),
        recompute={True: "full", False: "none", None: ""}[_recomputes(options)],
        compile=options.flag("torch_compile"),
        optimizer="muon" if muon else _optimizer(options),
        attention=_attention(options),
    )


DTYPES: Final = ("torch_dtype", "dtype")
SHORT: Final = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16"}


def _of_weights(options: Options) -> str:
    """The precision that the weights have, where the loop has none of its own; empty for Float32."""
    named = next((name for name in DTYPES if name in options), None)
    for name in DTYPES:
        options.get(name)
    word = str(options.get(named)).removeprefix("torch.") if named else ""
    if word not in ("", *SHORT, "float32", "auto"):
        hint = f"expected float32, auto, or one of {', '.join(SHORT)}"
        raise options.wrong(options.line(named or ""), f"`{named}` is `{word}`", hint)
    return SHORT.get(word, "")


KERNELS: Final = ("sdpa", "flash", "fa2", "fa3", "auto", "flex", "kernels-community")
"""How names of attention's kernels begin that keep no scores."""


def _attention(options: Options) -> str:
    """Where attention is no single kernel. The default of transformers is torch's."""
    for name in ("attn_implementation", "flash_attn"):
        word = str(options.get(name) or "").lower()
        if word in ("eager", "disabled"):
            return "unfused"
        if word and not word.startswith(KERNELS):
            options.note(f"attention by `{word}` is simulated as torch's kernel", name)
    for name in ("use_flash_attention_2", "use_flash_attn"):
        options.flag(name)
    return ""


def _recomputes(options: Options) -> bool | None:
    """Whether layers are recomputed; where nothing says, as the library whose arguments these are, or None."""
    of_factory = {"cutoff_len", "finetuning_type", "stage", "template"} & options.settings.keys()
    names = ("gradient_checkpointing", "activation_checkpointing")
    switched_off = options.flag("disable_gradient_checkpointing")
    stated = [options.flag(name) for name in names if name in options]
    if stated or switched_off:
        return any(stated) and not switched_off
    if of_factory:
        options.note("layers are recomputed, as LLaMA-Factory does without `disable_gradient_checkpointing`")
    return True if of_factory else None


def _optimizer(options: Options) -> str:
    found = optimizer_of(options, "optim")
    name = str(options.get("optim") or "")
    if options.flag("adafactor") or SMALLER.search(name):
        options.note(f"the state of `{name or 'adafactor'}` is simulated as AdamW's, in Float32", "optim")
    return found


def _note_adapters(options: Options) -> None:
    """Report what trains fewer weights, or holds smaller ones, and what is no step of a language model."""
    kind = options.get("finetuning_type") if "finetuning_type" in options else None
    named = [name for name in LORA if name in options and options.get(name) not in (False, "False", "false", 0, "0")]
    for name in (*LORA, *QUANTIZED):
        options.get(name)
    if kind not in (None, "full") or (kind is None and named):
        where = "finetuning_type" if kind is not None else named[0]
        options.note("all weights are trained here, as without LoRA or other adapters", where)
    smaller = [name for name in QUANTIZED if str(options.get(name)).lower() in ("4", "8", "true")]
    if smaller:
        options.note("weights are in 16 or 32 bits here, not quantised", smaller[0])
    stage = options.get("stage")
    if stage not in ("pt", "sft"):
        options.note(f"`{stage}` is simulated as a step of a language model, without a reference or a reward", "stage")
    if options.flag("use_cpu") or options.flag("no_cuda"):
        name = "use_cpu" if options.flag("use_cpu") else "no_cuda"
        raise options.wrong(options.line(name), f"`{name}`: it trains on processors, which no profile describes")


def _distributed(options: Options, source: _Source, given: Supplied, loop: Loop) -> ReadJob:
    """A job as accelerate distributes it: by its own configuration, where a launcher names one, or by the arguments."""
    path, settings = options.path, dict[str, Setting]()
    launcher = {name: source.launcher[name] for name in source.launcher if name != "config_file"}
    other = given.beside if given.beside is not None and not given.beside.is_json else None
    if other is None and (file := source.launcher.get("config_file")):
        named_file = Options(
            path, {"config_file": file}, Known("accelerate", "accelerate launch", {"config_file": None})
        )
        other = beside_of(named_file, "config_file", str(file.value))
        if other is None:
            message = f"`--config_file` names `{file.value}`, which is not there"
            raise options.wrong(file.line, message, "give it with `--with FILE`, or put it beside this one")
    if other is not None:
        path = other.path
        settings |= texts.of_yaml(other.text, path)
    settings |= _launched(launcher)
    if path == options.path and (started := _started(source.launch, given)):
        settings.setdefault("num_processes", Setting(started, 0))
    if (count := source.launch.nodes) and path == options.path:
        settings.setdefault("num_machines", Setting(*count))
    if of_arguments := _sharded(options):
        settings |= of_arguments
    several = str(settings["num_processes"].value) != "1" if "num_processes" in settings else given.gpus != 1
    settings.setdefault("distributed_type", Setting("MULTI_GPU" if several else "NO", 0))
    runs_deepspeed = any(name == "deepspeed" or name.startswith("deepspeed.") for name in options.settings)
    of_json = given.beside is not None and given.beside.is_json
    if of_json or (runs_deepspeed and options.get("deepspeed") is not False):
        return _of_deepspeed(options, settings, given, loop)
    found = accelerate.job_of(settings, path, given, loop)
    notes = found.notes if path == options.path else [Remark(note.shown(path)) for note in found.notes]
    named = next((name for name in DTYPES if name in options), None)
    if named and SHORT.get(str(options.get(named))) and not found.job.strategy.zero:
        options.note("weights and state in 16 bits alone are simulated with those in Float32", named)
    return replace(found, notes=notes)


def _started(launch: ProcessCounts, given: Supplied) -> int | None:
    """How many processes are launched, as far as that is said."""
    if launch.each:
        return launch.each[0] * (launch.nodes[0] if launch.nodes else 1)
    return launch.total[0] if launch.total else launch.nodes[0] * given.node if launch.nodes else None


def _launched(words: Mapping[str, Setting]) -> dict[str, Setting]:
    """What the options of `accelerate launch` set of its configuration."""
    found: dict[str, Setting] = {}
    for name, setting in words.items():
        tables = ("", "fsdp_config.", "deepspeed_config.", "parallelism_config.", "dynamo_config.")
        to = next((table + name for table in tables if table + name in accelerate.KNOWN.defaults), None)
        if to is not None:
            found[to] = setting
    for name, kind in (("use_fsdp", "FSDP"), ("use_deepspeed", "DEEPSPEED"), ("multi_gpu", "MULTI_GPU")):
        if name in words:
            found["distributed_type"] = Setting(kind, words[name].line)
    return found


def _sharded(options: Options) -> dict[str, Setting]:
    """What `fsdp`, `fsdp_config` and `parallelism_config` say, by accelerate's names."""
    said, line = options.get("fsdp"), options.line("fsdp")
    named = [str(word) for word in as_list(said) or str(said or "").replace(",", " ").split()]
    table = _table(options, "fsdp_config")
    found = {
        f"parallelism_config.{_begun(name.partition('.')[2], 'parallelism_config_')}": options.settings[name]
        for name in options.settings
        if name.startswith("parallelism_config.")
    }
    if not named or named in (["False"], ["false"]):
        return found
    if any(str(table.get(name, Setting(False, 0)).value).lower() == "true" for name in ("xla", "fsdp_xla")):
        raise options.wrong(options.line("fsdp_config"), "`xla`: FSDP on TPUs is not read")
    found["distributed_type"] = Setting("FSDP", line)
    for name, setting in table.items():
        to = _begun(name, "fsdp_").replace("fsdp_cpu_offload", "fsdp_offload_params")
        found[f"fsdp_config.{to}"] = setting
    for word in named:
        if word.upper() in accelerate.STRATEGIES:
            found["fsdp_config.fsdp_sharding_strategy"] = Setting(word.upper(), line)
        elif word == "offload":
            found["fsdp_config.fsdp_offload_params"] = Setting(True, line)
        elif word not in ("auto_wrap", "True", "true"):
            hint = f"expected auto_wrap, offload, or one of {', '.join(accelerate.STRATEGIES).lower()}"
            raise options.wrong(line, f"`fsdp` has the word `{word}`", hint)
    return found


def _begun(name: str, begin: str) -> str:
    return name if name.startswith(begin) else begin + name


def _table(options: Options, name: str) -> dict[str, Setting]:
    """A table among the arguments, or in a JSON file that they name."""
    inner = {n.partition(".")[2]: s for n, s in options.settings.items() if n.startswith(f"{name}.")}
    file = options.get(name)
    if not isinstance(file, str):
        return inner
    found = beside_of(options, name, file)
    if found is None:
        options.note(f"`{file}` is not there: its options are taken at their defaults", name)
        return inner
    return {n: Setting(s.value, options.line(name)) for n, s in texts.of_json(found.text, found.path).items()}


def _of_deepspeed(options: Options, settings: Mapping[str, Setting], given: Supplied, loop: Loop) -> ReadJob:
    """A job of DeepSpeed, whose configuration the arguments name, or have."""
    inner = {n.partition(".")[2]: s for n, s in options.settings.items() if n.startswith("deepspeed.")}
    name, file = "deepspeed", options.get("deepspeed")
    if file in (True, "True", "true", ""):
        name, file = "deepspeed_config", options.get("deepspeed_config")
    launched = Options(options.path, settings, accelerate.KNOWN)
    started = accelerate.started(launched, given)
    options.notes += launched.notes
    if inner:
        return deepspeed.job_of(inner, options.path, started, loop)
    if file is None and given.beside is None:
        message = "it runs DeepSpeed, and names no configuration of it"
        raise options.wrong(options.line("deepspeed"), message, "give it with `--with FILE`")
    return accelerate.of_deepspeeds_file(options, name, started, loop)


TRAINER = configuration_format(
    Format(
        name="trainer",
        title="arguments of Hugging Face's Trainer (a script, YAML or JSON)",
        version=VERSION,
        suffixes=(),
        read=read,
    )
)
