"""PyTorch modules of many families, exported by both of its exporters, that must do here what they do there.

`families/` holds the modules: each in the topology of the published one, narrow and shallow, with random weights.
"""
