#!/usr/bin/python3
"""A step that fails on some ranks while others wait for them ends the run: one
clear line, exit 1, no hang."""
from harness import *


def lines(path):
    try:
        return len(metrics(path))
    except (FileNotFoundError, json.JSONDecodeError):
        return 0


fresh_work()
for number, (ranks, layout) in enumerate([
        (1, {}), (2, {"pp": 2}), (8, {"tp": 2, "pp": 2, "zero": 1}),
        (4, {"tp": 2, "pp": 2, "val-every": 1})]):
    data, file, errors = f"text-{number}", f"metrics-{number}", f"err-{number}"
    write_text(data)
    process = start(ranks, {**SMALL, **layout, "steps": 1000000, "data": data,
                            "metrics": file}, errors)
    check(f"{ranks} ranks: begins", wait_for(lambda: lines(file) > 3))
    # Nine tenths train; then come the windows that validate.
    cut = 65536 * 9 // 10 + 40 if "val-every" in layout else 1000
    os.truncate(data, cut)
    try:
        code = process.wait(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        code = "a hang"
    with open(errors) as text:
        said = text.read()
    check(f"{ranks} ranks: exit 1", code == 1, code)
    told = said.count("became shorter")
    check(f"{ranks} ranks: told", 0 < told < max(ranks, 2), said[-500:])
finish()
