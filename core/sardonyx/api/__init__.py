"""What callers hold, with onnxruntime's names: sessions, options, values; not how a graph becomes a plan, or is run.

`session.py` is the door: its `InferenceSession` owns a `Runner`, and that everything else. `names.py` says in which
module each public name is defined; `capi`, `backend` and `datasets` are onnxruntime's inner modules.
"""
