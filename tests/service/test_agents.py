"""Tools for language-model agents, called by the protocol's own client and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as Agent
from mcp.client.stdio import StdioServerParameters
from PIL import Image

from hasse.models.errors import HasseError
from hasse.service.app import create_app
from hasse.service.http.access import fingerprint
from hasse.service.routes import agent_tools
from hasse.service.settings import Settings
from hasse.service.verdict import NOTHING_SHOWS
from tests.service.client import Client
from tests.service.collection import IMAGES

HEADERS = {"Accept": "application/json, text/event-stream"}


def called(client: Client, tool: str, **arguments: Any) -> Any:
    """Call a tool of an application's engine in its own loop; return the result."""

    async def call() -> Any:
        async with Agent(agent_tools.server_of(lambda: client.engine)) as agent:
            return await agent.call_tool(tool, arguments)

    return client.run(call())


def test_agents_find_only_tools_that_read(client: Client) -> None:
    async def listed() -> Any:
        async with Agent(agent_tools.server_of(lambda: client.engine)) as agent:
            return (await agent.list_tools()).tools

    tools = {tool.name: tool for tool in client.run(listed())}
    assert set(tools) == {"search", "captions", "entails", "describe", "picture"}
    assert all(tool.annotations.read_only_hint for tool in tools.values())
    assert tools["entails"].input_schema["required"] == ["premise", "hypothesis"]


def test_search_of_an_agent_answers_as_http_does_with_proof_and_verdicts(client: Client) -> None:
    result = called(client, "search", caption="a dog", k=4)
    assert not result.is_error
    answer = client.post("/search/images", json={"caption": "a dog", "k": 4}).json()
    fields = result.structured_content
    assert json.loads(result.content[0].text) == fields
    assert fields["certified"] is True
    assert fields["searched"] == IMAGES
    for hit, own in zip(answer["hits"], fields["hits"], strict=True):
        assert (own["image_id"], own["probability"]) == (hit["image_id"], hit["probability"])
        assert own["verdict"] in {"shows it", "may show it", "nearest, but not it"}


def test_search_for_what_is_not_there_says_that_nothing_shows_it() -> None:
    hits = [{"probability": 0.01, "image_url": "/1"}, {"probability": 0.1, "image_url": "/2"}]
    fields = agent_tools._for_agents({"hits": hits, "certified": True})
    assert fields["conclusion"] == NOTHING_SHOWS
    assert fields["hits"][0] == {"probability": 0.01, "verdict": "nearest, but not it"}


def test_entails_captions_and_picture_answer_about_images_by_id(client: Client) -> None:
    judged = called(client, "entails", premise=1003, hypothesis="a dog").structured_content
    plain = client.post("/entails", json={"premise": 1003, "hypothesis": "a dog"}).json()
    assert judged["probability"] == plain["probability"]
    captions = called(client, "captions", image=1003, k=3).structured_content
    assert len(captions["hits"]) == 3
    looked = called(client, "picture", image_id=1003)
    assert looked.structured_content["image_id"] == 1003
    (image,) = [part for part in looked.content if part.type == "image"]
    with Image.open(BytesIO(base64.b64decode(image.data))) as picture:
        assert picture.format == "JPEG"


@pytest.mark.parametrize(
    ("tool", "arguments", "sentence"),
    [
        ("search", {"caption": " "}, "caption"),
        ("search", {"caption": "a dog", "k": 0}, "k"),
        ("search", {"caption": "zorp", "evidence": "shows"}, "zorp"),
        ("picture", {"image_id": 7}, "7"),
        ("describe", {"image_id": 1003}, "phrases for captions"),
        ("remove", {"image_id": 1003}, "no tool"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_an_agent_can_read(
    tool: str, arguments: dict[str, Any], sentence: str, client: Client
) -> None:
    result = called(client, tool, **arguments)
    assert result.is_error
    assert sentence in result.content[0].text


def test_word_that_neither_model_nor_texts_know_finds_nothing_and_is_named(client: Client) -> None:
    result = called(client, "search", caption="zorp")
    assert not result.is_error
    assert result.structured_content["hits"] == []
    assert result.structured_content["unknown_words"] == ["zorp"]


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def test_http_answers_a_tool_call_without_a_session(client: Client) -> None:
    call = message("tools/call", name="search", arguments={"caption": "a dog", "k": 2})
    answer = client.post("/mcp", json=call, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["result"]["structuredContent"]["hits"]) == 2


def test_http_takes_agents_with_a_key_and_for_a_known_host_only(settings: Settings) -> None:
    locked = settings.model_copy(update={"read_keys": f"reader:{fingerprint('hasse_reader')}"})
    with Client(create_app(locked)) as client:
        call = message("tools/list")
        key = {"Authorization": "Bearer hasse_reader"}
        answers = [
            client.post("/mcp", json=call, headers=HEADERS | more).status_code
            for more in ({}, key, key | {"Host": "evil.example"}, key | {"Origin": "http://evil"})
        ]
    assert answers == [401, 200, 421, 403]


def test_agent_over_standard_input_and_output_gets_absolute_paths(collection: Path) -> None:
    command = ["-m", "hasse", "mcp", "--library", str(collection), "--device", "cpu"]
    server = StdioServerParameters(command=sys.executable, args=command)

    async def call() -> Any:
        async with Agent(server) as agent:
            return await agent.call_tool("search", {"caption": "a dog", "k": 1})

    (hit,) = asyncio.run(call()).structured_content["hits"]
    assert Path(hit["path"]).is_file()


def test_without_the_package_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    with pytest.raises(HasseError, match=r"\[mcp\]"):
        agent_tools.server_of(lambda: pytest.fail("no engine is needed"))
