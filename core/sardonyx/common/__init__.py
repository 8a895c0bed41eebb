"""What any room may use, and nothing that knows of models: element types, strings, memory, threads, caches, words."""
