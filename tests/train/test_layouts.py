#!/usr/bin/python3
"""The same losses and whole-model gradient norms on every layout."""
from harness import *

STEPS = 30
MODEL = {**SMALL, "layers": 4, "steps": STEPS, "val-every": 10, "seed": 7}
# name, ranks, options
LAYOUTS = [
    ("1", 1, {}),
    ("DP 2", 2, {}),
    ("TP 2", 2, {"tp": 2}),
    ("PP 2", 2, {"pp": 2}),
    ("PP 4", 4, {"pp": 4}),
    (f"DP {BIG // 4}, TP 2, PP 2", BIG, {"tp": 2, "pp": 2}),
    ("DP 2, zero 1", 2, {"zero": 1}),
    ("accumulation 4", 1, {"micro-batch": 2}),
    ("DP 2, accumulation 4, zero 1", 2, {"micro-batch": 1, "zero": 1}),
    ("PP 3, uneven stages", 3, {"pp": 3}),
]

fresh_work()
data = write_text("text")
curves = []
for number, (name, ranks, given) in enumerate(LAYOUTS):
    file = f"metrics-{number}"
    took = must(ranks, {**MODEL, **given, "data": data, "metrics": file})
    curves.append(metrics(file))
    print(f"{name}: {took.seconds:.1f} s", flush=True)
first = curves[0]
check("learns", first[-1]["loss"] < first[0]["loss"] - 0.5, first[-1]["loss"])
check("begins near log(256)", abs(first[0]["loss"] - 5.545) < 0.3,
      first[0]["loss"])
for (name, _, _), curve in zip(LAYOUTS, curves):
    check(f"{name}: steps", [line["step"] for line in curve] ==
          list(range(1, STEPS + 1)), len(curve))
    for line, wanted in zip(curve, first):
        for key in ("loss", "grad_norm", "val_loss"):
            if key in wanted:
                check(f"{name}: step {line['step']}: {key}",
                      close(line[key], wanted[key]),
                      f"{line[key]} for {wanted[key]}")
finish()
