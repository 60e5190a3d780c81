"""Progress in the editor, of what takes a while. Knows no documents."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

SHOWN_AFTER_S = 0.2


@contextlib.asynccontextmanager
async def progress(server: LanguageServer, title: str) -> AsyncGenerator[None]:
    """Show progress, once the block has taken a while, in editors that show any."""
    window = server.client_capabilities.window
    if window is None or not window.work_done_progress:
        yield
        return
    begun: list[str] = []
    task = asyncio.ensure_future(_begin_later(server, title, begun))
    try:
        yield
    finally:
        task.cancel()
        for token in begun:
            server.work_done_progress.end(token, types.WorkDoneProgressEnd())


async def _begin_later(server: LanguageServer, title: str, begun: list[str]) -> None:
    await asyncio.sleep(SHOWN_AFTER_S)
    token = str(uuid4())
    try:
        create: Any = server.work_done_progress.create_async  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        await asyncio.shield(create(token))
    except JsonRpcException:
        return
    server.work_done_progress.begin(token, types.WorkDoneProgressBegin(title, cancellable=False))
    begun.append(token)
