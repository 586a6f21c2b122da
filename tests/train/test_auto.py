#!/usr/bin/python3
"""The policy auto in a run: it is measured once, told, kept in checkpoints and
used again when the run is resumed; another one replaces it."""
import re

from harness import *

fresh_work()
ASKED = "auto:zfp:8;min=4096"
MODEL = {**SMALL, "data": write_text("text"), "tp": 2, "steps": 9,
         "val-windows": 2}


def measured(result):
    """The policy that a run says it measured; None: it did not say so."""
    found = re.search(r"comm (\S+), measured: (\S+)", result.stderr +
                      result.stdout)
    return found and found.groups()


first = must(4, {**MODEL, "comm": ASKED, "stop-at": 3, "ckpt-dir": "ckpt"})
asked, policy = measured(first) or (None, None)
check("what was asked is told", asked == ASKED, asked)
check("nothing is left to measure", policy and "auto" not in policy, policy)
check("keys stay", policy.endswith(";min=4096;hier=0"), policy)
check("parameters lose nothing", "zfp" not in policy.split("param=")[1])

# Asked again in the same words, or not at all.
for step, again in ((6, {"comm": ASKED}), (9, {})):
    result = must(4, {"data": "text", "resume": "auto", "ckpt-dir": "ckpt",
                      "stop-at": step, **again})
    check(f"the same policy up to step {step}",
          measured(result) == (ASKED, policy), measured(result))
# Its string is a policy as any other, and makes the same bits.
must(4, {**MODEL, "comm": policy, "metrics": "one", "ckpt-dir": "whole"})
must(4, {**MODEL, "comm": policy, "metrics": "two"})
check("the same bits", [line["loss"] for line in metrics("one")] ==
      [line["loss"] for line in metrics("two")])
# On another layout it is measured anew: alone a rank has nothing to send.
result = must(1, {"data": "text", "resume": "ckpt", "ckpt-dir": "alone",
                  "stop-at": 7})
ALONE = "dp=none;tp=none;pp=none;param=none;min=4096;hier=0"
check("measured for one rank", measured(result) == (ASKED, ALONE),
      measured(result))
# Another policy replaces it, and is kept instead.
MORE = {"data": "text", "resume": "ckpt", "ckpt-dir": "other"}
result = must(4, {**MORE, "comm": "none"})
check("replaced", measured(result) is None and "comm none" in
      result.stdout + result.stderr, result.stderr)
result = must(4, {**MORE, "comm": "auto;min=4096"})
check("another auto is measured", measured(result)[0] == "auto;min=4096")
check("and lossless", "zfp" not in measured(result)[1])
finish()
