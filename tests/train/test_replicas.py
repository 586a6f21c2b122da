#!/usr/bin/python3
"""Replicas stay the same bits, over data- and tensor-parallel ranks, under
every policy that can be had."""
from harness import *

REPLICAS = os.path.join(BUILD, "bin", "replicas")
STEPS = "4"
# ranks, tp, pp, zero
LAYOUTS = [(2, 1, 1, 0), (2, 2, 1, 0), (3, 1, 1, 1), (8, 2, 2, 0),
           (8, 2, 2, 1)]
# Each message is coded, however small. The last ones on 8 ranks alone.
POLICIES = [policy + ";min=0" for policy in (
    "none", "mzhybrid:8", "zhybrid:16,8", "zfp:6", "mpc", "bf16", "mxint8",
    "expo", "mxhybrid")]
FEWER = POLICIES[-3:]


def launch(name, words):
    """What the run printed; None where the policy is not built."""
    ranks = str(words[0])
    try:
        result = subprocess.run([LAUNCHER, *FLAGS, "-n", ranks, REPLICAS, data,
                                 *map(str, words[1:]), STEPS],
                                capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        check(name, False, "a hang")
        return ""
    if "not in this build" in result.stderr:
        return None
    check(name, result.returncode == 0, result.stderr[-1000:])
    return result.stdout


fresh_work()
data = write_text("text")
for policy in POLICIES:
    for layout in LAYOUTS[-2:] if policy in FEWER else LAYOUTS:
        ranks, tp, pp, zero = layout
        name = f"{policy}, {ranks} ranks, tp {tp}, pp {pp}, zero {zero}"
        said = launch(name, [*layout, policy])
        if said is None:
            print(f"{policy} skipped: not in this build", flush=True)
            break
        print(name, said.strip(), flush=True)
        if layout == LAYOUTS[-1]:
            again = launch(name, [*layout, policy])
            check(f"{name}, once more", again == said, again)
finish()
