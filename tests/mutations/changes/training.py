"""Mistakes in training and in teaching."""

from __future__ import annotations

from tests.mutations.runner import Mutation

_ROOM = "core/sardonyx/training"
_ARTIFACTS = "tests/training/test_artifacts.py"
_STATE = "tests/training/test_state.py"
_TEACH = "tests/training/test_teach.py"

_AWARE = "tests/training/test_aware.py"

TRAINING = [
    Mutation(
        "what rounding adds depends on what is rounded",
        f"{_ROOM}/aware/trainer.py",
        "learnt, [], found.errors)",
        "learnt, [])",
        (_AWARE,),
    ),
    Mutation(
        "a bias keeps its scale where those of its product change",
        f"{_ROOM}/aware/written.py",
        "                if before.size == product.size:\n",
        "                if False:\n",
        (_AWARE,),
    ),
    Mutation(
        "gradients of a second step replace those of the first",
        f"{_ROOM}/api/module.py",
        "        self._accumulate = True\n",
        "        self._accumulate = False\n",
        ("tests/training/test_module.py",),
    ),
    Mutation(
        "the first step of an optimizer has the number 0",
        f"{_ROOM}/api/optimizer.py",
        "self._state.step + 1], np.int64",
        "self._state.step], np.int64",
        ("tests/training/test_onnxruntime.py",),
    ),
    Mutation(
        "PyTorch's AdamW adds epsilon before the bias is corrected",
        f"{_ROOM}/onnxblock/optim.py",
        '            deviation = body.add("Div", deviation, root)\n',
        '            speed = body.add("Mul", speed, root)\n',
        ("tests/training/test_steps.py",),
    ),
    Mutation(
        "a layer that is used twice begins anew with its statistics",
        f"{_ROOM}/gradient_model.py",
        "latest.get(held, held)",
        "held",
        (_ARTIFACTS,),
    ),
    Mutation(
        "Dropout goes on in evaluation",
        f"{_ROOM}/gradient_model.py",
        "            del node.inputs[2:]\n",
        "            del node.inputs[3:]\n",
        (_ARTIFACTS,),
    ),
    Mutation(
        "one vector has frozen parameters where trained ones are asked for",
        f"{_ROOM}/api/module.py",
        "if self._held(each).requires_grad or not trainable_only",
        "if self._held(each).requires_grad or trainable_only",
        (_STATE,),
    ),
    Mutation(
        "elements in a checkpoint lie at multiples of 4",
        "core/sardonyx/model/serde/flatbuffer_writer.py",
        "ALIGNMENT = 8\n",
        "ALIGNMENT = 4\n",
        (_STATE,),
    ),
    Mutation(
        "a learning rate falls from the first step on",
        f"{_ROOM}/api/lr_scheduler.py",
        "max(1, self._total - self._warmup)",
        "max(1, self._total)",
        (_STATE,),
    ),
    Mutation(
        "a head learns what is held out",
        f"{_ROOM}/head.py",
        "    known = embeddings[~held_out]\n",
        "    known, held_out = embeddings, held_out & False\n",
        (_TEACH,),
    ),
    Mutation(
        "a head is that of the last step",
        f"{_ROOM}/head.py",
        "        if loss < lowest - GAIN:\n",
        "        if loss < np.inf:\n",
        (_TEACH,),
    ),
    Mutation(
        "a head forgets the mean of what it learnt from",
        f"{_ROOM}/head.py",
        "(best[1] - weight @ mean)",
        "best[1]",
        (_TEACH,),
    ),
    Mutation(
        "tokens that are not there count in a mean",
        f"{_ROOM}/encoder.py",
        "    if MASK in [value.name",
        '    if "" in [value.name',
        (_TEACH,),
    ),
]
