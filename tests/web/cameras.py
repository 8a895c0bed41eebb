"""A camera for pages: a canvas with two shapes, as a stream of frames."""

from __future__ import annotations

CAMERA = """
globalThis.streams = [];
navigator.mediaDevices.getUserMedia = async () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 640, height: 480 });
  const brush = canvas.getContext("2d");
  const heart = new Path2D("M0-.45C.2-1.05 1.05-.95 1-.3C.97.15.4.5 0 .95C-.4.5-.97.15-1-.3C-1.05-.95-.2-1.05 0-.45Z");
  const draw = () => {
    brush.fillStyle = "#f4efe6";
    brush.fillRect(0, 0, 640, 480);
    brush.fillStyle = "#b3261e";
    brush.setTransform(80, 0, 0, 80, 190, 240);
    brush.fill(heart);
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.lineWidth = 12;
    brush.strokeStyle = "#1d2b4f";
    brush.strokeRect(400, 180, 130, 130);
    requestAnimationFrame(draw);
  };
  draw();
  const stream = canvas.captureStream(30);
  streams.push(stream);
  return stream;
};
"""
"""A heart, from (110, 155) to (270, 316), and a square, from (394, 174) to (536, 316), in 640 x 480 pixels."""
