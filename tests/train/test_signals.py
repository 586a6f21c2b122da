#!/usr/bin/python3
"""SIGUSR1 to a rank, to the launcher, SIGTERM to `lull train`: the step is
finished, its checkpoint committed, the exit status 0."""
from harness import *

fresh_work()
MODEL = {**SMALL, "data": write_text("text"), "steps": 1000000, "warmup": 10,
         "ckpt-every": 1000000}


def to_rank(launcher):
    kill(ranks_of(launcher.pid)[-1], signal.SIGUSR1)


def to_launcher(launcher):
    kill(launcher.pid, signal.SIGUSR1)


def to_term(launcher):
    kill(launcher.pid, signal.SIGTERM)


def one(name, send, program=None):
    directory, errors, lines = f"{name}-ckpt", f"{name}-err", f"{name}-metrics"
    given = {**MODEL, "ckpt-dir": directory, "metrics": lines}
    words = program + options(given) if program else None
    launcher = start(2, given, errors, words)
    begun = wait_for(lambda: os.path.exists(lines) and
                     os.path.getsize(lines) > 2000)
    check(f"{name}: trains", begun, open(errors).read())
    send(launcher)
    over = wait_for(lambda: launcher.poll() is not None)
    if not over:
        os.killpg(launcher.pid, signal.SIGKILL)
    check(f"{name}: ends", over)
    log = open(errors).read()
    check(f"{name}: exit 0", launcher.wait() == 0, f"{launcher.returncode} " +
          log)
    steps = len(metrics(lines))
    check(f"{name}: its last step is saved",
          committed(directory) == [f"step-{steps:08d}"], committed(directory))
    check(f"{name}: says so", f"after step {steps}" in log, log[-300:])
    check(f"{name}: nothing is left", leftovers(directory) == [])
    must(1, {"data": MODEL["data"], "resume": directory, "stop-at": steps + 1})


one("rank", to_rank)
one("launcher", to_launcher)
one("usr1", to_launcher, [LULL, "train", "-n", "2"])
one("term", to_term, [LULL, "train", "-n", "2"])
finish()
