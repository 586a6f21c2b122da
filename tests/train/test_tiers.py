#!/usr/bin/python3
"""Checkpoints in two tiers: drained while training goes on, merged, kept by
each tier's rules; going on from the slow one after a kill, when the fast one is
gone or damaged."""
from harness import *

KEYS = ("loss", "grad_norm")
BASE = {**SMALL, "steps": 30, "ckpt-every": 2, "val-windows": 2}


def curve(path):
    return {line["step"]: [line[key] for key in KEYS] for line in metrics(path)}


def tier(fast, slow, **more):
    return {"ckpt-dir": fast, "ckpt-tier": slow, **more}


def lull(*words):
    result = subprocess.run([LULL, *words], capture_output=True)
    check(" ".join(words), result.returncode == 0, result.stderr)


def files(directory, end):
    return [name for name in os.listdir(directory) if name.endswith(end)]


def steps(directory):
    return [int(name[5:]) for name in committed(directory)]


def kept_by_each():
    must(4, {**BASE, "tp": 2, "keep-last": 1, "metrics": "whole",
             **tier("fast", ["slow,keep-last=2,files=2",
                             "slower,keep-last=1,keep-every=10,files=1"])})
    check("fast keeps one", steps("fast") == [30], steps("fast"))
    check("slow keeps two", steps("slow") == [28, 30], steps("slow"))
    check("slower keeps tens", {10, 20, 30} <= set(steps("slower")),
          steps("slower"))
    for directory, wanted in (("fast", 4), ("slow", 2), ("slower", 1)):
        newest = os.path.join(directory, "step-00000030")
        check(f"{directory}: files", len(files(newest, ".safetensors")) ==
              wanted and len(files(newest, ".json")) == wanted + 1,
              os.listdir(newest))
        lull("verify", "--all", directory)
    lull("diff", "fast/step-00000030", "slower/step-00000030")


def after_a_kill():
    """Until both tiers have some, then SIGKILL; the fast tier is lost."""
    options = {**BASE, "steps": 1000000, **tier("fast2", "slow2,files=1")}
    launcher = start(2, options, "errors")
    check("drains", wait_for(lambda: len(steps("slow2")) > 2),
          open("errors").read())
    for rank in ranks_of(launcher.pid):
        kill(rank)
    check("ends", wait_for(lambda: launcher.poll() is not None))
    newest = steps("slow2")[-1]
    lull("verify", "--all", "slow2")
    shutil.rmtree("fast2")
    result = must(2, {"data": "text", "resume": "auto", "stop-at": newest + 4,
                      "ckpt-every": 2, "metrics": "on",
                      **tier("fast2", "slow2,files=1")})
    check("from the slow tier", f"checkpoint step {newest} in slow2" in
          result.stderr + result.stdout, result.stderr)
    must(2, {**options, "ckpt-dir": None, "ckpt-tier": None, "ckpt-every": None,
             "stop-at": newest + 4, "metrics": "straight"})
    straight, on = curve("straight"), curve("on")
    check("the same steps", sorted(on) == list(range(newest + 1, newest + 5)),
          sorted(on))
    check("the same bits", all(on[step] == straight[step] for step in on))
    check("both have the end", steps("fast2")[-1] == steps("slow2")[-1] ==
          newest + 4)


def after_damage():
    """A block of the fast copy is bad: a load finds it, and takes the other
    copy of the same step."""
    shutil.copytree("fast", "fast3")
    shutil.copytree("slow", "slow3")
    path = os.path.join("fast3", "step-00000030", "rank-00001.safetensors")
    with open(path, "r+b") as file:
        file.seek(-4000, 2)
        byte = file.read(1)[0]
        file.seek(-4000, 2)
        file.write(bytes([byte ^ 1]))
    result = must(4, {"data": "text", "resume": "auto", "stop-at": 30,
                      **tier("fast3", "slow3,files=2")})
    said = result.stderr + result.stdout
    check("damage is told", "passing over" in said and
          "rank-00001.safetensors" in said, said)
    check("from the other copy", "checkpoint step 30 in slow3" in said, said)


def a_tier_that_fails():
    """It stops nothing; the end tells, and the first tier has all."""
    with open("file", "w"):
        pass
    result = run(1, {**BASE, **tier("fast4", "file/slow")})
    check("not opened", result.returncode == 1 and "file/slow" in
          result.stderr, result.stderr)
    for text, word in ((",files=2", "no directory"), ("a,files=x", "files=x"),
                       ("a,key=1", "key=1")):
        result = run(1, {**BASE, **tier("fast4", text)})
        check(text, result.returncode == 2 and word in result.stderr,
              result.stderr)
    result = run(1, {**BASE, "ckpt-every": None, "ckpt-tier": "a"})
    check("needs a first one", "--ckpt-tier: is about checkpoints" in
          result.stderr, result.stderr)


fresh_work()
BASE["data"] = write_text("text")
kept_by_each()
after_a_kill()
after_damage()
a_tier_that_fails()
finish()
