"""Threads that build large answers, so that these never block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Result = TypeVar("Result")

# Python runs one thread at a time: more of them would only delay the event loop.
_POOL = ThreadPoolExecutor(2, thread_name_prefix="answer")


async def run_in_thread(build: Callable[[], Result]) -> Result:
    """Call `build` in a thread, in the context of the request.

    If the request is cancelled before the thread is free, `build` is never called.
    """
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(_POOL, context.run, build)
