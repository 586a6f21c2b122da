#!/usr/bin/python3
"""Tokens/s of eager PyTorch training the model of tests/train/reference.py:
the yardstick of lull-train's speed on one thread. Prints one JSON object."""
import argparse
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tests/train"))

import numpy  # noqa: E402
import torch  # noqa: E402
import reference  # noqa: E402


def random_weights(layers, hidden, rng):
    """Weights of the right shapes; their values do not matter for speed."""
    shapes = {"gpt_neox.embed_in.weight": (256, hidden),
              "gpt_neox.final_layer_norm.weight": (hidden,),
              "gpt_neox.final_layer_norm.bias": (hidden,),
              "embed_out.weight": (256, hidden)}
    for layer in range(layers):
        prefix = f"gpt_neox.layers.{layer}."
        for norm in "input_layernorm", "post_attention_layernorm":
            shapes[prefix + norm + ".weight"] = (hidden,)
            shapes[prefix + norm + ".bias"] = (hidden,)
        for name, rows, cols in (
                ("attention.query_key_value", 3 * hidden, hidden),
                ("attention.dense", hidden, hidden),
                ("mlp.dense_h_to_4h", 4 * hidden, hidden),
                ("mlp.dense_4h_to_h", hidden, 4 * hidden)):
            shapes[prefix + name + ".weight"] = (rows, cols)
            shapes[prefix + name + ".bias"] = (rows,)
    return {name: (rng.standard_normal(shape) * 0.02 + (
        1 if "norm.weight" in name else 0)).astype(numpy.float32)
        for name, shape in shapes.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in (("layers", 4), ("hidden", 128), ("heads", 4),
                        ("seq", 128), ("batch", 16), ("steps", 12)):
        parser.add_argument("--" + name, type=int, default=value)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = numpy.random.default_rng(1)
    model = reference.Model(random_weights(args.layers, args.hidden, rng),
                            args.heads)
    batches = [rng.integers(0, 256, (args.batch, args.seq + 1), numpy.uint8)
               for _ in range(args.steps)]
    times = []
    before = time.monotonic()
    for _ in reference.train(model, batches, args.steps, 1, 1e-3):
        now = time.monotonic()
        times.append(now - before)
        before = now
    median = sorted(times[2:])[len(times[2:]) // 2]
    print(json.dumps({"step_ms": median * 1e3,
                      "tokens_per_s": args.batch * args.seq / median}))


if __name__ == "__main__":
    main()
