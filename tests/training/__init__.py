"""Training against PyTorch's and onnxruntime-training's figures: losses, gradients, steps, checkpoints."""
