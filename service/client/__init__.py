"""Client for the service, which programs import from `hasse`.

It needs httpx, pydantic and tenacity, and of this project only the requests, answers and table of
`service.questions`. So each new question of the service is also one of the client.
"""
