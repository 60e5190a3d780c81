"""What functions run: their ops, whom they call, and an order by that, in which all are walked without recursion."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

from distir.ir.core import Apply, Call, Function, Module


def ops_in(of: Function | Module, *ops: str) -> Iterator[Apply]:
    """The ops in a function, or in all functions of a module: those of these names, or all."""
    for function in (of,) if isinstance(of, Function) else of:
        for statement in function.body:
            if isinstance(statement, Apply) and (not ops or statement.op in ops):
                yield statement


def calls_of(module: Module) -> dict[str, list[tuple[Function, int, Call]]]:
    """By function that is called: its calls, each with the caller and the number of the statement."""
    found: dict[str, list[tuple[Function, int, Call]]] = {}
    for function in module:
        for index, statement in enumerate(function.body):
            if isinstance(statement, Call):
                found.setdefault(statement.function, []).append((function, index, statement))
    return found


def callees(function: Function) -> Iterator[str]:
    """The functions that a function calls, each once, in the order of their first calls."""
    return iter(dict.fromkeys(s.function for s in function.body if isinstance(s, Call)))


def called_by(functions: Iterable[Function]) -> set[str]:
    """The functions that some of these call directly."""
    return {name for function in functions for name in callees(function)}


def reachable(functions: Mapping[str, Function], roots: Iterable[Function]) -> list[str]:
    """The functions that `roots` call, directly or not, in the order in which they are found."""
    found: dict[str, None] = {}
    waiting = [*roots]
    while waiting:
        for name in callees(waiting.pop()):
            if name not in found and name in functions:
                found[name] = None
                waiting.append(functions[name])
    return list(found)


def callees_first(module: Module) -> Iterator[Function]:
    """Every function once, after all those that it calls; on a cycle of calls, after those that were not begun yet."""
    functions = module.functions
    begun: set[str] = set()
    for start in functions:
        if start in begun:
            continue
        begun.add(start)
        way = [(functions[start], callees(functions[start]))]
        while way:
            function, rest = way[-1]
            name = next((name for name in rest if name in functions and name not in begun), None)
            if name is None:
                way.pop()
                yield function
            else:
                begun.add(name)
                way.append((functions[name], callees(functions[name])))


def inlined_sizes(
    module: Module, inlined: Container[str] | None = None, counts: Callable[[Apply], bool] | None = None
) -> dict[str, int]:
    """By function: how many ops it has with all calls, or those of `inlined`, written out; other calls count as one.

    `counts` says which ops do; all, by default.
    Calls of calls multiply: forty functions, each of which calls the next one twice, have more ops than can be listed.
    The module must be free of recursion.
    """
    sizes: dict[str, int] = {}
    for function in callees_first(module):
        size = 0
        for statement in function.body:
            if isinstance(statement, Call) and (inlined is None or statement.function in inlined):
                size += sizes[statement.function]
            elif isinstance(statement, Apply):
                size += counts is None or counts(statement)
            else:
                size += isinstance(statement, Call)
        sizes[function.name] = size
    return sizes
