"""Programs with something wrong in them, for the tests of the output formats."""

from hypothesis import strategies as st

from distir.diagnostics import Code, Diagnostic, Note, Report, Severity, Source, Span

MISMATCH = Code("DIR999", "some-mismatch", Severity.ERROR, "Two things disagree.\n\nMake them agree.\n")
UNUSED = Code("DIR998", "some-waste", Severity.WARNING, "Something is not used.\n")

PROGRAM = """\
func @f(%x: Tensor[Float32, (128, 65), 1], %w: Tensor[Float32, (64, 64), 1]) {
  %u = Relu(%x)
  %h = MatMul(%x, %w)
  return %h
}
"""


def span_of(text, part, nth=0):
    start = -1
    for _ in range(nth + 1):
        start = text.index(part, start + 1)
    return Span(start, start + len(part))


def mlp() -> Report:
    """An error with notes near, far and nowhere, and a warning."""
    mismatch = Diagnostic(
        MISMATCH,
        span_of(PROGRAM, "%w", 1),
        "`MatMul` operands disagree on dimension `k`: expected 65, found 64",
        (
            Note("`k` is 65 here", span_of(PROGRAM, "%x", 2)),
            Note("`%w` has this type", span_of(PROGRAM, "Tensor[Float32, (64, 64), 1]")),
            Note("`MatMul` multiplies matrices"),
        ),
        "transpose `%w`",
    )
    unused = Diagnostic(UNUSED, span_of(PROGRAM, "%u"), "`%u` is never used")
    return Report(Source("examples/mlp.dir", PROGRAM), (mismatch, unused))


# Letters, wide and combining ones, outside the basic plane, invisible, hostile, and what ends lines.
CHARACTERS = st.sampled_from(list("ab% \t\n\r漢字é\u0301😀\x1b\x07\x00\x9b\u202e\u200b\u2028\x0c\ufeff\ud800,:[]("))
TEXTS = st.text(CHARACTERS, max_size=60) | st.text(max_size=60) | st.text(CHARACTERS).map(lambda t: t * 20)
OFFSETS = st.integers(-3, 70) | st.integers()
SITES = st.none() | st.builds(Span, OFFSETS, OFFSETS)
MESSAGES = st.text(CHARACTERS, max_size=20)
DIAGNOSTICS = st.builds(
    Diagnostic,
    st.sampled_from([MISMATCH, UNUSED]),
    SITES,
    MESSAGES,
    st.lists(st.builds(Note, MESSAGES, SITES), max_size=4).map(tuple),
    st.none() | MESSAGES,
)
PATHS = st.sampled_from(
    ["a.dir", "dir/ü b%.dir", "../x:1,2.dir", "/tmp/abs.dir", "<stdin>", "\x1b[31m\n.dir", "\udcff.dir"]
)
REPORTS = st.lists(
    st.builds(Report, st.builds(Source, PATHS, TEXTS), st.lists(DIAGNOSTICS, max_size=4).map(tuple)),
    max_size=3,
)
