"""Laws of the rewriter: after any edits its chains are those of the function that it gives; names, facts, identity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import distir
from distir.ir import NO_FACTS, Apply, Call, Facts, Function, Literal, Module, Param, Return, names, operands, results
from distir.ir.dataflow import definitions, maker, uses
from distir.ir.rewrite import Rewriter, Variants, bottom_up, facts_of, mapped, with_names, with_operands
from distir.ir.types import UNKNOWN

FACTS = st.builds(
    Facts,
    st.sampled_from(["", "forward", "backward"]),
    st.integers(0, 2),
    st.integers(0, 2),
    of=st.sampled_from(["", "w"]),
)


@st.composite
def functions(draw):
    """Functions of ops and calls, in which values have several uses, some in lists, or none."""
    known, body = ["a", "b"], []
    for number in range(draw(st.integers(1, 8))):
        args = tuple(draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))
        args = (args, args[0]) if draw(st.booleans()) else args
        made = tuple(f"v{number}.{i}" if draw(st.integers(0, 4)) else "" for i in range(draw(st.integers(1, 2))))
        facts = draw(FACTS)
        body.append(Apply(made, "Op", args, facts=facts) if draw(st.booleans()) else Call(made, "f", args, facts=facts))
        known += filter(None, made)
    returned = draw(st.lists(st.sampled_from(known), max_size=3))
    return Function("f", (Param("a", UNKNOWN), Param("b", UNKNOWN)), (*body, Return(tuple(returned))))


def some_edit(draw, edit):
    """An edit after which no value is defined twice. Returns the new statements."""
    there = [number for number, statement in edit if not isinstance(statement, Return)]
    values = ["a", "b", *(name for _, statement in edit for name in results(statement) if name)]
    kind = draw(st.sampled_from(["before", "behind", "replace", "rename", "erase", "again"]))
    if not there and kind != "before":
        return []
    number = draw(st.sampled_from(there)) if there else len(edit.function.body) - 1
    new = [
        Apply((edit.fresh("v"),), "New", (draw(st.sampled_from(values)),), facts=draw(FACTS))
        for _ in range(draw(st.integers(1, 2)))
    ]
    if kind in ("before", "behind"):
        getattr(edit, kind)(number, *new)
        return new
    if kind == "replace":
        edit.replace(number, *new, Apply(results(edit[number]), "Other", (new[0].results[0], Literal(1))))
        return new
    if kind == "rename":
        old = draw(st.sampled_from(values))
        edit.rename({old: "a"}, [number] if draw(st.booleans()) else None)
    elif not any(edit.users(name) for name in results(edit[number]) if name):
        erased = edit[number]
        edit.erase(number)
        if kind == "again":
            edit.replace(number, erased)
    return []


@given(functions(), st.data())
def test_chains_after_edits_are_those_of_the_edited_function(function, data):
    edit = Rewriter(function)
    if data.draw(st.booleans()):
        edit.users("a")  # kept up from here on
    for _ in range(data.draw(st.integers(0, 6))):
        some_edit(data.draw, edit)
    found = edit.done()
    assert [statement for _, statement in edit] == [*found.body]
    values = {"a", "b", *(name for statement in found.body for name in results(statement) if name)}
    numbers = [number for number, _ in edit]
    for name in values:
        assert edit.maker(name) is maker(found, name)
        assert [numbers.index(number) for number in edit.users(name)] == [*uses(found).get(name, ())]
        place = edit.place(name)
        assert (None if place is None else numbers.index(place)) == definitions(found).get(name)


@given(functions(), st.data())
def test_no_statement_loses_facts_and_no_name_is_given_twice(function, data):
    edit, new, before = Rewriter(function), [], {}
    for _ in range(data.draw(st.integers(1, 6))):
        before |= {number: facts_of(statement) for number, statement in edit}
        new += some_edit(data.draw, edit)
    for number, statement in edit:
        if number in before and not isinstance(statement, Return):
            assert facts_of(statement).filled(before[number]) == facts_of(statement)
    made = [name for statement in edit.done().body for name in results(statement) if name]
    assert len(made) == len({*made, "a", "b"}) - 2
    assert not {name for s in new for name in s.results} & {n for s in function.body for n in results(s)}


@given(functions(), st.data())
def test_a_value_that_is_used_cannot_be_erased(function, data):
    used = [i for i, s in enumerate(function.body) if any(uses(function).get(name) for name in results(s))]
    if used:
        edit = Rewriter(function)
        edit.erase(data.draw(st.sampled_from(used)))
        with pytest.raises(ValueError, match="erased and used"):
            edit.done()


@given(functions(), st.data())
def test_a_statement_that_was_erased_is_not_there(function, data):
    edit = Rewriter(function)
    number = data.draw(st.integers(0, edit.end))
    erased = edit[number]
    edit.erase(number)
    with pytest.raises(KeyError, match="is erased"):
        edit[number]
    edit.replace(number, erased)
    assert edit[number] is erased


@given(functions())
def test_without_a_change_the_function_is_the_same_object(function):
    edit = Rewriter(function)
    for number, statement in edit:
        edit.replace(number, with_operands(statement, {"a": "a"}))
        edit.rename({"nothing": "a"}, [number])
        edit.rename({"a": "b"}, [])
        edit.before(number)
    assert edit.done() is function
    assert mapped(function, lambda statement: with_operands(statement, {"z": "a"})) is function
    assert edit.done(kernel=True).body is function.body


def test_what_is_inserted_stands_in_the_order_in_which_it_was():
    function = distir.parse("func @main(%x) { %y = Relu(%x) return %y }").entry()
    edit = Rewriter(function)

    def new(name):
        return Apply((name,), "Tanh", ("x",))

    edit.behind(0, new("c"), new("d"))
    edit.before(0, new("a"))
    edit.behind(0, new("e"))
    edit.before(0, new("b"))
    edit.before(edit.place("d"), new("before_d"))
    edit.behind(edit.place("a"), new("behind_a"))
    assert [name for s in edit.done().body for name in results(s)] == [
        "a", "behind_a", "b", "y", "c", "before_d", "d", "e"
    ]  # fmt: skip


def test_what_is_written_states_the_facts_of_its_place_unless_it_is_given_others():
    function = Function("f", (), (Apply(("y",), "Op", ("x",), facts=Facts("backward", layer=2)), Return(("y",))))
    edit = Rewriter(function)
    edit.before(0, Apply(("a",), "Op", ("x",), facts=Facts("forward")))
    edit.behind(0, Apply(("b",), "Op", ("x",)), facts=NO_FACTS)
    edit.replace(0, Apply(("c",), "Op", ("x",)), Apply(("y",), "Other", ("c",)))
    found = {s.results[0]: s.facts for s in edit.done().body[:-1]}
    backward = Facts("backward", layer=2)
    assert found == {"a": Facts("forward", layer=2), "c": backward, "y": backward, "b": NO_FACTS}


def test_a_function_returns_other_results_and_loses_a_statement_that_has_nothing_in_its_place():
    function = distir.parse("func @main(%x) { %y = Relu(%x) return %y }").entry()
    edit = Rewriter(function)
    edit.returns(("x", "x"))
    edit.replace(0)
    assert edit.done(result_types=None).body == (Return(("x", "x")),)


def test_what_is_written_in_place_of_a_statement_is_on_its_stream():
    function = distir.parse("func @main(%x) {\n %y = Relu(%x) on side\n return %y\n}").entry()
    edit = Rewriter(function)
    edit.builder.apply("Tanh", "x", results=("z",))
    edit.before(0, Apply(("w",), "Relu", ("x",)))
    edit.replace(0, *edit.written(), Apply(("y",), "Relu", ("z",), stream="other"))
    assert [s.stream for s in edit.done().body[:-1]] == ["", "side", "other"]
    assert not edit.written()


def test_a_variant_is_written_once_for_each_key_under_a_name_of_its_own():
    module = distir.parse(
        "func @layer(%x) { %y = Relu(%x) return %y } func @layer_1(%x) { return %x }"
        " func @main(%x) { %y = @layer(%x) return %y }"
    )
    variants, asked = Variants(module), []

    def write(function):
        asked.append(function.name)
        return mapped(function, lambda s: Apply(s.results, "Tanh", s.args) if isinstance(s, Apply) else s)

    first = variants.of("layer", 1, write)
    assert variants.of("layer", 1, write) is first
    other = variants.of("layer", 2, write)
    assert asked == ["layer", "layer"]
    assert (first.name, other.name) == ("layer_2", "layer_3")
    assert variants.origins == {"layer_2": "layer", "layer_3": "layer"}
    assert Module([*module, first, other])


@given(functions())
def test_renamed_values_are_renamed_wherever_they_are_mentioned(function):
    called = {name: f"{name}'" for s in function.body for name in [*results(s), *names(operands(s))] if name}
    for statement in function.body[:-1]:
        found = with_names(statement, called)
        assert [called.get(n, n) for n in statement.results] == [*found.results]
        assert [called[n] for n in names(statement.args)] == names(found.args)
        assert with_names(found, {new: old for old, new in called.items()}) == statement


def test_a_module_with_functions_replaced_keeps_its_order_and_is_the_same_object_where_nothing_changes():
    module = distir.parse("func @f(%x) { return %x } func @main(%x) { %y = @f(%x) return %y }")
    other, further = Function("f", (), (Return(()),)), Function("g", (), (Return(()),))
    assert module.replacing(*module) is module
    assert [*module.replacing(further, other)] == [other, module.functions["main"], further]


def test_functions_are_rewritten_behind_those_that_they_call():
    module = distir.parse("func @main(%x) { %y = @f(%x) return %y } func @f(%x) { return %x }")
    seen = []
    assert bottom_up(module, lambda function: seen.append(function.name) or function) is module
    assert seen == ["f", "main"]
