"""`hasse mcp`: tools for a language-model agent, over standard input and output."""

from __future__ import annotations

from hasse.service.cli.terminal.configuration import configure
from hasse.service.cli.terminal.options import Library, LibraryModel, ServiceDevice


def mcp(
    *, library: Library = None, model: LibraryModel = None, device: ServiceDevice = None
) -> None:
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

    settings = configure(library=library, model=model, device=device)
    asyncio.run(serve_stdio(lambda: Engine.open(settings, absolute_paths=True)))
