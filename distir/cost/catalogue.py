"""Profiles by name and by path, each read once for as long as its files do not change. Knows no schema.

The profiles that come with DistIR are the files in `profiles/`; adding one is adding a file. A plugin
(`distir.ir.registry`) adds its own by `add_profiles`. What describes a node describes several, too: `dgx-h100x128` is
128 of `dgx-h100`, over the network that the profile states.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from distir.cost.document import File, parse_file, read_file
from distir.cost.errors import HardwareError, Problem
from distir.cost.hardware import Hardware
from distir.cost.host import FRAMEWORKS
from distir.cost.reader import document, read
from distir.cost.units import parse_bytes
from distir.diagnostics.spelling import nearest
from distir.files import limits
from distir.files.reading import PROFILE, read_bytes
from distir.ir.registry import Registry

DEFAULT = "dgx-a100"
"""The hardware that is meant where none is named."""

ALIASES = {"a100-80": "dgx-a100", "h100": "dgx-h100"}
"""Further names of profiles, as for nodes of the same GPUs that are no DGX. They are not listed."""

_FOLDER = Path(__file__).parent / "profiles"
_Stamp = tuple[int, int] | None
_Stamps = tuple[tuple[Path, _Stamp], ...]
_loaded: dict[tuple[Path, int], tuple[_Stamps, Hardware]] = {}
_MANY = re.compile(r"(?P<name>.+?)x(?P<nodes>\d+)", re.DOTALL)
_MANY_BEFORE = re.compile(r"(?P<nodes>\d+)x-(?P<name>.+)", re.DOTALL)


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
        if path.stem in _ours() or path.stem in ALIASES:
            raise ValueError(f"`{path}`: there is already a profile `{path.stem}`; choose another name")
        _added.register(path.stem, path, "")


def gpus() -> Mapping[str, str]:
    """By what tables of training runs call a GPU: the profile of a node of it, of those that state one (`gpu`)."""
    return _gpus(tuple(_added.items()))


@lru_cache(maxsize=8)
def _gpus(added: tuple[tuple[str, Path], ...]) -> Mapping[str, str]:
    named = [*((path.stem, path) for path in sorted(_FOLDER.glob("*.toml"))), *added]
    others = {name: other for other, name in ALIASES.items()}
    found: dict[str, str] = {}
    for name, path in named:
        head, _, _ = read_bytes(path, PROFILE).decode("utf-8-sig", "replace").partition("\n[")
        try:
            gpu = tomllib.loads(head).get("gpu")  # what a file says of itself stands before its first table
        except tomllib.TOMLDecodeError:
            continue  # `load` reports what is wrong
        if isinstance(gpu, str) and found.setdefault(gpu, others.get(name, name)) != others.get(name, name):
            raise HardwareError([Problem(f"`{found[gpu]}` and `{name}` both say that they are of `{gpu}`")])
    return found


def _ours() -> set[str]:
    return {path.stem for path in _FOLDER.glob("*.toml")}


def load(name_or_path: str | os.PathLike[str] | Hardware = DEFAULT, nodes: int | None = None) -> Hardware:
    """The hardware of this name, or in this file: what ends in `.toml` or holds a `/` is a path.

    `nodes`: so many of it, over the network that the profile states; `dgx-h100x128`, or `node.tomlx128`, says the same.
    `128x-dgx-h100` is an older form. `NAME@eager` (`@compiled`, `@graphs`): the same with what the profile says that
    issuing ops takes there. Hardware itself is returned as it is.

    The same object is given again until a file that it was read from changes. Raises HardwareError for an unknown
    name, a file that cannot be read or is faulty, a number of nodes that is none, and a profile without a network.
    """
    if isinstance(name_or_path, Hardware):
        if nodes is not None:
            raise HardwareError([_said_already(name_or_path.name, nodes)])
        return name_or_path
    said = os.fspath(name_or_path)
    if match := _FRAMEWORK.fullmatch(said):
        return _under(match[1], match[2], nodes)
    name, many = _several(said)
    if nodes is not None and many is not None:
        raise HardwareError([_said_already(said, nodes)])
    many = 1 if many is None and nodes is None else _checked(many if nodes is None else nodes)
    path = _find(name, Path())
    if many > 1 and (match := _MANY_BEFORE.fullmatch(name)):
        message = f"`{name}` is {match['nodes']} nodes already, and cannot be {many} times as many"
        raise HardwareError([Problem(message, help=f"say how many of `{match['name']}`: `{match['name']}x{many}`")])
    if (path, many) in _loaded:
        stamps, hardware = _loaded[path, many]
        if all(_stamp(file) == stamp for file, stamp in stamps):
            return hardware
    stamps, files, inherited = _chain(path)
    hardware = _read(path.stem, files, many, inherited)
    _loaded[path, many] = stamps, hardware
    return hardware


def parse(text: str, name: str = "hardware", nodes: int = 1) -> Hardware:
    """The hardware that a profile's text describes; a path in `extends` counts from the working directory.

    Raises HardwareError.
    """
    file = parse_file(text, f"<{name}>")
    extended = _extended(file, Path())
    if extended is None:
        return _read(name, [file], _checked(nodes), 1)
    _, files, inherited = _chain(extended[0])
    return _read(name, [file, *files], _checked(nodes), max(extended[1], inherited))


def tables_of(name: str) -> Mapping[str, Any]:
    """The tables of a machine's profile, merged with those that it extends. Raises HardwareError."""
    _, files, _ = _chain(_find(_several(name)[0], Path()))
    return document(files).root.table


@lru_cache(maxsize=64)
def most_memory(name: str) -> int | None:
    """The most bytes that a profile, or one that it extends, states of a device; None where that is not plain to see.

    To `load` many machines only to find one that is large enough would take ten times as long.
    """
    most = 0
    path: Path | None = _find(name, Path())
    try:
        while path is not None:
            table = tomllib.loads(read_bytes(path, PROFILE).decode("utf-8-sig"))
            for kind in table.get("kinds", {}).values():
                stated = kind.get("memory", "0B")
                most = max(most, parse_bytes(stated if isinstance(stated, str) else stated["value"]))
            extended = _extended(File(str(path), table, {}), path.parent)
            path = None if extended is None else extended[0]
    except (HardwareError, OSError, ValueError, AttributeError, TypeError, KeyError):
        return None  # `load` reports what is wrong
    return most


def with_nodes(name: str, nodes: int | None) -> str:
    """The name, or path, of several nodes of this hardware. Raises HardwareError if the name has a number already."""
    if nodes is None:
        return name
    match = _FRAMEWORK.fullmatch(name)
    machine, under = (match[1], f"@{match[2]}") if match else (name, "")
    if _several(machine)[1] is not None:
        raise HardwareError([_said_already(name, nodes)])
    return f"{machine}x{_checked(nodes)}{under}"


def node_of(hardware: Hardware) -> tuple[str, int] | None:
    """The name of a machine's nodes and the devices of each, if machines of any number of nodes exist."""
    match = _FRAMEWORK.fullmatch(hardware.name)
    name = _several(match[1] if match else hardware.name)[0]
    before = _MANY_BEFORE.fullmatch(name)
    name = before["name"] if before else name
    if name not in profiles():
        return None
    node = load(name)
    return (name, len(node.kinds)) if node.network is not None else None


def _several(name: str) -> tuple[str, int | None]:
    """The name of one node, and the number of nodes; None if the name states none."""
    known = {*profiles(), *ALIASES}
    if name in known:
        return name, None
    for match in (_MANY_BEFORE.fullmatch(name), _MANY.fullmatch(name)):
        if match is not None and (match["name"].endswith(".toml") or match["name"] in known):
            return match["name"], int(match["nodes"][:12])
    return name, None


def _under(name: str, framework: str, nodes: int | None) -> Hardware:
    """A machine under a framework, such as `dgx-a100@eager`. Raises HardwareError."""
    if framework not in FRAMEWORKS:
        likely = nearest(framework, FRAMEWORKS)
        known = f"known: {', '.join(f'`{name}@{other}`' for other in FRAMEWORKS)}"
        hint = f"did you mean `{name}@{likely}`?" if likely else known
        raise HardwareError([Problem(f"unknown framework `{framework}` in `{name}@{framework}`", help=hint)])
    machine = load(name, nodes)
    key = f"{machine.name}@{framework}"
    if key not in _hosted or _hosted[key][0] is not machine:
        found = machine.under(framework)
        if found is None:
            message = f"`{machine.name}` does not say how long `{framework}` takes to issue an op"
            hint = f'in a profile that extends it, state `issue = {{ {framework} = "20us" }}` for its kinds of device'
            raise HardwareError([Problem(message, help=hint)])
        _hosted[key] = machine, found
    return _hosted[key][1]


def _checked(nodes: int | None) -> int:
    if nodes is None or not 1 <= nodes <= limits.NODES:
        message = f"expected a number of nodes from 1 to {limits.NODES}, found {nodes}"
        raise HardwareError([Problem(message, help="as in `dgx-h100x128`, or `--hardware dgx-h100 --nodes 128`")])
    return nodes


def _said_already(name: str, nodes: int) -> Problem:
    return Problem(
        f"`{name}` says how many nodes there are, and so does the number of nodes {nodes}", help="say it once"
    )


def _read(name: str, files: Sequence[File], nodes: int, inherited: int) -> Hardware:
    """`inherited`: the nodes that a file says it extends."""
    if nodes > 1 and inherited > 1:
        problem = Problem(f"expected one node, to have {nodes}: this profile extends {inherited} nodes")
        raise HardwareError([_at_extends(files[0], problem)])
    return read(name if nodes == 1 else f"{name}x{nodes}", files, max(nodes, inherited))


def _chain(path: Path) -> tuple[_Stamps, list[File], int]:
    """A file and those that it extends, and how many nodes of one.

    The stamps are taken before reading, so that no later change goes unnoticed.
    """
    nodes = 1
    stamps: dict[Path, _Stamp] = {}
    files: list[File] = []
    following: Path | None = path
    while following is not None:
        if following in stamps:
            circle = " → ".join(part.name for part in (*stamps, following))
            raise HardwareError([_at_extends(files[-1], Problem(f"`extends` goes in a circle: {circle}"))])
        stamps[following] = _stamp(following)
        files.append(read_file(following))
        extended = _extended(files[-1], following.parent)
        following = None if extended is None else extended[0]
        if extended is not None and extended[1] > 1:
            if nodes > 1:
                raise HardwareError([_at_extends(files[-1], Problem("nodes of several nodes are not supported"))])
            nodes = extended[1]
    return tuple(stamps.items()), files, nodes


def _stamp(path: Path) -> _Stamp:
    """A stamp that changes when a file does; None if there is no file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def _extended(file: File, folder: Path) -> tuple[Path, int] | None:
    """The file that this one extends, and how many nodes of it.

    Raises HardwareError for an unknown name or a value that is not a text.
    """
    name = file.table.get("extends")
    if name is None:
        return None
    if not isinstance(name, str) or not name.strip():
        raise HardwareError([_at_extends(file, Problem("`extends`: expected the name or the path of a profile"))])
    try:
        node, nodes = _several(name)
        return _find(node, folder), 1 if nodes is None else _checked(nodes)
    except HardwareError as error:
        raise HardwareError([_at_extends(file, problem) for problem in error.problems]) from None


def _at_extends(file: File, problem: Problem) -> Problem:
    return file.problem(("extends",), problem.message, problem.help)


def _find(name: str, folder: Path) -> Path:
    """The location of a profile; paths are relative to `folder`. Raises HardwareError for an unknown name."""
    if name.endswith(".toml") or "/" in name or os.sep in name:
        return (folder / Path(name).expanduser()).absolute()
    name = ALIASES.get(name, name)
    if name in _ours():
        return _FOLDER / f"{name}.toml"
    if name in _added:
        return _added[name]
    names = profiles()
    likely = nearest(name, names)
    known = f"known: {', '.join(names)}; or give the path of a `.toml` file"
    meant = f"did you mean `{likely}`? " if likely else ""
    raise HardwareError([Problem(f"unknown hardware `{name}`", help=f"{meant}{known}{_differing(name, likely)}")])


def _differing(name: str, likely: str | None) -> str:
    """How to make this machine out of a known one in two lines; nothing where none has a name like it, or links."""
    known, chip = (*ALIASES, *profiles()), name.split("-")[0]
    near = chip if chip in known else likely or nearest(chip, known)
    try:
        level = None if near is None else next(iter(tables_of(near).get("levels", ())), None)
    except HardwareError:
        return ""  # a plugin's, which is faulty
    if level is None:
        return ""
    lines = f'`extends = "{near}"` and `levels.{level}.reached = 0.5`'
    return f", which may say by how much another machine is slower or faster, as in {lines}"
