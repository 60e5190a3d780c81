"""Sizes of models as torchtitan and its forks define flavors, in Python: `{"8B": TransformerModelArgs(dim=4096, …)}`.

Nothing is run. Fields and defaults: torchtitan 0.2.2, torchtitan/models/*/model/args.py and torchtitan/models/moe;
widths of MLPs: torchtitan/models/llama3/model/model.py, torchtitan/models/llama4/model/model.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from distir.configurations.models import DEEPSEEK_16B, UNPUBLISHED, plain_flavor, published_decoder
from distir.configurations.options import ConfigurationError, Known, Options, Setting
from distir.configurations.python_settings import MADE_BY, constants_of, flattened, parsed
from distir.diagnostics.spelling import nearest
from distir.models.decoder import Decoder, Latent, Router
from distir.models.rotary import Rotary

IDLE: Final = (
    *("depth_init", "attn_*", "use_flex_attn", "eos_id", "max_batch_size", "max_seq_len", "norm_eps", "norm_type"),
    *("rope_*", "original_seq_len", "beta_*", "ntk_*", "mscale", "dtype", "stage_idx", "num_stages", "swiglu_limit"),
    *("moe_args.route_norm", "moe_args.score_before_experts", "moe_args.load_balance_coeff", "auto_scale_hidden_dim"),
    *("moe_args.use_grouped_mm", "expert_parallel_comm_backend", f"*{MADE_BY}"),
)
"""Fields that change next to nothing of a step, or that a job sets."""

SIZES: Final = {"dim": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": -1}
LLAMA: Final = {**SIZES, "qk_norm": False, "n_kv_heads": None, "multiple_of": 256, "ffn_dim_multiplier": None}
EXPERTS: Final = {
    "moe_args.num_experts": 8,
    "moe_args.num_shared_experts": 1,
    "moe_args.top_k": 1,
    "moe_args.route_scale": 1.0,
    "moe_args.score_func": "sigmoid",
    "moe_args.num_expert_groups": None,
    "moe_args.num_limited_groups": None,
    "moe_args.gate_bias": False,
}
LATENT: Final = {
    "q_lora_rank": 0,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


@dataclass(frozen=True, slots=True)
class Family:
    """A family of models: one of it, for what no flavor says, and its fields with their defaults."""

    example: Decoder
    fields: Mapping[str, Any]
    plain: Decoder | None = None
    """Another one without experts, where only some have them."""


def _published(name: str) -> Decoder:
    found = published_decoder(name)
    assert found is not None
    return found


FAMILIES: Final = {
    "llama4": Family(
        UNPUBLISHED["llama4", "17bx16e"][1],
        {
            **LLAMA,
            **EXPERTS,
            "interleave_moe_layer_step": 2,
            "every_n_layers_nope": None,
            "fixed_attn_block_size": 8192,
        },
    ),
    "llama3": Family(_published("llama3-8b"), LLAMA),
    "llama": Family(_published("llama2-7b"), LLAMA),
    "qwen3": Family(
        _published("qwen3-30b-a3b"),
        {
            **SIZES,
            **EXPERTS,
            "dim": 1024,
            "n_layers": 28,
            "n_heads": 16,
            "n_kv_heads": 8,
            "head_dim": 128,
            "hidden_dim": 3072,
            "qk_norm": True,
            "enable_weight_tying": False,
            "moe_enabled": False,
            "moe_inter_dim": 768,
        },
        _published("qwen3-8b"),
    ),
    "deepseek_v3": Family(
        DEEPSEEK_16B,
        {
            **SIZES,
            **EXPERTS,
            **LATENT,
            "dim": 2048,
            "n_layers": 27,
            "n_heads": 16,
            "inter_dim": 10944,
            "moe_inter_dim": 1408,
            "n_dense_layers": 1,
        },
    ),
    "gpt_oss": Family(
        _published("gpt-oss-20b"),
        {
            **SIZES,
            **EXPERTS,
            "dim": 2880,
            "n_layers": 24,
            "n_heads": 64,
            "n_kv_heads": 8,
            "head_dim": 64,
            "moe_inter_dim": 2880,
            "sliding_window_size": 128,
        },
    ),
}
"""By what names of models hold, the longest first."""


def of_file(text: str, path: str, name: str, flavor: str) -> tuple[Decoder, Options]:
    """The model of a flavor that a file defines, and what of it was read. Raises ConfigurationError."""
    tree = parsed(text, path)
    family = _family(name, path)
    defined = list(_defined(tree))
    own = [[one for one in defined if one.is_of(words)] for words in (name, family)]
    made = {one.flavor: one.made for one in next(filter(None, own), defined)}
    found = made.get(flavor, made.get(plain_flavor(flavor)))
    if found is None:
        near = nearest(flavor, made)
        hint = f"did you mean `{near}`?" if near else f"it defines {', '.join(list(made)[:20]) or 'none'}"
        raise ConfigurationError(f'{path}: no flavor `{flavor}`, as in `{{"{flavor}": ModelArgs(dim=…)}}`', hint)
    called = ast.unparse(found.func)
    if not called.rpartition(".")[2][:1].isupper():
        message = f"{path}:{found.lineno}: `{called}` makes the flavor `{flavor}`, and nothing is run"
        raise ConfigurationError(message, f'write it out: `{{"{flavor}": ModelArgs(dim=…)}}`')
    settings = {n: setting for n, setting in flattened(found, constants_of(tree)) if _is_said(setting)}
    fields = FAMILIES[family].fields
    for field, setting in settings.items():
        if "expert" in field and not (field in fields or any(fnmatchcase(field, idle) for idle in IDLE)):
            message = f"{path}:{setting.line}: `{field}`: experts of a model of `{family}` are not read"
            raise ConfigurationError(message, "name a model that is like it with `--model`")
    known = Known(f"the family `{family}`", "torchtitan's ModelArgs", fields, IDLE, IDLE)
    options = Options(path, settings, known)
    return _decoder(options, FAMILIES[family]), options


def _is_said(setting: Setting) -> bool:
    return setting.value is not None and setting.value != -1


@dataclass(frozen=True, slots=True)
class _Defined:
    """A flavor, the call that makes it, and the name of the table that it is in: `llama3_configs`."""

    table: str
    flavor: str
    made: ast.Call

    def is_of(self, name: str) -> bool:
        """Whether the table is named after a model."""
        return self.table.replace("_", "").startswith(name.lower().replace("_", ""))


def _defined(tree: ast.Module) -> Iterator[_Defined]:
    """What the tables of a file hold, as they are written, or set later: `table["8B"] = …`."""
    pairs: list[tuple[str, ast.expr | None, ast.expr | None]] = []
    tables: dict[int, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                tables[id(node.value)] = ast.unparse(target)
                if isinstance(target, ast.Subscript):
                    pairs.append((ast.unparse(target.value), target.slice, node.value))
    held = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    inside = [
        (tables.get(id(table), ""), *pair) for table in held for pair in zip(table.keys, table.values, strict=True)
    ]
    for table, key, value in [*inside, *pairs]:
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and isinstance(value, ast.Call):
            yield _Defined(table, key.value, value)


def _family(name: str, path: str) -> str:
    """The family of a model by its name, as `bit_byte_llama3` is one of `llama3`. Raises ConfigurationError."""
    plain = name.lower().replace("llama2", "llama")
    found = next((family for family in FAMILIES if re.search(rf"{family}(?!_?(?:\d|next|vl))", plain)), None)
    if found is None:
        raise ConfigurationError(
            f"{path}: `{name}` is no model of a family whose sizes are read: {', '.join(FAMILIES)}",
            "name a model that is like it with `--model`",
        )
    return found


def _decoder(options: Options, family: Family) -> Decoder:
    """A model of the family, of the sizes that options say. Raises ConfigurationError."""
    experts = "moe_args.num_experts" in family.fields and options.get("moe_enabled") is not False
    routed = _routed(options) if experts else {}
    dense, each = _widths(options, routed)
    theta = options.number("rope_theta")
    example = family.example if experts or family.plain is None else family.plain
    changed: dict[str, Any] = {
        "layers": options.whole("n_layers"),
        "width": options.whole("dim"),
        "heads": options.whole("n_heads"),
        "ffn": dense,
        "vocabulary": options.optional("vocab_size") if "vocab_size" in options else None,
        "kv_heads": options.optional("n_kv_heads"),
        "head_size": options.optional("head_dim"),
        "dense_layers": options.optional("n_dense_layers", 0),
        "experts_every": options.optional("interleave_moe_layer_step"),
        "unrotated_every": options.optional("every_n_layers_nope"),
        "window": options.optional("sliding_window_size"),
        "head_norm": options.get("qk_norm"),
        "tied": options.get("enable_weight_tying"),
        "latent": _latent(options) if "kv_lora_rank" in family.fields else None,
        "position": replace(example.position, theta=theta) if theta and isinstance(example.position, Rotary) else None,
        **routed,
        "expert_ffn": each if experts else None,
    }
    optional = ("kv_heads", "unrotated_every", "shared_experts")
    return replace(example, **{n: v for n, v in changed.items() if v is not None or n in optional})


def _routed(options: Options) -> dict[str, Any]:
    """How many experts there are, and how they are chosen. Raises ConfigurationError."""
    groups, best = (options.optional(f"moe_args.{name}") for name in ("num_expert_groups", "num_limited_groups"))
    score = options.word("moe_args.score_func", ("softmax", "sigmoid"))
    router = Router(
        score="sigmoid" if score == "sigmoid" else "softmax",
        scale=options.number("moe_args.route_scale") or 1.0,
        groups=groups or 1,
        best_groups=best or 1,
        bias=options.flag("moe_args.gate_bias"),
    )
    return {
        "experts": options.whole("moe_args.num_experts"),
        "top_k": options.whole("moe_args.top_k"),
        "shared_experts": options.optional("moe_args.num_shared_experts", 0) or None,
        "router": router,
    }


def _widths(options: Options, routed: Mapping[str, Any]) -> tuple[int, int | None]:
    """The widths of an MLP and of an expert, as stated or as those of Llama follow. Raises ConfigurationError."""
    fields = options.known.defaults
    if "multiple_of" not in fields:
        each = options.optional("moe_inter_dim")
        stated = next((name for name in ("hidden_dim", "inter_dim") if name in fields), None)
        return (options.whole(stated) if stated else each or 1), each
    multiple = options.whole("multiple_of")
    inner = int(8 * options.whole("dim") / 3)
    if factor := options.number("ffn_dim_multiplier"):
        inner = int(factor * inner)
    shared = int(inner / (routed.get("top_k", 1) + (routed.get("shared_experts") or 0)))
    return _rounded_up(inner, multiple), _rounded_up(shared, multiple)


def _rounded_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _latent(options: Options) -> Latent:
    return Latent(
        q_rank=options.whole("q_lora_rank", 0),
        kv_rank=options.whole("kv_lora_rank"),
        plain=options.whole("qk_nope_head_dim"),
        rotated=options.whole("qk_rope_head_dim"),
        values=options.whole("v_head_dim"),
    )
