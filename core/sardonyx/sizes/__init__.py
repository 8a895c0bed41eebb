"""Sizes as polynomials of symbols, with guards on what they are, and code that computes them; no arrays."""
