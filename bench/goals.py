#!/usr/bin/python3
"""Goals beside what was reached: the shape that all benchmarks share.
bench/goals.py BENCH FIGURES.json [--into PAGE.md] prints the table of a
benchmark that has one in TABLES, from the figures that bench/run.sh made, and
puts it into a page, between the lines <!-- BENCH --> and <!-- /BENCH -->."""
import argparse
import json
import re
import sys

# What is wanted of a figure: (row of the table, pattern of the case, metric,
# what of it is judged, the least ratio or the most it may be, as words).
RATIO, VALUE, SHOWN = "ratio", "value", "shown"
CKPT = [
    ("blocked by a save of 64 MiB, mean", "lazy/64MiB/host",
     "blocked_mean_ms", VALUE, 2, "≤ 2 ms"),
    ("... p99", "lazy/64MiB/host", "blocked_p99_ms", VALUE, 2, "≤ 2 ms"),
    ("... of 1 GiB, mean, against torch.save + fsync", "lazy/1GiB/host",
     "blocked_mean_ms", RATIO, 100, "≥ 100 times less"),
    ("... of 4 GiB", "lazy/4GiB/host", "blocked_mean_ms", RATIO, 500,
     "≥ 500 times less"),
    ("durable bandwidth, 4 GiB, against fio", "sync/4GiB/host",
     "durable_GBps", RATIO, .95, "≥ 0.95"),
    ("... 512 MiB", "sync/512MiB/host", "durable_GBps", RATIO, .95,
     "≥ 0.95"),
    ("restore, verified, 4 GiB, against fio", "sync/4GiB/host",
     "restore_GBps", RATIO, .90, "≥ 0.90"),
    ("... 512 MiB", "sync/512MiB/host", "restore_GBps", RATIO, .90,
     "≥ 0.90"),
    ("whole run, a checkpoint every step, 64 MiB, against torch.save",
     "lazy/64MiB/sim", "run_s", RATIO, 2.2, "≥ 2.2 times faster"),
    ("... against lull's sync", "lazy/64MiB/sim", "run_vs_sync", RATIO, 1.7,
     "≥ 1.7 times faster"),
    ("... against no checkpoints", "lazy/64MiB/sim", "run_vs_none", RATIO,
     1 / 1.02, "≤ 1.02 times"),
    ("the same, 512 MiB, against torch.save", "lazy/512MiB/sim", "run_s",
     RATIO, 2.2, "≥ 2.2 times faster"),
    ("... against lull's sync", "lazy/512MiB/sim", "run_vs_sync", RATIO, 1.7,
     "≥ 1.7 times faster"),
    ("... against no checkpoints", "lazy/512MiB/sim", "run_vs_none", RATIO,
     1 / 1.02, "≤ 1.02 times"),
    ("lull-train, a checkpoint every step, ≤ 0.2 GB of state a second",
     "train/light/.*", "run_vs_none", RATIO, 1 / 1.05,
     "≤ 1.05 times none"),
    ("lull-train, computing about as long as saving, against torch.save",
     "train/heavy/.*", "run_s", RATIO, 1.5, "≥ 1.5 times faster"),
    ("a computation beside running saves", "beside-compute/.*", "slowdown",
     SHOWN, None, "reported"),
    ("... that is bound by memory", "beside-memory/.*", "slowdown", SHOWN,
     None, "reported"),
    ("... lost a GiB saved, against memcpy + write", "beside-memory/.*",
     "lost_ms_per_GiB", SHOWN, None, "reported"),
    ("memory beyond the staging budget", "lazy/.*tensors/host",
     "memory_MiB", RATIO, 1, "≤ 16 MiB + (512 B + 2 names) a tensor, save"),
    ("save() of 10,000 tensors", "lazy/10000tensors/host", "save_ms", VALUE,
     5, "≤ 5 ms"),
] + [
    (f"{first}{what}, a tensor of 1,000,000, against a tenth of them",
     "lazy/1000000tensors/host", metric, RATIO, .8, "linear: ratio ≥ 0.8")
    for first, what, metric in (
        ("", "save()", "save_us"), ("", "committed", "committed_us"),
        ("", "listed", "list_us"), ("", "loaded", "load_us"))
] + [
    ("bytes that expo saves of made-up f32 weights", "sync\\+expo/.*",
     "bytes_saved", SHOWN, None, "reported"),
    ("... and the flush, against raw", "sync\\+expo/.*", "flush_GBps", SHOWN,
     None, "reported"),
    ("processor time of the engine's threads", "threads/.*",
     "cpu_ms_per_GiB", SHOWN, None, "reported"),
]
TABLES = {"ckpt": CKPT}
HEAD = ("what", "reached", "goal", "")


def find(figures, case, metric):
    for row in figures:
        if re.fullmatch(case, row["case"]) and row["metric"] == metric:
            return row
    return None


def reached_text(row, kind):
    """What the table says of a figure."""
    value = f"{row['value']:.3g} {row['unit']}"
    if row["ratio"] is None or kind == VALUE:
        return value
    # Too little to be told from nothing.
    ratio = "> 1000" if row["ratio"] > 1000 else f"{row['ratio']:.3g}"
    return f"{ratio} ({value}, {row['baseline']} {row['baseline_value']:.3g})"


def judge(row, kind, goal):
    if row is None:
        return "not measured"
    if kind == SHOWN:
        return ""
    if row[kind] is None:
        return "not measured"
    good = row[kind] >= goal if kind == RATIO else row[kind] <= goal
    return "yes" if good else "no"


def table(wanted, figures):
    """Rows of texts as HEAD says."""
    for what, case, metric, kind, goal, words in wanted:
        row = find(figures, case, metric)
        yield (what, "-" if row is None else reached_text(row, kind), words,
               judge(row, kind, goal))


def print_table(rows, head=HEAD):
    rows = [head, *rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    for row in rows:
        print("  ".join(text.ljust(width)
                        for text, width in zip(row, widths)).rstrip())


def print_counts(verdicts, names):
    print(", ".join(f"{verdicts.count(name)} {name}" for name in names
                    if name in verdicts))


def markdown(head, rows):
    """A table for a page."""
    lines = ["| " + " | ".join(row) + " |" for row in [head, *rows]]
    lines.insert(1, "|" + "---|" * len(head))
    return "\n".join(lines) + "\n"


def put_into(page, mark, text):
    """Replaces what a page has between its marks."""
    with open(page) as file:
        old = file.read()
    begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->\n"
    if old.count(begin) != 1 or old.count(end) != 1:
        sys.exit(f"{page}: has no place for the table: {begin}{end}")
    before, rest = old.split(begin)
    after = rest.split(end)[1]
    with open(page, "w") as file:
        file.write(before + begin + text + end + after)


def machine_of(figures):
    if not figures or "machine" not in figures[0]:
        return ""
    isa = figures[0].get("isa")
    return f"\nOn {figures[0]['machine']}" + \
        (f"; codecs run on {isa}" if isa else "") + ".\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", choices=TABLES)
    parser.add_argument("figures")
    parser.add_argument("--into", metavar="PAGE.md")
    args = parser.parse_args()
    with open(args.figures) as file:
        figures = json.load(file)
    rows = list(table(TABLES[args.bench], figures))
    print(f"\ngoals of {args.bench}")
    print_table(rows)
    print_counts([row[3] for row in rows], ("yes", "no", "not measured"))
    if args.into is not None:
        put_into(args.into, args.bench,
                 markdown(HEAD, rows) + machine_of(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
