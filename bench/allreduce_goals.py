#!/usr/bin/python3
"""The goals of all-reduce beside what mpi_allreduce reached, from its figures:
bench/allreduce_goals.py FIGURES.json. Ratios are times MPI's own call as it was
started (Open MPI's ring)."""
import json
import math
import sys

SMALL = 65536
# What is wanted of one case: size, policy, hosts, at least.
GOALS = [
    ("16MiB", "zfp:8", 4, 3.8), ("64MiB", "zfp:8", 4, 3.6),
    ("16MiB", "zfp:8@avx2", 4, 2), ("64MiB", "zfp:8@avx2", 4, 2),
    ("16MiB", "zfp:16", 4, 1.8), ("64MiB", "zfp:16", 4, 1.8),
    ("16MiB", "mxint8", 4, 3.5), ("64MiB", "mxint8", 4, 3.5),
    ("16MiB", "bf16:expo", 4, 1.35), ("64MiB", "bf16:expo", 4, 1.35),
]


def ratios(figures):
    """Times of (size, policy, hosts), as ratios."""
    found = {}
    for row in figures:
        if row["bench"] == "allreduce" and row["metric"] == "time_ms":
            size, policy, hosts = row["case"].split("/")
            found[size, policy, int(hosts)] = row["ratio"]
    return found


def over_all(found):
    """Goals over many cases: name, goal, reached."""
    none = [ratio for (_, policy, _), ratio in found.items()
            if policy == "none"]
    if none:
        mean = math.exp(sum(map(math.log, none)) / len(none))
        yield f"none, geometric mean of {len(none)} sizes", .97, mean
        yield "none, the worst of them", .93, min(none)
    small = {policy: ratio for (size, policy, _), ratio in found.items()
             if size == "1KiB" and not policy.startswith(("mpi:", "bf16:"))}
    if small:
        worst = min(small, key=small.get)
        yield f"1KiB, the worst policy ({worst})", 1 / 1.1, small[worst]
    auto = {size: ratio for (size, policy, hosts), ratio in found.items()
            if policy.startswith("auto")}
    if auto:
        worst = min(auto, key=auto.get)
        yield f"auto, the worst size ({worst})", .95, auto[worst]


def main():
    if len(sys.argv) != 2:
        print("usage: allreduce_goals.py FIGURES.json", file=sys.stderr)
        return 2
    with open(sys.argv[1]) as file:
        found = ratios(json.load(file))
    rows = [(f"{size}, {policy}, {hosts} hosts", goal,
             found.get((size, policy, hosts)))
            for size, policy, hosts, goal in GOALS]
    rows += over_all(found)
    print(f"\ngoals, times MPI's own call\n{'what':<44} {'goal':>6}"
          f" {'reached':>9}")
    counts = {"reached": 0, "missed": 0, "not measured": 0}
    for what, goal, got in rows:
        verdict = "not measured" if got is None else \
            "reached" if got >= goal else "missed"
        counts[verdict] += 1
        value = "-" if got is None else f"{got:.3g}"
        print(f"{what:<44} {goal:>6.3g} {value:>9}  {verdict}")
    print(", ".join(f"{count} {verdict}" for verdict, count in
                    counts.items() if count))
    return 0


sys.exit(main())
