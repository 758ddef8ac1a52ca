"""Client for the service, which programs import from `hasse`.

It needs httpx, pydantic and tenacity, and of this project only `service.schemas`,
`service.lattice_schemas` and `models.errors`: a field that the service gains is one of the client.
"""
