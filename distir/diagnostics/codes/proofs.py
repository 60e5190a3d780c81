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

NOT_COMPARABLE = code(
    "DIR802",
    "not-comparable",
    """
A program cannot be compared with the sequential one that `sequential` names in `distir.toml`: their parameters or their
results do not belong together, or a size is not known. The editor shows it, as it then proves nothing; `distir prove`
refuses such programs with the same reason.

Parameters are related by `@main.scatter`, which takes those of the sequential program, and results by `@main.gather`.
Sizes of named dimensions belong into `[bind]`. A program that has nothing to do with the sequential one belongs into
another folder.
""",
)

STATED_PLACEMENT = code(
    "DIR803",
    "stated-placement",
    """
A file of stated placements (`distir prove DISTRIBUTED --against SEQUENTIAL --where FILE.toml`) says of a parameter or
result what it cannot be. Names without `%` are those of the distributed program; a placement is a name of the
sequential one with places of its dimensions, as numpy writes them:

```toml
[parameters]
x_1 = "x[0:4]"
x_2 = "x[4:8]"
w_2 = "w[:, 3:6]"
g_1 = "1 of 2 addends of g"

[results]
p_1 = "p"
```

What is not named is all of what has its name in the sequential program.
""",
)
