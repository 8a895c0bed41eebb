"""Reads the digit in the picture that is chosen in the page."""

from pyscript import document, when

import sardonyx as ort
from sardonyx.demo import assets, digits, picture, pictures, samples

session = ort.InferenceSession((assets() / "digits.onnx").read_bytes())
choice = document.getElementById("pictures")


@when("change", choice)
def read() -> None:
    image = digits.digit(pictures.read(picture(choice.value)))
    (probabilities,) = session.run(None, {"image": image})
    bars = [f"{digit} {p:7.2%} {'█' * round(30 * p)}" for digit, p in enumerate(probabilities[0])]
    document.getElementById("answer").textContent = "\n".join(bars)


for sample in samples():
    option = document.createElement("option")
    option.textContent = sample.name
    choice.append(option)
choice.disabled = False
read()
