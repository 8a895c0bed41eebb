"""WebAssembly for Sardonyx: an assembler, SIMD kernels and the hosts that run them."""
