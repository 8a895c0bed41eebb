"""Only tests are collected here: some other files need PyTorch to be imported."""

from pathlib import Path

collect_ignore = [str(file) for file in Path(__file__).parent.rglob("*.py") if not file.name.startswith("test_")]
