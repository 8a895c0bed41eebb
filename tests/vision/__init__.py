"""What is in a picture, and where: against formulas in float64 NumPy."""
