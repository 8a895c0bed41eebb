"""Plans as data: made of steps, checked, kept and bundled; neither compiled here nor run."""
