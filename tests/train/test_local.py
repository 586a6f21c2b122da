#!/usr/bin/python3
"""--ckpt-local: each rank's checkpoints in a directory of its own, as on disks
of nodes; a run in two parts is the run in one, also where one directory has
lost the newest, and is refused where one has lost all or is of another run."""
from harness import *

BASE = {**SMALL, "data": "text", "steps": 12, "ckpt-every": 4,
        "ckpt-local": 1}


def local(given, dirs=("node0", "node1")):
    """As run(), rank r with --ckpt-dir dirs[r]."""
    words = [LAUNCHER, *FLAGS]
    for rank, directory in enumerate(dirs):
        words += [":"] if rank else []
        words += ["-n", "1", TRAIN,
                  *options({**given, "ckpt-dir": directory})]
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
# A newest one that is damaged on one node is passed over, and that is said.
shutil.copytree("node0", "copy0")
shutil.copytree("node1", "copy1")
os.truncate("copy1/step-00000012/rank-00001.safetensors", 100)
result = local({"data": "text", "ckpt-local": 1, "resume": "auto",
                "stop-at": 10}, ["copy0", "copy1"])
check("damage elsewhere", result.returncode == 0 and
      "step 8 in" in result.stderr and
      "passing over checkpoint step 12" in result.stderr, result.stderr)
# Directories of different runs are not put together.
result = local({**BASE, "seed": 7, "stop-at": 8}, ["other0", "other1"])
check("another run", result.returncode == 0, result.stderr)
shutil.rmtree("copy0")
shutil.copytree("node0", "copy0")
shutil.rmtree("copy0/step-00000012")
result = local({"data": "text", "ckpt-local": 1, "resume": "auto"},
               ["copy0", "other1"])
check("mixed up", result.returncode == 1 and
      "of another run" in result.stderr, result.stderr)
# A checkpoint of another run among one's own, with the number of the newest.
result = local({**BASE, "seed": 7, "ckpt-every": 6}, ["third0", "third1"])
check("a third run", result.returncode == 0, result.stderr)
shutil.copytree("third0/step-00000012", "copy0/step-00000012")
shutil.rmtree("copy1")
shutil.copytree("node1", "copy1")
shutil.rmtree("copy1/step-00000012")
result = local({"data": "text", "ckpt-local": 1, "resume": "auto",
                "stop-at": 10}, ["copy0", "copy1"])
check("a foreign one among them", result.returncode == 0 and
      "step 8 in" in result.stderr and
      "passing over checkpoint step 12" in result.stderr, result.stderr)
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
