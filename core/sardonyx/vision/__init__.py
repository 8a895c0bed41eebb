"""What is in a picture, and where: boxes, classes, masks, text; not how networks run, nor pixels that a plan makes.

    from sardonyx import vision

    detector = vision.Detector("yolo.onnx")
    for found in detector.detect("street.jpg"):
        print(found.label, found.score, found.box)  # left, top, right and bottom, in pixels of the picture

    for seen in vision.watch("yolo.onnx"):  # frame after frame of a camera
        print([found.label for found in seen.found])

An object keeps its session, for picture after picture; `detect`, `classify` and `segment` do the same for one. The way
from a picture to the answer is part of the model's plan (`sardonyx.passes`), so that a page with a bundle has it, too.
"""

from __future__ import annotations

from sardonyx.passes.picture import Picture
from sardonyx.vision.classifier import Class, Classifier, classify
from sardonyx.vision.detector import Detector, Found, detect
from sardonyx.vision.reader import Line, Reader, read
from sardonyx.vision.segmenter import Segmenter, segment
from sardonyx.vision.watcher import Seen, Watcher, watch

__all__ = [
    "Class",
    "Classifier",
    "Detector",
    "Found",
    "Line",
    "Picture",
    "Reader",
    "Seen",
    "Segmenter",
    "Watcher",
    "classify",
    "detect",
    "read",
    "segment",
    "watch",
]
