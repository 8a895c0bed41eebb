"""Kernels, routines and programs as data, and the expressions inside them; no provider's language is known here."""
