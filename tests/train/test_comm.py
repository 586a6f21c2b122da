#!/usr/bin/python3
"""Training under policies of communication: lossless ones change nothing,
lossy ones little, and what they save is in the metrics."""
from harness import *

LAYOUT = {"tp": 2, "pp": 2}
ROLES = ("dp", "tp", "pp") if BIG == 8 else ("tp", "pp")

fresh_work()
MODEL = {**SMALL, "data": write_text("text"), **LAYOUT, "val-every": 10}


def curve(policy):
    must(BIG, {**MODEL, "comm": policy, "metrics": policy})
    return metrics(policy)


def ratio(lines, role):
    sums = [line["comm"][role] for line in lines]
    return sum(one["bytes"] for one in sums) / sum(one["wire_bytes"]
                                                   for one in sums)


plain = curve("none")
for role in ROLES:
    check(f"none: ratio of {role}", ratio(plain, role) == 1.0)
for policy, error, least in (("mpc;min=0", 1e-5, 0.5),
                             ("zfp:16;min=0", 2e-3, 1.5),
                             ("zhybrid;min=0", 2e-2, 1.5)):
    lines = curve(policy)
    for line, want in zip(lines, plain):
        check(f"{policy}: loss of step {line['step']}",
              close(line["loss"], want["loss"], error),
              f"{line['loss']} for {want['loss']}")
    for role in ROLES:
        check(f"{policy}: ratio of {role}", ratio(lines, role) > least,
              ratio(lines, role))
    check(f"{policy}: other is never coded", ratio(lines, "other") == 1.0)
# What codes without loss changes no bit of what lull's own algorithm does.
raw = [(line["loss"], line["grad_norm"]) for line in curve("raw;min=0")]
for policy in ("mpc;min=0", "expo;min=0"):
    got = [(line["loss"], line["grad_norm"]) for line in curve(policy)]
    check(f"{policy}: the curve of raw, bit for bit", got == raw,
          list(zip(got, raw)))
# The same weights in a run that codes nothing have the same validation loss.
must(BIG, {**MODEL, "comm": "zhybrid;min=0", "ckpt-dir": "ckpt",
           "metrics": "coded"})
must(1, {"data": "text", "resume": "ckpt", "comm": "none", "steps": None,
         "dump-init": "weights"})
must(1, {**MODEL, "tp": 1, "pp": 1, "init": "weights", "lr": 0, "steps": 1,
         "warmup": 1, "val-every": 1, "metrics": "check"})
check("validation is never coded", close(
    metrics("coded")[-1]["val_loss"], metrics("check")[-1]["val_loss"]),
      f"{metrics('coded')[-1]['val_loss']} {metrics('check')[-1]['val_loss']}")
finish()
