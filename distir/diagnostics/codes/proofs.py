"""DIR8xx: what could not be proved of a distributed program."""

from distir.diagnostics.core import code

NOT_PROVED = code(
    "DIR801",
    "not-proved",
    """
Nothing shows that this statement gives what the sequential program computes.

`distir prove distributed.dir --against sequential.dir` says of each value what it is of the sequential program: all of
a value, some rows of it, a partial sum. The statement is the first one of which nothing is known, or something else
than is due: a sum over devices that is missing, parts of different microbatches, a factor too many. The message says
what was found and what was expected. A program that is not proved may still be right, as some ops have no rule.
""",
)
