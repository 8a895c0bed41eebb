"""Codes of what core has fused: Programs, Kernels and Rows, whose loops and threads are arranged here.

What is written by hand for one primitive does not belong here, but in `routines`; what prints a line of WGSL is in
`wgsl`.
"""
