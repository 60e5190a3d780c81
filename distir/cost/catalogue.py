"""Profiles by name and by path, each read once for as long as its files do not change. Knows no schema.

The profiles that come with DistIR are the files in `profiles/`; adding one is adding a file. A plugin
(`distir.ir.registry`) adds its own by `add_profiles`. Where there is a profile of two nodes, `2x-NAME`, there is one of
more: `8x-NAME` is made of it, with as many nodes on its outermost level.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from distir.cost.document import File, parse_file, read_file
from distir.cost.errors import HardwareError, Problem
from distir.cost.hardware import Hardware
from distir.cost.host import FRAMEWORKS
from distir.cost.reader import read
from distir.diagnostics.spelling import nearest
from distir.ir.registry import Registry

DEFAULT = "dgx-a100"
"""The hardware that is meant where none is named."""

_FOLDER = Path(__file__).parent / "profiles"
_Stamp = tuple[int, int] | None
_Stamps = tuple[tuple[Path, _Stamp], ...]
_loaded: dict[Path, tuple[_Stamps, Hardware]] = {}
_NODES = re.compile(r"([1-9]\d{0,5})x-(.+)")
_grown: dict[str, tuple[Hardware, Hardware]] = {}
"""By name, machines of more than two nodes: the one of two that each was made of, and it."""


_FRAMEWORK = re.compile(r"(.+)@([^@/\\.]*)", re.DOTALL)
_hosted: dict[str, tuple[Hardware, Hardware]] = {}
"""By name, machines under a framework: the one without, and it."""
_added: Registry[Path] = Registry()


def profiles() -> list[str]:
    """The names of the profiles that come with DistIR and with plugins, sorted."""
    return sorted({*_ours(), *_added})


def add_profiles(folder: str | os.PathLike[str]) -> None:
    """Make each `NAME.toml` in a folder a profile that is known by its name; a plugin calls this for its own.

    Raises ValueError for a name that there is.
    """
    for path in sorted(Path(folder).absolute().glob("*.toml")):
        if path.stem in _ours():
            raise ValueError(f"`{path}`: there is already a profile `{path.stem}`; choose another name")
        _added.register(path.stem, path, "")


def _ours() -> set[str]:
    return {path.stem for path in _FOLDER.glob("*.toml")}


def load(name_or_path: str | os.PathLike[str] | Hardware = DEFAULT) -> Hardware:
    """The hardware of this name, or in this file: what ends in `.toml` or holds a `/` is a path; `8x-NAME` are 8 nodes.

    `NAME@eager` (`@compiled`, `@graphs`): the same with what the profile says that issuing ops takes there.

    Hardware itself is returned as it is.

    The same object is given again until a file that it was read from changes. Raises HardwareError for an unknown
    name, and for a file that cannot be read or is faulty.
    """
    if isinstance(name_or_path, Hardware):
        return name_or_path
    name = os.fspath(name_or_path)
    if match := _FRAMEWORK.fullmatch(name):
        return _under(*match.groups())
    grown = _of_nodes(name)
    if grown is not None:
        return grown
    path = _find(name, Path())
    if path in _loaded:
        stamps, hardware = _loaded[path]
        if all(_stamp(file) == stamp for file, stamp in stamps):
            return hardware
    stamps, files = _chain(path)
    hardware = read(path.stem, files)
    _loaded[path] = stamps, hardware
    return hardware


def parse(text: str, name: str = "hardware") -> Hardware:
    """The hardware that a profile's text describes; a path in `extends` counts from the working directory.

    Raises HardwareError.
    """
    file = parse_file(text, f"<{name}>")
    extended = _extended(file, Path())
    return read(name, [file] if extended is None else [file, *_chain(extended)[1]])


def node_of(hardware: Hardware) -> tuple[str, int] | None:
    """What a machine's nodes are called, and how many devices each has, where machines of any number are known."""
    match = _NODES.fullmatch(hardware.name)
    name = match[2] if match else hardware.name
    if f"2x-{name}" not in profiles():
        return None
    two = load(f"2x-{name}")
    return name, two.devices // 2


def _of_nodes(name: str) -> Hardware | None:
    """The machine of more than two nodes that a name such as `8x-dgx-a100` means. Raises HardwareError."""
    match = _NODES.fullmatch(name)
    if match is None or int(match[1]) < 3 or name in profiles() or f"2x-{match[2]}" not in profiles():
        return None
    two = load(f"2x-{match[2]}")
    if name not in _grown or _grown[name][0] is not two:
        lines = [f'extends = "2x-{match[2]}"', f'title = "{match[1]} nodes, each as in 2x-{match[2]}"']
        count = int(match[1]) * len(two.kinds) // 2
        lines += ["[[groups]]", f'kind = "{two.kinds[0].name}"', f"count = {count}"]
        lines += [f"[levels.{two.levels[-1].name}]", f"devices = {count}"]
        _grown[name] = two, parse("\n".join(lines) + "\n", name)
    return _grown[name][1]


def _under(name: str, framework: str) -> Hardware:
    """A machine under a framework, such as `dgx-a100@eager`. Raises HardwareError."""
    known = f"known: {', '.join(f'`{name}@{other}`' for other in FRAMEWORKS)}"
    if framework not in FRAMEWORKS:
        likely = nearest(framework, FRAMEWORKS)
        hint = f"did you mean `{name}@{likely}`?" if likely else known
        raise HardwareError([Problem(f"unknown framework `{framework}` in `{name}@{framework}`", help=hint)])
    machine, key = load(name), f"{name}@{framework}"
    if key not in _hosted or _hosted[key][0] is not machine:
        found = machine.under(framework)
        if found is None:
            message = f"`{machine.name}` does not say how long `{framework}` takes to issue an op"
            hint = f'in a profile that extends it, state `issue = {{ {framework} = "20us" }}` for its kinds of device'
            raise HardwareError([Problem(message, help=hint)])
        _hosted[key] = machine, found
    return _hosted[key][1]


def _chain(path: Path) -> tuple[_Stamps, list[File]]:
    """A file and those that it extends, the stamps taken before reading, so that no later change goes unnoticed."""
    stamps: dict[Path, _Stamp] = {}
    files: list[File] = []
    following: Path | None = path
    while following is not None:
        if following in stamps:
            circle = " → ".join(part.name for part in (*stamps, following))
            raise HardwareError([_at_extends(files[-1], Problem(f"`extends` goes in a circle: {circle}"))])
        stamps[following] = _stamp(following)
        files.append(read_file(following))
        following = _extended(files[-1], following.parent)
    return tuple(stamps.items()), files


def _stamp(path: Path) -> _Stamp:
    """What changes when a file does; None where there is no file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def _extended(file: File, folder: Path) -> Path | None:
    """The file that this one extends. Raises HardwareError for an unknown name or a value that is not a text."""
    name = file.table.get("extends")
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip():
        raise HardwareError([_at_extends(file, Problem("`extends`: expected the name or the path of a profile"))])
    try:
        return _find(name, folder)
    except HardwareError as error:
        raise HardwareError([_at_extends(file, problem) for problem in error.problems]) from None


def _at_extends(file: File, problem: Problem) -> Problem:
    return Problem(problem.message, file.path, file.lines.get(("extends",)), problem.help)


def _find(name: str, folder: Path) -> Path:
    """Where a profile is; a path counts from `folder`. Raises HardwareError for an unknown name."""
    if name.endswith(".toml") or "/" in name or os.sep in name:
        return (folder / Path(name).expanduser()).absolute()
    if name in _ours():
        return _FOLDER / f"{name}.toml"
    if name in _added:
        return _added[name]
    names = profiles()
    likely = nearest(name, names)
    known = f"known: {', '.join(names)}; or give the path of a `.toml` file"
    raise HardwareError(
        [Problem(f"unknown hardware `{name}`", help=f"did you mean `{likely}`? {known}" if likely else known)]
    )
