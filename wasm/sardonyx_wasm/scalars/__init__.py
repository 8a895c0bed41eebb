"""One element: how WebAssembly holds each dtype, its bits in memory, and every scalar function of it.

Four at a time are `vectors`; statements and loops are `programs`.
"""
