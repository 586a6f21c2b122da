#!/usr/bin/python3
"""The same training as PyTorch: losses and gradient norms of 20 steps, and
the first step's gradients, from the same weights and batches."""
from harness import *

try:
    import numpy
    import torch
except ImportError as error:
    skip(f"python3-torch and python3-numpy are needed: {error}")
import reference

STEPS, WARMUP, LR = 20, 4, 0.002
# Sizes that do not fill blocks or vectors, and the demo's.
MODELS = [{"layers": 3, "hidden": 72, "heads": 3, "seq": 77,
           "global-batch": 6, "micro-batch": 2},
          {"layers": 4, "hidden": 128, "heads": 4, "seq": 128,
           "global-batch": 8, "micro-batch": 8},
          {"layers": 1, "hidden": 8, "heads": 1, "seq": 1,
           "global-batch": 4, "micro-batch": 4}]


def relative(ours, theirs):
    return numpy.linalg.norm(ours - theirs) / max(numpy.linalg.norm(theirs),
                                                  1e-30)


def compare_gradients(name, theirs):
    ours = reference.read_safetensors("grads")
    check(f"{name}: names", set(ours) == set(theirs))
    whole = numpy.sqrt(sum(numpy.linalg.norm(theirs[key]) ** 2
                           for key in theirs))
    worst = 0
    for key, theirs_one in theirs.items():
        # What is zero but for rounding has no relative error of its own.
        if numpy.linalg.norm(theirs_one) > 1e-6 * whole:
            error = relative(ours[key], theirs_one)
            worst = max(worst, error)
            check(f"{name}: gradient of {key}", error < 1e-4, error)
    print(f"{name}: worst gradient {worst:.1e}")


def compare(number, shape):
    name = f"model {number}"
    must(1, {**shape, "steps": STEPS, "warmup": WARMUP, "lr": LR,
             "val-windows": 1, "data": "text", "metrics": "metrics",
             "dump-init": "init", "dump-batches": "batches",
             "dump-grads": "grads", "seed": number})
    model = reference.Model(reference.read_safetensors("init"),
                            shape["heads"])
    ours = metrics("metrics")
    check(f"{name}: steps", len(ours) == STEPS)
    worst = 0
    steps = reference.train(model, reference.read_batches("batches"), STEPS,
                            WARMUP, LR)
    for line, (loss, norm, gradients) in zip(ours, steps):
        for key, theirs in (("loss", loss), ("grad_norm", norm)):
            worst = max(worst, abs(line[key] - theirs) / theirs)
            check(f"{name}: step {line['step']}: {key}",
                  close(line[key], theirs), f"{line[key]} for {theirs}")
        if gradients:
            compare_gradients(name, gradients)
    print(f"{name}: worst loss or norm {worst:.1e}", flush=True)


torch.set_num_threads(1)
fresh_work()
write_text("text")
for number, shape in enumerate(MODELS):
    compare(number, shape)
    for file in ("metrics", "init", "batches", "grads"):
        os.remove(file)
finish()
