"""Strategies: one value says how a program is distributed and run, wherever that is said.

`Strategy` (`record`) is frozen and typed. Each field is declared once (`declared`): its default, the column of rows,
the step and the options that say it, how it is read from these, which values a search tries where, how it is shown, and
how commands ask for it, with help, label, words, least number, and what it needs. From the declarations follow

- the steps of a strategy, applied or in words, and the strategy of such words (`steps`);
- the space of a search: the order and the values of its axes (`choices`, `distir.search.space`), columns of its rows;
- the options of `distir search`, the form of the editor, the messages about values, and what no plan of a space would
  use (`distir.cli.search_space`).

Words are at the edges: command lines, texts of steps, files. Inside, `apply(module, strategy)` writes the program, and
`steps_of` gives its steps with typed options; a search keeps what plans have in common between them. `Plans` of a
search are columns of strategies. Jobs of frameworks and rows of measured runs leave fields unsaid: they hold a strategy
in part (`partial`), and their framework decides the rest. A new field is one declaration at the end of the record, and
takes part in all of this; if a step has an option of that name and no other rule, the declaration says only that. What
depends on a machine or on sizes is no field: steps are given it (`At`).
"""

from distir.transform.strategy.choices import BALANCES, MICROBATCHES, Choices
from distir.transform.strategy.declared import Declared, Question, Requirement
from distir.transform.strategy.record import AXES, DEGREES, FIELDS, RECOMPUTED, SEARCHED, Strategy

__all__ = [
    "AXES",
    "BALANCES",
    "DEGREES",
    "FIELDS",
    "MICROBATCHES",
    "RECOMPUTED",
    "SEARCHED",
    "Choices",
    "Declared",
    "Question",
    "Requirement",
    "Strategy",
]
