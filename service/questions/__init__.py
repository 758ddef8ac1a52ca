"""Questions about a collection: their requests, their answers, and one pipeline for all of them.

`requests`, `answers` and `table` need pydantic alone, since clients import them. `pipeline` has the
steps that all questions share, and each of the other modules one question.
"""
