"""Codes run here: the device with its memory, bind groups and pipelines, the queue of commands, the choice of designs.

What writes codes does not belong here, nor what a browser and wgpu do differently, which is in `gpu`.
"""
