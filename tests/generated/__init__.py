"""Digests of all that is generated: plans, code and bundles of every sample and model, to be the same after a refactor.

    git switch --detach BEFORE && python -m tests.generated --output before.json
    git switch main && python -m tests.generated --output after.json --against before.json

It says which of them differ. What is generated depends on the machine (its caches, its SIMD), so both are of one.
"""
