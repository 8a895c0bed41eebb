"""Text of shaders: values, functions, expressions, statements, the buffers that are declared, and four lanes at once.

What decides which thread does what does not belong here, but in `kernels` and `routines`.
"""
