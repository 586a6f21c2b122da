#!/usr/bin/python3
"""SIGKILL of one rank or of all at random moments, over and over: the newest
committed checkpoint always loads and verifies, no rank hangs, leftovers go."""
from harness import *

KILLS = int(os.environ.get("LULL_TEST_KILLS", "32"))
DIR = "ckpt"
# ranks, options: each start goes on from whatever the last one left
LAYOUTS = [(2, {"tp": 2, "pp": 1}), (2, {"tp": 1, "pp": 1, "zero": 1}),
           (4, {"tp": 1, "pp": 2}), (1, {"tp": 1, "pp": 1})]


def newest():
    """(seq, step) of the newest commit, by the manifests alone."""
    best = (0, 0)
    for name in committed(DIR):
        try:
            with open(os.path.join(DIR, name, "manifest.json")) as file:
                text = json.loads(file.read())
        except FileNotFoundError:
            continue  # retention took it between
        best = max(best, (int(text["seq"]), int(text["step"])))
    return best


def begin(ranks, layout, number):
    errors = f"errors-{number}"
    return start(ranks, {**MODEL, **layout}, errors), errors


def strike(launcher, whole, chance):
    ranks = ranks_of(launcher.pid)
    if not ranks:
        return False
    victims = ranks if whole else [chance.choice(ranks)]
    for victim in victims:
        kill(victim)
    return True


def is_over(launcher):
    return launcher.poll() is not None


def verify(number):
    result = subprocess.run([LULL, "verify", DIR], capture_output=True)
    check(f"kill {number}: verifies", result.returncode == 0,
          result.stderr.decode("latin-1"))


fresh_work()
chance = seed()
MODEL = {**SMALL, "data": write_text("text"), "steps": 1000000, "warmup": 10,
         "ckpt-dir": DIR, "ckpt-every": 1, "keep-last": 3, "resume": "auto",
         "val-windows": 2, "hidden": 64}
inside, kills, before = 0, 0, (0, 0)
while kills < KILLS or inside == 0:
    ranks, layout = LAYOUTS[kills % len(LAYOUTS)]
    launcher, errors = begin(ranks, layout, kills)
    began = wait_for(lambda: newest() > before or is_over(launcher))
    if not began or is_over(launcher):
        check(f"start {kills}: goes on", False, open(errors).read())
        kill(launcher.pid)
        break
    time.sleep(chance.uniform(0, 0.25))
    if chance.random() < 0.5:  # wait for a save that is under way
        wait_for(lambda: any(name.startswith(".step-")
                             for name in leftovers(DIR)), 2)
    inside += any(name.startswith(".step-") for name in leftovers(DIR))
    struck = strike(launcher, chance.random() < 0.5, chance)
    check(f"kill {kills}: found ranks", struck)
    over = wait_for(lambda: is_over(launcher))
    check(f"kill {kills}: the launcher ends", over)
    gone = wait_for(lambda: not ranks_of(launcher.pid))
    check(f"kill {kills}: no rank hangs", gone)
    if not over:
        os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()
    check(f"kill {kills}: the run failed", launcher.returncode != 0)
    after = newest()
    check(f"kill {kills}: nothing committed was lost", after >= before,
          f"{after} after {before}")
    verify(kills)
    log = open(errors).read()
    if kills > 0:
        check(f"kill {kills}: resumed from step {before[1]}",
              f"resumed from checkpoint step {before[1]} " in log, log[:600])
    check(f"kill {kills}: passed over none", "passing over" not in log, log)
    before = after
    kills += 1
print(f"{kills} kills, {inside} of them inside a save, at step {before[1]}")
last = must(2, {**MODEL, "stop-at": before[1] + 5})
check("leftovers go", leftovers(DIR) == [], leftovers(DIR))
# Also of the checkpoint that this run itself was resumed from.
check("retention holds", len(committed(DIR)) == 3, committed(DIR))
check("the end is saved", newest()[1] == before[1] + 5, newest())
verify("the last")
finish()
