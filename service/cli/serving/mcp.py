"""`hasse mcp`: tools for a language-model agent, over standard input and output."""

from __future__ import annotations

from hasse.service.cli.terminal.options import LibraryOptions


def mcp(*, library: LibraryOptions) -> None:
    """Give a language-model agent on this machine tools that search the library.

    It speaks the Model Context Protocol over standard input and output, and changes nothing. A
    service answers the same at /mcp.

    \b
    Example, in the configuration of an agent:
      {"mcpServers": {"pictures": {"command": "hasse", "args": ["mcp"]}}}
    """
    import asyncio

    from hasse.service.core.engine import Engine
    from hasse.service.routes.agent_tools import serve_stdio

    settings = library.settings()
    asyncio.run(serve_stdio(lambda: Engine.open(settings, absolute_paths=True)))
