"""The names of a function, followed through edits of its body, are those that reading it anew finds."""

from dataclasses import fields

from hypothesis import example, given
from hypothesis import strategies as st

from distir.analysis.revision_names import LEAST_TOUCHED, gather, revised
from distir.ir import DISCARD, UNKNOWN, Apply, Broken, Call, Function, Param, Return

names = st.sampled_from(["a", "b", "c", "d", "e"])
results = st.lists(st.one_of(names, st.just(DISCARD)), max_size=2).map(tuple)
args = st.lists(st.one_of(names, st.lists(names, max_size=2).map(tuple)), max_size=3).map(tuple)
statements = st.one_of(
    st.builds(Apply, results, st.just("Add"), args),
    st.builds(Call, results, st.sampled_from(["f", "g"]), args),
    st.builds(Return, args),
    st.builds(Broken, results),
)
bodies = st.lists(statements, max_size=8)
edits = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.lists(statements, max_size=3)), max_size=6)


def facts(found):
    return {f.name: getattr(found, f.name) for f in fields(found) if f.name not in ("function", "hints")}


def made(params, body):
    return Function("main", tuple(Param(name, UNKNOWN) for name in params), tuple(body))


@given(st.lists(names, max_size=3), bodies, edits)
@example(["a"], [Apply(("b",), "Add", ("a",)), Return(("b",))], [(0, 1, [Apply(("c",), "Add", ("a",))])])
def test_names_are_those_of_the_new_body(params, body, steps):
    known = gather(made(params, body))
    for at, count, new in steps:
        body = [*body[:at], *new, *body[at + count :]]
        known = revised(known, made(params, body))
        assert facts(known) == facts(gather(made(params, body)))


def test_names_are_those_of_a_body_of_which_much_changed():
    body = [Apply((f"v{n + 1}",), "Relu", (f"v{n}",)) for n in range(LEAST_TOUCHED + 1)]
    other = [Apply(s.results, "Sqrt", s.args) for s in body[1:]] + [Return(("v9", "lost"))]
    known = revised(gather(made(["v0"], body)), made(["v0"], other))
    assert facts(known) == facts(gather(made(["v0"], other)))
    assert known.undefined == {"v1", "lost"}


def test_hints_follow_what_is_defined():
    """What was meant is looked for again only where the names that are defined have changed."""
    body = [Apply(("alpha",), "Add", ("x",)), Apply(("beta",), "Add", ("alpah",)), Return(("beta",))]
    known = gather(made(["x"], body))
    known.hints["alpah"] = "alpha"
    same = revised(known, made(["x"], [Apply(("alpha",), "Mul", ("x",)), *body[1:]]))
    assert same.hints == {"alpah": "alpha"}
    assert revised(same, made(["x"], [Apply(("gamma",), "Add", ("x",)), *body[1:]])).hints == {}
