"""Answers that take long to make are made in threads, by queues that know what they cost."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from pydantic_core import to_json

from hasse.service.core.admission import PLAIN_COST
from hasse.service.core.answer_threads import run_in_thread
from hasse.service.page import rendering, static_files
from hasse.service.questions import requests
from hasse.service.questions.pipeline import cost_of
from hasse.service.routes import questions
from tests.service.client import Client

TEXTS: list[Any] = [f"a dog and {number} cats" for number in range(40)]


def test_beside_loop_runs_in_a_thread_in_the_context_of_the_request() -> None:
    name: ContextVar[str] = ContextVar("name")

    async def main() -> None:
        name.set("mine")
        made = await run_in_thread(lambda: (name.get(), threading.current_thread().name))
        assert made[0] == "mine"
        assert made[1].startswith("answer")

    asyncio.run(main())


def test_beside_loop_makes_nothing_for_a_request_that_was_cancelled() -> None:
    made: list[int] = []
    go_on = threading.Event()

    async def main() -> None:
        first = [asyncio.create_task(run_in_thread(lambda: go_on.wait(60))) for _ in range(2)]
        await asyncio.sleep(0)
        waiting = asyncio.create_task(run_in_thread(lambda: made.append(1)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        go_on.set()
        await asyncio.gather(*first)
        await asyncio.gather(*(run_in_thread(lambda: None) for _ in range(4)))
        assert made == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("request_", "is_costly"),
    [
        (requests.ImageQuery(caption="a dog", k=10), False),
        (requests.ImageQuery(caption="a dog", k=1000), True),
        (requests.ImagesQuery(captions=TEXTS[:32], k=10), True),
        (requests.AllOfQuery(all_of=["a dog", "a cat"], k=10), False),
        (requests.AllOfQuery(all_of=TEXTS[:16], k=100), True),
        (requests.CommonQuery(common=["a dog"], k=1000), True),
        (requests.LikeQuery(like="a dog", plus=["cat"], minus=["dog"]), True),
        (requests.EmbedQuery(texts=["a dog"]), False),
        (requests.EmbedQuery(texts=TEXTS), True),
        (requests.DiagramQuery(middle="a dog"), True),
    ],
)
def test_cost_of_a_request_follows_from_hits_parts_and_texts(
    request_: requests.QuestionRequest, is_costly: bool
) -> None:
    assert (cost_of(request_) > PLAIN_COST) is is_costly


@pytest.mark.parametrize(
    ("path", "body", "thread"),
    [
        ("/search/images", {"caption": "a dog", "k": 1000}, "answer"),
        ("/search/all_of", {"all_of": TEXTS[:16], "k": 1000}, "answer"),
        ("/search/images/batch", {"captions": TEXTS[:32], "k": 100}, "answer"),
        ("/embed", {"texts": TEXTS}, "answer"),
        ("/search/images", {"caption": "a dog", "k": 10}, "Thread"),
    ],
)
def test_costly_answer_is_written_beside_the_loop(
    client: Client, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any], thread: str
) -> None:
    names: list[str] = []

    def write(fields: Any) -> bytes:
        names.append(threading.current_thread().name)
        return to_json(fields)

    monkeypatch.setattr(questions, "to_json", write)
    assert client.post(path, json=body).status_code == 200
    assert len(names) == 1
    assert names[0].startswith(thread)


def test_page_is_rendered_beside_the_loop(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    names: set[str] = set()

    def static(name: str) -> str:
        names.add(threading.current_thread().name.partition("_")[0])
        return static_files.static(name)

    monkeypatch.setitem(rendering._TEMPLATES.globals, "static", static)
    assert client.get("/?q=a+dog").status_code == 200
    assert names == {"answer"}
