"""Questions about a collection: requests, answers, and one pipeline for all of them.

`requests`, `answers` and `table` need only pydantic, since clients import them. `pipeline` has the
steps that all questions share. Each other module has one question.
"""
