"""The house as ARCHITECTURE.md draws it: which room may import what, what is loaded when."""

import ast
import builtins
import functools
import importlib
import importlib.util
import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
MODULES = sorted([*(ROOT / "distir").rglob("*.py"), *(ROOT / "lsp").rglob("*.py")])

FLOORS = [
    {"ir", "diagnostics", "files"},
    {"syntax", "ops", "placement", "config"},
    {"analysis", "cost"},
    {"simulate", "prove"},
    {"transform", "lower"},
    {"ide", "search", "importers", "models"},
    {"validate", "configurations", "traces"},
    {"cli", "lsp"},
]
"""From the ground up. A room imports rooms of lower floors only."""

NEIGHBOURS = {
    ("diagnostics", "ir"),
    ("files", "ir"),
    ("files", "diagnostics"),
    ("ops", "syntax"),
    ("placement", "ops"),
    ("configurations", "validate"),
}
"""The rooms of one floor of which the first may import the second."""

ROOF = {"distir", "distir.api"}
"""The Python API stands on everything but the command line; only the command line may import it."""

ONLY_IN = {
    "torch": {"lower", "importers", "cost"},  # cost: calibration
    "onnx": {"importers", "ops"},  # ops: the bridge
    "transformers": {"importers"},
    "lark": {"syntax"},
    "pygls": {"lsp"},
    "lsprotocol": {"lsp"},
    "typer": {"cli"},
    "click": {"cli"},
    "matplotlib": {"search", "simulate", "validate"},
    "pandas": {"simulate"},  # for notebooks; rooms above ask there
    "mcp": {"cli"},
    "plotly": {"search"},
    "ijson": {"traces"},
    "joblib": {"search", "validate"},
    "safetensors": {"cli", "importers", "lower", "analysis"},
}
"""Which rooms may import a package at all."""

NEWCOMERS_CORE = ["ir/core", "ops/core", "ops/signature", "analysis/interpreter", "analysis/domains"]
"""What someone new reads first."""


def module_name(path):
    """`distir.ops.core` for `distir/ops/core.py`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module):
    parts = module.split(".")
    return "lsp" if parts[0] != "distir" else parts[1] if len(parts) > 1 else ""


class Source(NamedTuple):
    """What the laws want to know of a file, so that it is parsed once."""

    documented: bool
    imports: list[tuple[str, bool]]
    """The modules that it imports anywhere, and whether it does so at import time."""
    classes: list[str]


@functools.cache
def source(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    return Source(bool(ast.get_docstring(tree)), [*imports_in(tree, path)], classes)


def imports(path):
    return source(path).imports


def imports_in(node, path, at_import_time=True):
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.Import):
            yield from ((alias.name, at_import_time) for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom):
            assert inner.level == 0, f"{path}: relative import"
            for alias in inner.names:  # `from distir import syntax` imports the room, not the roof
                name = f"{inner.module}.{alias.name}"
                yield name if is_module(name) else inner.module, at_import_time
        elif not isinstance(inner, ast.expr):
            yield from imports_in(inner, path, at_import_time and not is_late(inner))


def is_late(node):
    """Whether what stands in a statement is not executed when the module is imported: in functions, and for types."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.unparse(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


@functools.cache
def is_module(name):
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def floor(room):
    return next(i for i, rooms in enumerate(FLOORS) if room in rooms)


def test_every_room_is_on_a_floor():
    rooms = {path.name for path in (ROOT / "distir").iterdir() if (path / "__init__.py").exists()}
    assert rooms <= set().union(*FLOORS)


def goes_down(module, name):
    own, other = room_of(module), room_of(name)
    if module in ROOF:
        return other not in ("cli", "lsp")
    if name in ROOF:
        return floor(own) == len(FLOORS) - 1
    return own == other or floor(other) < floor(own) or (own, other) in NEIGHBOURS


def test_imports_go_down_only():
    found = [(module_name(path), name) for path in MODULES for name, _ in imports(path)]
    ours = [(module, name) for module, name in found if name.split(".")[0] == "distir"]
    upward = [f"{module} imports {name}, which is not below it" for module, name in ours if not goes_down(module, name)]
    assert not upward


def circles(graph):
    """The groups of modules each of which leads to all others of its group."""

    def reached(start):
        found, left = set(), [start]
        while left:
            new = graph[left.pop()] - found
            found |= new
            left += new
        return found

    leads_to = {module: reached(module) for module in graph}
    groups = {frozenset(m for m in found if module in leads_to[m]) for module, found in leads_to.items()}
    return sorted((set(group) for group in groups if group), key=min)


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a", "e"}}
    assert circles(graph) == [{"a", "b", "c"}, {"d", "e"}]


def test_no_modules_import_each_other_round_about():
    """Imports inside functions and for types count too: two files in a circle can only be understood together."""
    graph = {module_name(path): {name for name, _ in imports(path)} - {module_name(path)} for path in MODULES}
    assert not circles({module: names & graph.keys() for module, names in graph.items()})


LATE = {"numpy", "ml_dtypes", "rich", "torch", "onnx", "safetensors", "matplotlib", "pandas", "mcp"}
"""Packages that functions import, when they need them."""


def test_packages_are_imported_where_they_belong():
    misplaced, early = [], []
    for path in MODULES:
        module = module_name(path)
        for name, at_import_time in imports(path):
            package = name.split(".")[0]
            if package in ONLY_IN and room_of(module) not in ONLY_IN[package]:
                misplaced.append(f"{name} does not belong in {module}")
            if package in LATE and at_import_time:
                early.append(f"{module} imports {name} before it is needed")
    assert not misplaced
    assert not early


def loaded_after(script):
    code = f"import sys\n{script}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"numpy", "ml_dtypes", "torch", "onnx", "rich", "typer", "click", "pygls", "lsprotocol", "safetensors"}


def test_importing_the_api_loads_nothing_heavy():
    assert not HEAVY & loaded_after("import distir")


@pytest.mark.parametrize("example", ["examples/mlp_pipeline", "tests/paper/fig2_mlp_pipeline", "examples/mlp_zero"])
def test_checking_a_program_loads_nothing_heavy(example):
    script = f"import distir\nassert not distir.check_text(open('{example}.dir').read())"
    assert not HEAVY & loaded_after(script)


def test_simulating_a_program_loads_nothing_heavy():
    script = "import distir\ndistir.simulate(distir.parse(open('examples/mlp_zero.dir').read())).latency_s"
    assert not HEAVY & loaded_after(script)


def test_a_file_says_what_it_is():
    """In a docstring at its beginning; and nothing in it is left to do."""
    texts = {module_name(path): path.read_text() for path in MODULES}
    assert not [module_name(path) for path in MODULES if not source(path).documented]
    assert not [module for module, text in texts.items() if re.search(r"\b(TODO|FIXME|XXX)\b", text)]


def code_lines(text):
    """The lines that hold code: not blank, no comment, not part of a docstring or of a note on a field."""
    tree = ast.parse(text)
    notes = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            notes.update(range(node.lineno, node.end_lineno + 1))
    held = set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - notes)


WORDY = '''"""A module."""

x = 1  # one
"""What x is."""

# a comment
def f():
    """A law.

    More.
    """
    return (
        x
    )
'''


def test_the_count_of_code_leaves_out_words():
    assert code_lines(WORDY) == 5


def test_what_a_newcomer_must_read_is_short():
    lines = {name: code_lines((ROOT / "distir" / f"{name}.py").read_text()) for name in NEWCOMERS_CORE}
    assert sum(lines.values()) < 500, lines


def test_algorithm_1_is_as_short_as_in_the_paper():
    source = (ROOT / "distir/analysis/interpreter.py").read_text()
    function = next(n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef) and n.name == "algorithm_1")
    assert code_lines(ast.unparse(function)) <= 16


def test_names_offered_late_are_no_modules():
    """Importing a module of that name would put it in the place of what is offered."""
    for init in ROOT.glob("distir/**/__init__.py"):
        if "late_names(" in init.read_text():
            package = importlib.import_module(".".join(init.parent.relative_to(ROOT).parts))
            modules = {path.stem for path in init.parent.glob("*.py")}
            modules |= {path.parent.name for path in init.parent.glob("*/__init__.py")}
            assert not modules & set(package.__all__) or package.__name__ == "distir"


def test_no_module_is_hidden_by_something_of_its_name():
    """`import distir.room.module as m` gives the module."""
    for path in MODULES:
        importlib.import_module(module_name(path))
    hidden = set[str]()
    for name, module in list(sys.modules.items()):
        package, _, own = name.rpartition(".")
        ours = package.split(".")[0] in ("distir", "distir_lsp", "distir_dap")
        if ours and getattr(sys.modules[package], own) is not module:
            hidden.add(name)
    assert not hidden


def test_each_file_of_tests_has_a_name_of_its_own():
    """pytest knows modules of tests by their names alone, and collects one of several with the same name."""
    names = [path.name for path in ROOT.glob("tests/**/*.py") if "node_modules" not in path.parts]
    repeated = {name for name in names if names.count(name) > 1}
    assert repeated <= {"conftest.py", "__init__.py"}


def test_each_class_has_a_name_of_its_own():
    """One name, one concept: no two classes share a name."""
    homes: dict[str, set[str]] = {}
    for path in MODULES:
        for name in source(path).classes:
            if not name.startswith("_"):
                homes.setdefault(name, set()).add(module_name(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples"])
def test_what_scripts_import_is_there(folder):
    """Of functions too: no test runs these scripts whole."""
    missing = set[str]()
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "distir":
                module = importlib.import_module(node.module)
                missing |= {f"{path.name}: {node.module}.{a.name}" for a in node.names if not has(module, a.name)}
    assert not missing


def has(module, name):
    """Whether a module has a name, or a package a module of it."""
    return hasattr(module, name) or importlib.util.find_spec(f"{module.__name__}.{name}") is not None


DECIDING = ("analysis", "ops", "simulate", "prove", "search", "transform", "validate")
"""The rooms that decide by what programs do. Others read names that files and users have."""

READING = {"startswith", "endswith", "removeprefix", "removesuffix", "match", "search", "fullmatch", "findall"}

NAMED = {
    "analysis/executor.py": "inputs, as users call them",
    "analysis/indices.py": "`.scatter` is a name of the language",
    "analysis/provenance.py": "the one place that infers facts: `%dx` beside `%x`",
    "ops/purpose.py": "the one place that says which ops are of gradients",
    "ops/recurrent.py": "the kernel of torch is called by the op",
    "ops/signature.py": "variables of signatures",
    "ops/torch_form.py": "names of element types",
    "prove/algebra.py": "names that are tuples",
    "prove/proving.py": "`.scatter` and `.gather` are names of the language",
    "prove/stated.py": "items of tuples, as users write them",
    "search/sequential.py": "a tuple",
    "search/stages.py": "an effect of a kernel is called by it",
    "simulate/chakra/schema.py": "messages of a schema",
    "simulate/chakra/writing.py": "names of files",
    "transform/checkpoint/selective.py": "a new function is called after the old one",
    "transform/fusion/kernels.py": "a new function is called after the ops in it",
    "transform/inline.py": "functions, as users call them",
    "transform/pipeline/alike.py": "values of a function for several stages are called after those of one",
    "transform/pipeline/chunks.py": "the ops of MPI are called so",
    "transform/pipeline/step.py": "names of files",
    "validate/fitted_profile.py": "names of files and of a profile's figures",
}


def reads_a_name(node):
    """Whether an expression looks into the name of a function, a value or an op."""
    match node:
        case ast.Call(func=ast.Attribute(value=subject, attr=attr)) if attr in READING:
            return any(map(is_a_name, (subject, *node.args)))
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[subject]):
            is_text = isinstance(left, ast.Constant) and isinstance(left.value, str)
            return is_a_name(subject) and (is_text or isinstance(subject, ast.Attribute))
        case ast.Subscript(value=subject, slice=ast.Slice()):
            return is_a_name(subject)
        case _:
            return False


def is_a_name(node):
    names = {"name", "op", "function"}
    return (isinstance(node, ast.Attribute) and node.attr in names) or (isinstance(node, ast.Name) and node.id in names)


@pytest.mark.parametrize(
    "text",
    [
        'value.name.startswith("d")',
        '".master" in v.name',
        "any(end in statement.op for end in ends) or name[1:] in values",
        're.match(r"stage_\\d+", call.function)',
        '"Normalization" not in op.name',
    ],
)
def test_what_reads_a_name_is_found(text):
    assert any(map(reads_a_name, ast.walk(ast.parse(text))))


def test_what_something_is_for_is_stated_or_follows_from_data_flow():
    """It is not read off the name of a function, a value or an op."""
    files = (path for room in DECIDING for path in (ROOT / "distir" / room).rglob("*.py"))
    found = {
        path.relative_to(ROOT / "distir").as_posix()
        for path in files
        if any(map(reads_a_name, ast.walk(ast.parse(path.read_text()))))
    }
    assert found == set(NAMED)


def test_every_error_has_the_base_that_users_catch():
    """Exceptions that are no errors, but verdicts or answers, are named otherwise."""
    for path in MODULES:
        for name, bases in re.findall(r"^ *class (\w+Error)\((.*)\):$", path.read_text(encoding="utf-8"), re.MULTILINE):
            apart = room_of(module_name(path)) == "lsp" or name == "DistirError"
            base = bases.split(", ")[0]
            assert apart or (base.endswith("Error") and not hasattr(builtins, base)), f"{path}: {name}"
