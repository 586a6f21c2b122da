#!/usr/bin/python3
"""--ckpt-local with --ckpt-tier: each node drains its part to a directory that
all see, where a checkpoint is whole; going on from there where a node has lost
its disk, has damage, or other ranks than before; and after a kill."""
from harness import *

BASE = {**SMALL, "data": "text", "steps": 12, "ckpt-every": 4}
LOCAL = {"ckpt-local": 1, "ckpt-tier": "slow"}
ON = {"data": "text", **LOCAL, "resume": "auto"}


def words_of(given, dirs):
    """Rank r with --ckpt-dir dirs[r]."""
    words = [LAUNCHER, *FLAGS]
    for rank, directory in enumerate(dirs):
        words += [":"] if rank else []
        words += ["-n", "1", TRAIN,
                  *options({**given, "ckpt-dir": directory})]
    return words


def local(given, dirs=("node0", "node1")):
    """As run()."""
    return subprocess.run(words_of(given, dirs), capture_output=True,
                          timeout=LIMIT, text=True)


def curve(path):
    return [(line["step"], line["loss"]) for line in metrics(path)]


def lull(*words):
    result = subprocess.run([LULL, *words], capture_output=True, text=True)
    check(" ".join(words), result.returncode == 0, result.stderr)
    return result.stdout


def steps(directory):
    return [int(name[5:]) for name in committed(directory)]


def again(name, before):
    """Directories as they are, to be restored by back()."""
    shutil.rmtree(name, ignore_errors=True)
    os.mkdir(name)
    for directory in before:
        shutil.copytree(directory, os.path.join(name, directory))


def back(name, directories):
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(os.path.join(name, directory), directory)


def after_a_kill():
    """Until the tier has some, then SIGKILL; a node is lost with it."""
    given = {**BASE, **LOCAL, "steps": 1000000, "ckpt-every": 2,
             "ckpt-tier": "slow9"}
    launcher = start(2, None, "errors",
                     words_of(given, ["node9", "node10"]))
    check("drains", wait_for(lambda: os.path.isdir("slow9") and
                             len(steps("slow9")) > 2), open("errors").read())
    for rank in ranks_of(launcher.pid):
        kill(rank)
    check("ends", wait_for(lambda: launcher.poll() is not None))
    newest = steps("slow9")[-1]
    lull("verify", "--all", "slow9")
    shutil.rmtree("node10")
    result = local({**ON, "ckpt-tier": "slow9", "ckpt-every": 2,
                    "stop-at": newest + 4, "metrics": "on.m"},
                   ["node9", "node10"])
    check("on after a kill", result.returncode == 0 and
          f"step {newest} in" in result.stderr, result.stderr)
    check("drained after a kill", steps("slow9")[-1] == newest + 4,
          steps("slow9"))
    lull("verify", "--all", "slow9")
    must(2, {**BASE, "steps": 1000000, "ckpt-every": None,
             "stop-at": newest + 4, "metrics": "straight.m"})
    check("the same bits", curve("on.m") == curve("straight.m")[newest:])


DIRS = ("node0", "node1", "slow")
fresh_work()
write_text("text")
must(2, {**BASE, "ckpt-dir": "whole", "metrics": "whole.m"})
result = local({**BASE, **LOCAL, "keep-last": 1, "stop-at": 8,
                "metrics": "parts.m"})
check("first part", result.returncode == 0, result.stderr)
check("all are drained", steps("slow") == [4, 8], steps("slow"))
check("nodes keep one", steps("node0") == steps("node1") == [8],
      steps("node0") + steps("node1"))
lull("verify", "--all", "slow")
lull("diff", "slow/step-00000008", "whole/step-00000008")
check("whole for any reader", "elsewhere" not in lull("show", "slow"))
again("at8", DIRS)

# Both parts are the whole; each rank goes on from its own disk.
result = local({**ON, "metrics": "parts.m"})
check("second part", result.returncode == 0 and "step 8 in" in result.stderr
      and "node0" in result.stderr, result.stderr)
check("8 + 4 are 12", curve("parts.m") == curve("whole.m"))

# A new node; then a node with damage; then none is as it was.
back("at8", DIRS)
shutil.rmtree("node1")
result = local({**ON, "metrics": "new.m"})
check("a new node", result.returncode == 0 and "step 8 in" in result.stderr
      and "node0" in result.stderr, result.stderr)
check("the same with a new node", curve("new.m") == curve("whole.m")[8:])
check("drained by a new node", steps("slow") == [4, 8, 12], steps("slow"))
lull("diff", "slow/step-00000012", "whole/step-00000012")
back("at8", DIRS)
path = "node1/step-00000008/rank-00001.safetensors"
with open(path, "r+b") as file:
    file.seek(-4000, 2)
    byte = file.read(1)[0]
    file.seek(-4000, 2)
    file.write(bytes([byte ^ 1]))
result = local({**ON, "metrics": "damaged.m"})
check("damage", result.returncode == 0 and
      "rank 1 takes step 8 from slow" in result.stderr and
      "rank-00001.safetensors" in result.stderr, result.stderr)
check("the same from another copy",
      curve("damaged.m") == curve("whole.m")[8:])
back("at8", DIRS)
for node in ("node0", "node1"):
    shutil.rmtree(node)
result = local({**ON, "metrics": "lost.m"})
check("from the slow tier alone", result.returncode == 0 and
      "step 8 in slow" in result.stderr, result.stderr)
check("the same from there", curve("lost.m") == curve("whole.m")[8:])

# Other ranks than before: what a node has not is in the slow tier. A newer one
# that was never drained is passed over where a node has lost it.
back("at8", DIRS)
result = local(ON, ["node0", "node0", "node1", "node1"])
check("other ranks", result.returncode == 0 and "step 8 in" in result.stderr,
      result.stderr)
check("drained by other ranks", steps("slow") == [4, 8, 12], steps("slow"))
back("at8", DIRS)
result = local({**ON, "ckpt-tier": None})
check("not drained", result.returncode == 0 and steps("node1") == [8, 12],
      result.stderr)
shutil.rmtree("node1")
result = local({**ON, "metrics": "older.m"})
check("the newest of all", result.returncode == 0 and
      "step 8 in" in result.stderr, result.stderr)
check("the same from an older one", curve("older.m") == curve("whole.m")[8:])
after_a_kill()
finish()
