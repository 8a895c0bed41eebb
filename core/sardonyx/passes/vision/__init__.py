"""Models that take a picture as it comes, and give what is in it, in the picture's own pixels; all by ONNX operators.

    detection       boxes float32 [n, 4], scores float32 [n], labels int64 [n], the surest first
    classification  scores float32 [k], labels int64 [k], the surest first
    segmentation    mask uint8 [height, width]

`sight.py` finds the input and the way back from it; `heads.py` says how families of detectors tell boxes, and
`recognition.py` which family a model is of.
"""
