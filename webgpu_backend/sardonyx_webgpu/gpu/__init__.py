"""WebGPU itself: what the backend asks of it, and who gives it, wgpu natively or a page's `navigator.gpu`.

What knows of plans, tensors or kernels does not belong here, but in `runtime`.
"""
