"""Small changes that break something, each of which a test must notice: `python -m tests.mutations`."""
