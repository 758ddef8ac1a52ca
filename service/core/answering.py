"""Threads that make answers, so that the event loop makes none that takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

Made = TypeVar("Made")

# Python runs one of them at a time: more would only keep the event loop waiting for its turn.
_POOL = ThreadPoolExecutor(2, thread_name_prefix="answer")


async def beside_loop(make: Callable[[], Made]) -> Made:
    """Make something in a thread, in the context of the request.

    What a cancelled request was going to have made is not made.
    """
    context = copy_context()
    return await asyncio.get_running_loop().run_in_executor(_POOL, context.run, make)
