"""Read-only tools for language-model agents, by the Model Context Protocol (the extra `mcp`).

A tool is a question of `hasse.service.questions.table`, or a stored picture. Its input is the
request of the question, and it goes through the same pipeline as over HTTP.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import Field

from hasse.models.errors import HasseError, pip_install
from hasse.service.core import records
from hasse.service.core.engine import Engine
from hasse.service.core.previews import MEDIA_TYPES
from hasse.service.errors import ServiceError, validated
from hasse.service.questions import table
from hasse.service.questions.handlers import HANDLERS
from hasse.service.questions.pipeline import Fields, run
from hasse.service.questions.table import Question
from hasse.service.schemas import ImageId, Request
from hasse.service.telemetry.stages import Stages
from hasse.service.verdict import CLAIM_WORDS, NOTHING_SHOWS, hit_word, nothing_shows, verdict

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

INSTRUCTIONS = (
    "Search a collection of pictures by what is true of them. A caption is true of a picture or "
    "not: trust the verdict of each hit. If no picture shows what the user wants, say so. "
    "`certified` means that no other picture of the collection fits better. Ids come from searches."
)
# Fields that only the page needs.
_PAGE_FIELDS = {"work", "plan", "rescored", "image_url", "thumbnail_url", "generation"}


class PictureRequest(Request):
    """Look at a picture of the collection: its facts, its captions, and a small version of it."""

    image_id: ImageId = Field(description="The id of an image, as hits have it.")


Respond: TypeAlias = Callable[[Engine, Any], Awaitable[tuple[Fields, bytes]]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its input, its purpose, and the function that returns fields and a JPEG or b""."""

    request: type[Request]
    description: str
    answer: Respond


def _tool_of(question: Question[Any, Any]) -> Tool:
    async def answer(engine: Engine, request: Any) -> tuple[Fields, bytes]:
        handler = HANDLERS[question]
        return await run(engine, handler, request, Stages(), _for_agents), b""

    description = f"{cleandoc(question.request.__doc__ or '')}\n\n{cleandoc(question.description)}"
    return Tool(question.request, description, answer)


async def _picture(engine: Engine, request: PictureRequest) -> tuple[Fields, bytes]:
    record = await records.image(engine, request.image_id)
    _, jpeg = await records.reduced_picture(
        engine, request.image_id, "thumbnail", lambda version: False
    )
    return _for_agents(record.model_dump()), jpeg


TOOLS: Mapping[str, Tool] = {
    "search": _tool_of(table.SEARCH_IMAGES),
    "captions": _tool_of(table.SEARCH_CAPTIONS),
    "entails": _tool_of(table.ENTAILS),
    "describe": _tool_of(table.DESCRIBE),
    "picture": Tool(PictureRequest, cleandoc(PictureRequest.__doc__ or ""), _picture),
}


def _for_agents(fields: Fields) -> Fields:
    """Return an answer with verdicts in words, and without the fields that only the page needs."""
    answer = {name: value for name, value in fields.items() if name not in _PAGE_FIELDS}
    if "hits" in answer:
        hits = [_for_agents(hit) | _hit_verdict(hit) for hit in answer["hits"]]
        said = any(hit.get("says") for hit in hits)
        no_match = not hits or (not said and nothing_shows(hit["probability"] for hit in hits))
        return {**({"conclusion": NOTHING_SHOWS} if no_match else {}), **answer, "hits": hits}
    captions = answer.get("captions", ())
    if captions and all(isinstance(caption, dict) for caption in captions):
        captions = [caption | _verdict(caption, CLAIM_WORDS) for caption in captions]
        return answer | {"captions": captions}
    return answer | _verdict(answer, CLAIM_WORDS)


def _hit_verdict(hit: Fields) -> Fields:
    word = hit_word(hit["probability"], says=bool(hit.get("says")))
    return {} if word is None else {"verdict": word}


def _verdict(fields: Fields, words: Mapping[Any, str]) -> Fields:
    probability = fields.get("probability")
    return {} if probability is None else {"verdict": words[verdict(probability)]}


def server_of(engine: Callable[[], Engine]) -> Server[Any]:
    """Return a server of the tools; `engine` may raise ServiceError while the engine opens.

    Raises:
        HasseError: the package `mcp` is missing.
    """
    try:
        import mcp_types as types
        from mcp.server.lowlevel import Server
    except ModuleNotFoundError as error:
        raise HasseError(f"agents need a package that is missing: {pip_install('mcp')}") from error

    hints = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    tools = [
        types.Tool(
            name=name,
            description=tool.description,
            input_schema=tool.request.model_json_schema(),
            annotations=hints,
        )
        for name, tool in TOOLS.items()
    ]

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            tool = TOOLS.get(params.name)
            if tool is None:
                raise ServiceError("not_found", f"there is no tool '{params.name}'")
            request = validated(tool.request, params.arguments or {})
            fields, jpeg = await tool.answer(engine(), request)
        except ServiceError as error:
            return types.CallToolResult(
                content=[types.TextContent(text=error.detail)], is_error=True
            )
        text = json.dumps(fields, ensure_ascii=False)
        content: list[Any] = [types.TextContent(text=text)]
        if jpeg:
            data = base64.b64encode(jpeg).decode()
            content.append(types.ImageContent(data=data, mime_type=MEDIA_TYPES["thumbnail"]))
        return types.CallToolResult(content=content, structured_content=fields)

    return Server(
        "hasse",
        version=version("hasse-search"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(open_engine: Callable[[], Engine]) -> None:
    """Answer one agent over standard input and output, until the agent closes them.

    Raises:
        HasseError: the package `mcp` is missing; or as `open_engine`.
    """
    server = server_of(lambda: engine)
    from mcp.server.stdio import stdio_server

    engine = open_engine()
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        engine.close()
