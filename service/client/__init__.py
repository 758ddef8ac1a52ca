"""Client for the service, which programs import from `hasse`.

It needs httpx, pydantic and tenacity, and of this project only the requests, answers and table of
`service.questions`: a question that the service gains is one of the client.
"""
