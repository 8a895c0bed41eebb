"""The rooms of the house: which there are, which imports go between them, and on how many floors they lie.

A room is a folder of `core/sardonyx`, or a module beside them; each backend, the demo page and the boards are one. An
arrow is an import of another room, in whatever place: at the top, in a function, or under `TYPE_CHECKING`. A floor is a
step of the longest way down. `python -m tests.rooms` counts them; `--tree` does so for another checkout.
"""
