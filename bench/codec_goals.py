#!/usr/bin/python3
"""The goals of the codecs beside what bench_codec reached, from its figures:
bench/codec_goals.py FIGURES.json. Goals are for gradients of a training;
without them for the synthetic ones, and called so."""
import json
import sys

ISAS = ("avx512", "avx2", "portable")
# What is wanted: codec and dtype; the metric to judge by and its yardstick;
# for each instruction set what encode and decode have to reach.
GOALS = [
    ("zfp:8/f32", "libzfp", {"avx512": (20, 20), "avx2": (10, 4),
                             "portable": (3, 3)}),
    ("zfp:16/f32", "libzfp", {"avx512": (20, 20), "avx2": (10, 4),
                              "portable": (3, 3)}),
    ("mpc/f32", "memcpy", {"avx512": (.8, .7), "avx2": (.4, .4)}),
    ("expo/bf16", "memcpy", {"avx512": (.45, .5)}),
    ("expo/bf16", "Huff0", {"avx2": (2, 2)}),
    ("mxint8/f32", "memcpy", {"avx512": (1.2, 1.2), "avx2": (1, 1)}),
]
# Of the best that any order-0 code of the exponents could reach.
RATIO = ("expo/bf16", "size ratio", "entropy bound", .99, ("avx512", "avx2"))


def choose_data(figures):
    """The data that is judged: gradients, else what there is of it."""
    names = {row["case"].split("/")[1] for row in figures}
    for name in ("gradients", *sorted(names - {"smooth", "zeros",
                                               "gaussian"}), "gaussian"):
        if name in names:
            return name
    return None


def ratio_of(figures, case, action, yardstick):
    """How many times the yardstick, None: not measured. A yardstick is named
    by the baseline or by the metric, as encode_memcpy."""
    for row in figures:
        named = f"{row['baseline'] or ''} {row['metric']}".lower()
        if row["case"] == case and row["metric"].startswith(action) and \
                yardstick.lower() in named and row["ratio"] is not None:
            return row["ratio"]
    return None


def wanted(figures, data):
    """Yields codec, instruction set, what, goal, yardstick, reached."""
    for spec, yardstick, goals in GOALS:
        codec, dtype = spec.split("/")
        for isa in ISAS:
            for action, goal in zip(("encode", "decode"), goals.get(isa, ())):
                yield spec, isa, action, goal, yardstick, ratio_of(
                    figures, f"{codec}/{data}/{dtype}/{isa}", action,
                    yardstick)
    spec, what, yardstick, goal, isas = RATIO
    codec, dtype = spec.split("/")
    for isa in isas:
        yield spec, isa, what, goal, yardstick, ratio_of(
            figures, f"{codec}/{data}/{dtype}/{isa}", "size_ratio", yardstick)


def main():
    if len(sys.argv) != 2:
        print("usage: codec_goals.py FIGURES.json", file=sys.stderr)
        return 2
    with open(sys.argv[1]) as file:
        figures = json.load(file)
    data = choose_data(figures)
    if data is None:
        print("goals: nothing to judge: no gradients were measured")
        return 0
    made = " (synthetic: training's may differ)" if data == "gaussian" else ""
    print(f"\ngoals, on {data}{made}; times the yardstick\n"
          f"{'codec':<11} {'isa':<9} {'what':<10} {'goal':>6}"
          f" {'reached':>9}  yardstick")
    counts = {"reached": 0, "missed": 0, "not measured": 0}
    for spec, isa, what, goal, yardstick, got in wanted(figures, data):
        verdict = "not measured" if got is None else \
            "reached" if got >= goal else "missed"
        counts[verdict] += 1
        value = "-" if got is None else f"{got:.3g}" if goal != .99 else \
            f"{got:.4f}"
        print(f"{spec:<11} {isa:<9} {what:<10} {goal:>6g} {value:>9}"
              f"  {yardstick:<13}  {verdict}")
    print(", ".join(f"{count} {verdict}" for verdict, count in
                    counts.items() if count))
    return 0


sys.exit(main())
