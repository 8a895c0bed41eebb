"""A plan is run here: frames, weights, inputs, halts and profiles; the compiler is not imported."""
