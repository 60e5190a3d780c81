"""The text of lowered programs: what is in it, and what never gets into it."""

import ast
import io
import re
import tokenize

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_samples import assert_close, entry, from_torch, lowered_program, reference, to_torch
from thorough import most_examples

import distir
from distir.diagnostics import ProgramError
from distir.ir import DTYPES, Apply, Attributes, Function, Literal, Module, Param, Return, TensorType
from distir.lower import EntryPoint, check_order, lower, lower_ranks, project
from distir.lower.naming import Identifiers, comment

VECTOR = TensorType(DTYPES["Float32"], (2,), 1)

HOSTILE = [
    '"); import os; os.abort() #',
    "x\n    import os; os.abort()\n    y",
    "x\r\nimport os",
    "__import__('os').abort()",
    "torch",
    "dist",
    "C",
    "GROUP",
    "DEVICE",
    "all_reduce",
    "f_main_rank_0",
    "None",
    "lambda",
    "print",
    "é",
    "\u2028import os",
    "\x00",
    "\ud800",
    "9",
    "-",
    "",
    "{parts}",
    "a" * 500,
    '"""',
    "\\",
]


@pytest.mark.parametrize("hint", HOSTILE)
def test_a_name_becomes_an_identifier_that_means_nothing_else(hint):
    name = Identifiers().fresh(hint)
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,80}", name)
    assert name not in ("torch", "dist", "C", "GROUP", "DEVICE", "None", "lambda", "print")
    assert not name.startswith("f_")


@given(st.text())
def test_a_comment_is_one_line(text):
    line = f"x = 1  # {comment(text)}\n"
    tokens = list(tokenize.generate_tokens(io.StringIO(line).readline))
    assert [t.string for t in tokens if t.type == tokenize.NAME] == ["x"]
    assert len(line.splitlines()) == 1


def module_of_names(values, function="g", strings=()):
    """A module in which everything has a name that does not spell well."""
    a, b, c = values
    inner = Function(
        function,
        (Param(a, VECTOR),),
        (Apply((b,), "Relu", (a,)), Apply((c,), "Gelu", (b,), Attributes({"approximate": "none"})), Return((c,))),
    )
    from distir.ir import Call

    main = Function("main", (Param(b, VECTOR),), (Call((a,), function, (b,)), Return((a,))))
    return Module([inner, main])


@pytest.mark.parametrize("start", range(len(HOSTILE) - 2))
def test_a_hostile_name_cannot_become_code(start):
    names = [name or "empty" for name in HOSTILE[start : start + 3]]
    module = module_of_names(names, function=names[0] + "f")
    text = lower([entry(module)], source=names[0]).files["program.py"]
    text.encode()
    tree = ast.parse(text)
    kinds = {type(node) for node in tree.body}
    assert kinds <= {ast.Expr, ast.Import, ast.Assign, ast.FunctionDef}
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(functions) == 2
    assert sum(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.walk(tree)) == 4
    called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    assert called == {"torch.device", "torch.relu", "F.gelu", functions[0].name}


def test_a_hostile_attribute_is_refused_or_quoted():
    x = Param("x", TensorType(DTYPES["Float32"], (2, 3), 1))
    evil = "ij->ij'); import os; os.abort(); ('"
    for op, attrs in (
        ("Einsum", {"equation": evil}),
        ("Gelu", {"approximate": evil}),
        ("MSELoss", {"reduction": evil}),
    ):
        args = ("x", "x") if op == "MSELoss" else ("x",)
        main = Function("main", (x,), (Apply(("y",), op, args, Attributes(attrs)), Return(("y",))))
        with pytest.raises(ProgramError):
            lower([entry(Module([main]))])


TWO = """
func @main(%x: Tensor[Float32, (2,), 1], %y: Tensor[Float32, (2,), 2]) {
  %a = Send[device = 2](%x)
  %b = Add(%a, %y)
  %c = Send[device = 1](%b)
  return %c
}
"""


def test_ranks_that_disagree_are_refused_before_anything_is_written():
    module = distir.parse(TWO)
    from distir.analysis import check

    main = module.functions["main"]
    analysis = check(module)
    ranks = project(analysis, analysis.instance(main, [p.type for p in main.params]))
    check_order(ranks)
    first = ranks[1].functions["main"]
    swapped = Function("main", first.params, (first.body[1], first.body[0], first.body[2]))
    ranks[1] = Module([swapped])
    entries = {
        d: EntryPoint("main", m, m.functions["main"], tuple(p.type for p in m.functions["main"].params))
        for d, m in ranks.items()
    }
    with pytest.raises(ProgramError, match="DIR702"):
        lower_ranks({"main": entries})


def test_each_line_says_its_statement_and_values_are_dropped():
    text = lower([entry(distir.parse(TWO))]).files["program.py"]
    rank_0, rank_1 = text.split("def f_main_rank_")[1:]
    assert rank_0.splitlines()[1:] == [
        "    send(x, 1)  # _ = Send[device = 2](%x)",
        "    c = receive((2,), torch.float32, 1)  # %c = Send[device = 1](%b)",
        "    return (c,)",
        "",
        "",
    ]
    assert rank_1.splitlines()[1:] == [
        "    a = receive((2,), torch.float32, 0)  # %a = Send[device = 2](%x)",
        "    b = a + y  # %b = Add(%a, %y)",
        "    del a",
        "    send(b, 0)  # _ = Send[device = 1](%b)",
        "    del b",
        "    return ()",
    ]


OVERWRITING = {
    "the last use": ("%w_new = SGD(%w, %g)\n  return %w_new", True),
    "used later": ("%w_new = SGD(%w, %g)\n  %z = Relu(%w)\n  return %w_new, %z", False),
    "returned too": ("%w_new = SGD(%w, %g)\n  return %w_new, %w", False),
    "a view is used later": ("%v = Reshape(%w, [2])\n  %w_new = SGD(%w, %g)\n  return %w_new, %v", False),
    "a tuple holds it": ("%t = MakeTuple(%w, %g)\n  %w_new = SGD(%w, %g)\n  return %w_new, %t", False),
    "a call passes it on": ("%v = @same(%w)\n  %w_new = SGD(%w, %g)\n  return %w_new, %v", False),
    "it is its own gradient": ("%w_new = SGD(%w, %w)\n  return %w_new", False),
    "the gradient is a view of it": ("%v = Reshape(%w, [2])\n  %w_new = SGD(%w, %v)\n  return %w_new", False),
    "a view was used before": (
        "%v = Reshape(%w, [2])\n  %z = Relu(%v)\n  %w_new = SGD(%w, %g)\n  return %w_new, %z",
        True,
    ),
    "a new value": ("%v = Relu(%w)\n  %w_new = SGD(%v, %g)\n  return %w_new, %w", True),
}


def overwriting(body):
    return distir.parse(
        "func @same(%x) {\n  return %x\n}\n"
        "func @main(%w: Tensor[Float32, (2,), 1], %g: Tensor[Float32, (2,), 1]) {\n  " + body + "\n}\n"
    )


@pytest.mark.parametrize("case", OVERWRITING)
def test_an_operand_is_overwritten_only_where_nothing_needs_it(case):
    body, expected = OVERWRITING[case]
    text = lower([entry(overwriting(body))]).files["program.py"]
    assert (".sub_(" in text) == expected


VIEWS = ["Reshape(%{}, [2, 2])", "Transpose(%{})", "Identity(%{})", "Relu(%{})", "Expand(%{}, [2, 2])", "Neg(%{})"]


@st.composite
def aliased_programs(draw):
    """Updates among views, tuples and calls, with whatever is alive in between."""
    lines, values = [], ["w", "g"]
    for i in range(draw(st.integers(1, 10))):
        kind = draw(st.integers(0, 3))
        one, two = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if kind == 0:
            lines.append(f"%v{i} = SGD[lr = 0.5](%{one}, %{two})")
        elif kind == 1:
            lines.append(f"%v{i} = @pick(%{one}, %{two})")
        elif kind == 2:
            lines += [f"%t{i} = MakeTuple(%{one}, %{two})", f"%v{i}, _ = UnpackTuple(%t{i})"]
        else:
            lines.append(f"%v{i} = " + draw(st.sampled_from(VIEWS)).format(one))
        values.append(f"v{i}")
    returned = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True))
    square = "Tensor[Float32, (2, 2), 1]"
    return distir.parse(
        "func @pick(%a, %b) {\n  %c = Transpose(%a)\n  %d = SGD[lr = 0.25](%b, %c)\n"
        "  %e = Transpose(%d)\n  return %e\n}\n"
        f"func @main(%w: {square}, %g: {square}) {{\n  "
        + "\n  ".join(lines)
        + f"\n  return {', '.join(f'%{r}' for r in returned)}\n}}\n"
    )


@settings(max_examples=most_examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(module=aliased_programs())
def test_overwriting_changes_no_result(module, tmp_path_factory):
    pytest.importorskip("torch")
    import numpy as np

    program = lowered_program([entry(module)], tmp_path_factory.mktemp("aliased"))
    values = [np.arange(4, dtype=np.float32).reshape(2, 2), np.array([[1, -1], [2, 0.5]], np.float32)]
    found = from_torch(program.call("main", [to_torch(v) for v in values]))
    for f, (e, t) in zip(found, reference(module, values), strict=True):
        assert_close(np.asarray(f), e, t)


def test_sizes_must_be_known():
    module = distir.parse("func @main(%x: Tensor[Float32, (B, 2), 1]) {\n  %y = Relu(%x)\n  return %y\n}\n")
    with pytest.raises(ProgramError, match="DIR704"):
        lower([entry(module)])
    assert Literal


@pytest.mark.parametrize(
    "stated", ["D1", "Tensor[Float32, (?, 2), 1]", "Tensor[Float32, ??, 1]", "Tuple[D1, Float32[1]]"]
)
def test_a_parameter_must_be_typed(stated):
    module = distir.parse(f"func @main(%x: {stated}) {{\n  return %x\n}}\n")
    with pytest.raises(ProgramError, match="`%x` needs an element type and a size for each dimension"):
        lower([entry(module)])


def test_large_constants_and_host_values_are_computed(tmp_path):
    pytest.importorskip("torch")
    module = distir.parse(
        "func @main(%x: Tensor[Float32, (300, 300), 1]) {\n"
        "  %i = Range(0, 300, 1)\n  %q = Unsqueeze(%i, [1])\n  %mask = LessOrEqual(%i, %q)\n"
        "  %y = Where(%mask, %x, 0.0)\n  return %y\n}\n"
    )
    import numpy as np

    program = lowered_program([entry(module)], tmp_path)
    x = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
    (found,) = from_torch(program.call("main", [to_torch(x)]))
    assert (found == np.tril(x)).all()


CHAIN = """
func @inner(%x, %y) {
  %a = Relu(%x)
  %b = MatMul(%a, %y)
  %c = Tanh(%b)
  %d = Add(%c, %c)
  return %d
}

func @main(%x: Tensor[Float32, (64, 64), 1], %w: Tensor[Float32, (64, 64), 1]) {
  %a = Neg(%x)
  %b = Neg(%w)
  %c = @inner(%a, %b)
  %d = @inner(%c, %x)
  %e = Concat[axis = 0](%d, %d)
  return %e
}
"""


def test_memory_is_given_back_as_simulated_in_calls_too(tmp_path):
    torch = pytest.importorskip("torch")
    from lowering_samples import load_runtime

    module = distir.parse(CHAIN)
    program = lowered_program([entry(module)], tmp_path)
    values = [torch.randn(64, 64) for _ in range(2)]
    with load_runtime(tmp_path).Observer(program) as seen:
        program.call("main", values)
    assert seen.peak_bytes == distir.simulate(module).devices[1].peak_memory_bytes
    assert [program.manifest["statements"][str(line)]["op"] for line, *_ in seen.events] == [
        *("Neg", "Neg", "Relu", "MatMul", "Tanh", "Add", "Relu", "MatMul", "Tanh", "Add", "Concat")
    ]


class Evil:
    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def test_files_with_tensors_are_data_only(tmp_path):
    torch = pytest.importorskip("torch")
    import pickle

    from lowering_samples import load_runtime

    lower([entry(distir.parse(CHAIN))]).write(tmp_path)
    runtime = load_runtime(tmp_path)
    tensors = {"a": torch.arange(6).reshape(2, 3), "b": torch.zeros(0, 2), "c": torch.tensor(1.5, dtype=torch.bfloat16)}
    runtime.write_tensors(tmp_path / "good.safetensors", tensors)
    torch.save(tensors, tmp_path / "good.pt")
    for name in ("good.safetensors", "good.pt"):
        found = runtime.read_tensors(tmp_path / name)
        assert all(torch.equal(found[n], t) and found[n].dtype == t.dtype for n, t in tensors.items())
    torch.save({"a": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(pickle.UnpicklingError):
        runtime.read_tensors(tmp_path / "evil.pt")
    good = (tmp_path / "good.safetensors").read_bytes()
    for bad in (b"", good[:20], b"\xff" * 40, good.replace(b"[2, 3]", b"[9, 9]"), good.replace(b"[0, 48]", b"[0, 99]")):
        (tmp_path / "bad.safetensors").write_bytes(bad)
        with pytest.raises(runtime.UserError, match="is no safetensors file"):
            runtime.read_tensors(tmp_path / "bad.safetensors")
