"""The example for desktops (examples/desktop): its window on a screen that is not there, and frozen."""
