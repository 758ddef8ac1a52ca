"""How fast is exact search by order violation, and beside what? `python -m benchmarks.search`"""
