#!/usr/bin/python3
"""--ckpt-local: each rank's checkpoints in a directory of its own, as on disks
of nodes; a run in two parts is the run in one, also where one directory has
lost the newest, and is refused where one has lost all."""
from harness import *

BASE = {**SMALL, "data": "text", "steps": 12, "ckpt-every": 4,
        "ckpt-local": 1}


def local(given, ranks=2):
    """As run(), rank r with --ckpt-dir nodeR."""
    words = [LAUNCHER, *FLAGS]
    for rank in range(ranks):
        words += [":"] if rank else []
        words += ["-n", "1", TRAIN,
                  *options({**given, "ckpt-dir": f"node{rank}"})]
    return subprocess.run(words, capture_output=True, timeout=LIMIT,
                          text=True)


def curve(path):
    return [(line["step"], line["loss"]) for line in metrics(path)]


fresh_work()
write_text("text")
must(2, {**BASE, "ckpt-dir": "whole", "ckpt-local": 0, "metrics": "whole.m"})
result = local({**BASE, "stop-at": 8, "metrics": "parts.m"})
check("first part", result.returncode == 0, result.stderr)
for rank in range(2):
    names = sorted(os.listdir(f"node{rank}/step-00000008"))
    check(f"files of rank {rank}", names == [
        "manifest.json", f"rank-0000{rank}.json",
        f"rank-0000{rank}.safetensors"], names)
shown = subprocess.run([LULL, "show", "node0"], capture_output=True, text=True)
check("elsewhere", "rank-00001.safetensors in " in shown.stdout and
      os.path.abspath("node1") in shown.stdout, shown.stdout)
result = local({"data": "text", "ckpt-local": 1, "resume": "auto",
                "metrics": "parts.m"})
check("second part", result.returncode == 0 and "step 8 in" in result.stderr,
      result.stderr)
check("8 + 4 are 12", curve("parts.m") == curve("whole.m"))
for step in (12, 8):
    shutil.rmtree(f"node1/step-{step:08}")
result = local({"data": "text", "ckpt-local": 1, "resume": "auto",
                "metrics": "again.m"})
check("the newest of all", result.returncode == 0 and
      "step 4 in" in result.stderr, result.stderr)
check("the same again", curve("again.m") == curve("whole.m")[4:])
shutil.rmtree("node1")
result = local({"data": "text", "ckpt-local": 1, "resume": "auto"})
check("never over what is there", result.returncode == 1 and
      "directories of all ranks" in result.stderr, result.stderr)
finish()
