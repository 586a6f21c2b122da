#!/usr/bin/python3
"""Replicas stay the same bits, over data- and tensor-parallel ranks, under
every policy that can be had."""
from harness import *

REPLICAS = os.path.join(BUILD, "bin", "replicas")
# ranks, tp, pp, zero
LAYOUTS = [(2, 1, 1, 0), (2, 2, 1, 0), (3, 1, 1, 1), (8, 2, 2, 0),
           (8, 2, 2, 1)]
POLICIES = ["none", "mzhybrid:8", "zhybrid:16,8", "zfp:8", "mpc",
            "dp=bf16;tp=bf16;pp=bf16"]


def launch(ranks, words):
    return subprocess.run([LAUNCHER, *FLAGS, "-n", str(ranks), REPLICAS,
                           *map(str, words)], capture_output=True, text=True,
                          timeout=LIMIT)


fresh_work()
data = write_text("text")
for policy in POLICIES:
    for ranks, tp, pp, zero in LAYOUTS:
        result = launch(ranks, [data, tp, pp, zero, policy, 4])
        name = f"{policy}, {ranks} ranks, tp {tp}, pp {pp}, zero {zero}"
        if "not in this build" in result.stderr:
            print(f"{policy} skipped: not in this build", flush=True)
            break
        check(name, result.returncode == 0, result.stderr)
        print(name, result.stdout.strip(), flush=True)
        again = launch(ranks, [data, tp, pp, zero, policy, 4])
        check(name + ", once more", again.stdout == result.stdout,
              again.stdout)
finish()
