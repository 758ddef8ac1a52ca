import pytest

# Helpers whose assertions explain themselves as those of tests do.
pytest.register_assert_rewrite("tests.service.problems")
