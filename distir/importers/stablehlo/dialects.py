"""Which language a text is in that is no StableHLO: HLO, or dialects of MLIR that it is lowered to, or comes from."""

from __future__ import annotations

import re
from collections import Counter

READ = frozenset(("stablehlo", "chlo", "mhlo", "sdy"))
"""Dialects whose operations have rules."""

AROUND = frozenset(("func", "builtin", "module", "arith", "ml_program", "util"))
"""Dialects whose operations are found with those of any other."""

WHENCE = {
    "ttir": "Tenstorrent's compiler", "ttnn": "Tenstorrent's compiler", "ttcore": "Tenstorrent's compiler",
    "tosa": "TFLite or torch-mlir", "torch": "torch-mlir", "tf": "TensorFlow", "tfl": "TFLite",
    "vhlo": "StableHLO's portable artifacts", "linalg": "a later stage of compilers",
    "flow": "IREE", "stream": "IREE", "hal": "IREE", "onnx": "ONNX-MLIR", "triton": "Triton", "tt": "Triton",
}  # fmt: skip
"""What writes a dialect."""

EXPORT = "export it before it is lowered, as `jax.jit(f).lower(...).as_text()` or torch-xla's `get_stablehlo_text()`"

_OPERATION = re.compile(r'^\s*(?:%[^=\n]*=\s*)?"?([A-Za-z_]\w*)\.[A-Za-z_][\w.]*"?(?=[\s(<])', re.M)


def other_than_stablehlo(text: str) -> tuple[str, str] | None:
    """What a text is instead, and what to do; None where operations of StableHLO are in it, or none of any dialect."""
    if text.lstrip().startswith("HloModule"):
        return "HLO", "convert it: `hlo-translate --hlo-to-stablehlo`"
    found = Counter(_OPERATION.findall(text))
    if any(dialect in READ for dialect in found):
        return None
    others = [dialect for dialect, _ in found.most_common() if dialect not in AROUND]
    if not others:
        return None
    listed = ", ".join(f"`{dialect}`" for dialect in others[:3])
    writer = next((WHENCE[dialect] for dialect in others if dialect in WHENCE), None)
    return f"of the dialect{'s' * (len(others) > 1)} {listed}" + (f" of {writer}" if writer else ""), EXPORT
