"""Writes what is fitted to measured runs as a hardware profile: of a node, extending the one of the runs' GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from distir import cost
from distir.cost import Hardware
from distir.validate.fitting import Fitted, RunsFit
from distir.validate.machines import GPUS
from distir.validate.runs import MeasuredRun

SOURCE: Final = "runs"
"""The key of the source that fitted figures cite."""


def as_profile(found: RunsFit, runs: Sequence[MeasuredRun], path: str, date: str) -> str:
    """The profile's text: with the figures that the runs determine, each with its interval.

    The bandwidth between nodes is among them if some of the runs are on several. `path`: the file of the runs. Raises
    HardwareError.
    """
    used = [run for run in runs if run.id in found.used]
    hardware = used[0].hardware or used[0].gpu
    name = GPUS.get(hardware, hardware)
    node = cost.load(name)
    crossed = cost.load(name, 2) if any(run.gpus > len(node.kinds) for run in used) else node
    extended = str(Path(name).expanduser().absolute()) if name.endswith(".toml") or "/" in name else name
    error = f"mean error {100 * found.error_before:.1f} % before, {100 * found.error_after:.1f} % after"
    lines = [
        f"title = {_text(f'{node.title}, with figures fitted to measured runs')}",
        f"extends = {_text(extended)}",
        "",
        "[sources]",
        f"{SOURCE} = {_text(f'distir calibrate --runs {path}, {date}: {len(found.used)} measured steps, {error}')}",
    ]
    for each in found.figures:
        if each.determined:
            lines += _links(each, crossed) if each.name == "links" else _of_devices(each, node)
    return "\n".join(lines) + "\n"


def _links(each: Fitted, machine: Hardware) -> list[str]:
    stated = {level.name.removesuffix(" beyond leaves"): level.reached for level in machine.levels}
    lines: list[str] = []
    for name, reached in stated.items():
        lines += ["", f"[levels.{_key(name)}]", f"# {_interval(each)}", f"reached = {reached * each.value:.4g}"]
    return lines


def _of_devices(each: Fitted, node: Hardware) -> list[str]:
    cited = [f'source = "{SOURCE}"', 'basis = "derived"', f"note = {_text(_interval(each))}"]
    lines: list[str] = []
    for kind in node.kinds.distinct:
        at = f"kinds.{_key(kind.name)}"
        if each.name == "issue":
            stated = f'value = "{each.value:.4g}{each.unit}", {", ".join(cited)}'
            lines += ["", f"[{at}]", f"issue = {{ {stated} }}"]
        else:
            clock = [] if kind.sustained_clock == 1 else [f"clock = {kind.sustained_clock:g}"]
            rate = f"products = {kind.sustained_products * each.value:.4g}"
            lines += ["", f"[{at}.sustained]", *clock, rate, *cited]
    return lines


def _interval(each: Fitted) -> str:
    return f"{each.name}: {each.value:.3g}{each.unit}, in 95 % from {each.low:.3g} to {each.high:.3g}"


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _text(name)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
