"""Pyodide in Node: its assembly from package registries, its runner, and the tests that need nothing else."""
