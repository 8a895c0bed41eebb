# /// script
# requires-python = ">=3.11"
# dependencies = ["marimo", "numpy", "sardonyx>=0; sys_platform != 'emscripten'"]
#
# [tool.uv.sources]
# sardonyx = { path = "../..", marker = "sys_platform != 'emscripten'" }
# ///

import marimo

__generated_with = "0.25.2"
app = marimo.App()


@app.cell
async def _():
    import sys

    import marimo as mo

    if sys.platform == "emscripten":  # in a page the wheel lies in the folder public
        import micropip

        await micropip.install(str(mo.notebook_location() / "public" / "sardonyx-0.1.0-py3-none-any.whl"))

    import sardonyx as ort
    from sardonyx.demo import assets, digits, pictures, samples

    session = ort.InferenceSession((assets() / "digits.onnx").read_bytes())
    return digits, mo, pictures, samples, session


@app.cell
def _(mo, samples):
    choice = mo.ui.dropdown({file.name: file for file in samples()}, value="7_drawn.png", label="Picture")
    return (choice,)


@app.cell
def _(choice, digits, mo, pictures, session):
    image = digits.digit(pictures.read(choice.value))
    (probabilities,) = session.run(None, {"image": image})
    bars = "\n".join(f"{digit} {p:7.2%} {'█' * round(30 * p)}" for digit, p in enumerate(probabilities[0]))
    drawn = mo.image(choice.value.read_bytes(), width=200)
    mo.vstack([choice, mo.hstack([drawn, mo.plain_text(bars)], justify="start")])
    return (bars,)


if __name__ == "__main__":
    app.run()
