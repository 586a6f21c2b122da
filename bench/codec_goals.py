#!/usr/bin/python3
"""The goals of the codecs beside what bench_codec reached, from its figures:
bench/codec_goals.py [--markdown] FIGURES.json. Goals are for gradients of a
training; without them for the synthetic ones, and called so. --markdown: a
table for a README, with the machine, if the figures name it."""
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


VERDICTS = ("reached", "missed", "not measured")


def judge(figures, data):
    """Yields codec, instruction set, what, goal, yardstick, what was reached as
    text, and the verdict."""
    for spec, isa, what, goal, yardstick, got in wanted(figures, data):
        verdict = "not measured" if got is None else \
            "reached" if got >= goal else "missed"
        text = "-" if got is None else f"{got:.3g}" if goal != RATIO[3] else \
            f"{got:.4f}"
        yield spec, isa, what, goal, yardstick, text, verdict


def print_plain(rows, made):
    print(f"\ngoals, on {made}; times the yardstick\n"
          f"{'codec':<11} {'isa':<9} {'what':<10} {'goal':>6}"
          f" {'reached':>9}  yardstick")
    for spec, isa, what, goal, yardstick, text, verdict in rows:
        print(f"{spec:<11} {isa:<9} {what:<10} {goal:>6g} {text:>9}"
              f"  {yardstick:<13}  {verdict}")
    print(", ".join(f"{count} {verdict}" for verdict in VERDICTS
                    if (count := [row[-1] for row in rows].count(verdict))))


def print_markdown(rows, made, machine):
    """Encode and decode of a goal on one line."""
    print(f"On {made}, one core" + (f" of {machine}." if machine else ".") +
          "\n\n| codec | dtype | variant | what | yardstick | goal | reached |"
          " |\n|---|---|---|---|---|---|---|---|")
    mark = {"reached": "yes", "missed": "no", "not measured": ""}
    while rows:
        spec, isa, what, goal, yardstick, text, verdict = rows.pop(0)
        goals, texts, marks = [f"{goal:g}"], [text], [mark[verdict]]
        if what == "encode" and rows and rows[0][1:3] == (isa, "decode"):
            row = rows.pop(0)
            what += " / decode"
            goals.append(f"{row[3]:g}")
            texts.append(row[5])
            marks.append(mark[row[6]])
        if len(set(marks)) == 1:
            marks = marks[:1]
        codec, dtype = spec.split("/")
        print(f"| {codec} | {dtype} | {isa} | {what} | {yardstick} | "
              f"{' / '.join(goals)} | {' / '.join(texts)} | "
              f"{' / '.join(marks)} |")


def main():
    markdown = sys.argv[1:2] == ["--markdown"]
    if len(sys.argv) != 2 + markdown:
        print("usage: codec_goals.py [--markdown] FIGURES.json",
              file=sys.stderr)
        return 2
    with open(sys.argv[-1]) as file:
        figures = json.load(file)
    data = choose_data(figures)
    if data is None:
        print("goals: nothing to judge: no gradients were measured")
        return 0
    rows = list(judge(figures, data))
    made = data
    if data == "gaussian":
        made += " (synthetic: training's may differ)"
    if markdown:
        print_markdown(rows, made, figures[0].get("machine"))
    else:
        print_plain(rows, made)
    return 0


sys.exit(main())
