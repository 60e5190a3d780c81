"""Documents derived from others, and the machine that each is simulated for: choosing one for either changes both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from distir.cost import Hardware
from distir_lsp.workspace import Open

if TYPE_CHECKING:
    from distir_lsp.server import DistirServer


@dataclass(frozen=True, slots=True)
class Followed:
    """The document that another one was made of. `rank`: of which it is what one device runs; None for any other.

    It is simulated for the machine that is chosen for the other; the program of a rank shows the times of the whole.
    """

    source: str
    rank: int | None = None


def machine(server: DistirServer, uri: str) -> tuple[str, Mapping[str, str]]:
    """The hardware that a document is simulated for, by name or path, and the figures that override its own."""
    found = server.documents.get(uri)
    chosen = found.machine if found is not None else None
    return chosen if chosen is not None else (server.settings(uri).machine, {})


def choose_machine(server: DistirServer, uri: str, hardware: Hardware, name: str, changes: Mapping[str, str]) -> None:
    """Simulate a document, and those that were made of it, for other hardware: `name` with `changes`."""
    followers = (follower for follower, followed in server.followed.items() if followed.source == uri)
    for each in (uri, *followers):
        found = server.documents.get(each)
        if found is not None:
            found.machine = name, dict(changes)
            server.choose(each, hardware=hardware)


def follow(server: DistirServer, uri: str, followed: Followed) -> None:
    """Treat a document as one that was made of another one; it need not be open yet."""
    server.followed[uri] = followed
    if (found := server.documents.get(uri)) is not None:
        opened(server, found)


def opened(server: DistirServer, found: Open) -> None:
    """Simulate an opened document for the machine of the one that it was derived from, if there is one."""
    followed = server.followed.get(found.uri)
    source = server.documents.get(followed.source) if followed is not None else None
    if source is not None and source.machine is not None:
        found.machine = source.machine
        server.choose(found.uri, hardware=source.chosen["hardware"])
