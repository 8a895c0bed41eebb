"""Bundles: compiled models in one file, `.sdx`, for pages without Python, and for Python without the compiler.

A bundle holds for each of its targets, `wasm` and `webgpu`, the plans (one for each bucket of shapes) and their code,
and once the weights. `compile_model` makes one, `InferenceSession("model.sdx")` runs it, and so does `web/sardonyx`.

The file, all numbers little-endian:

    bytes  what
    8      89 53 44 58 0d 0a 1a 0a: what mangles text, or cuts the eighth bit off, is noticed
    4      the version of this format, `VERSION`
    4      how many bytes the manifest has
    4      CRC-32 of the manifest
    4      CRC-32 of the 20 bytes before
           the manifest, JSON in UTF-8
           sections, each from a multiple of 64 bytes on, zeros between

The manifest lists sections in their order in the file, `[name, bytes, CRC-32]`: code first, then weights in the order
in which they are wanted, so that a reader can work while the rest is on its way, then code for engines that lack
something. Two more numbers are there where a section is deflated (see `deflated`): `bytes` that it holds, and of how
many an element consists. `plans` are told by `stored`, `targets` by the providers. The same input gives the same bytes,
deflated by the same zlib.
"""

from __future__ import annotations

from sardonyx.plans.bundle.format import VERSION, Bundle

__all__ = ["VERSION", "Bundle"]
