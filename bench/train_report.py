#!/usr/bin/python3
"""Tables and plots of bench/train.py's figures and of the runs it kept:
    bench/train_report.py FIGURES.json KEEP OUT [--into PAGE.md]
Prints the tables, or puts them into a page; OUT/train-*.svg: the plots
(gnuplot)."""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
import goals  # noqa: E402
from train import kept, read_lines  # noqa: E402

# How curves are drawn: what tells them apart is not the colour alone.
STYLES = {
    "none": ("#000000", 1), "zhybrid:16,8": ("#0072b2", 1),
    "mzhybrid:8": ("#009e73", 1), "mxhybrid": ("#cc79a7", 1),
    "bf16": ("#e69f00", 1), "zfp:8": ("#d55e00", 1),
    "zfp:6": ("#d55e00", 2), "mzhybrid:6": ("#009e73", 2),
    "zhybrid:16,6": ("#0072b2", 2), "mpc": ("#888888", 1),
    "mxint8": ("#cc79a7", 2)}
ROLES = ("dp", "tp", "pp")


def by_case(rows, metric):
    return {row["case"]: row for row in rows if row["metric"] == metric}


def speed_table(rows):
    speeds, tflops = by_case(rows, "tokens_per_s"), by_case(rows, "tflops")
    steps = by_case(rows, "step_ms")
    wires = [by_case(rows, f"wire_ratio_{role}") for role in ROLES]
    lines = []
    for case, row in speeds.items():
        lines.append([
            f"`{case}`", f"{row['value']:.0f}",
            f"{row['ratio'] or 1:.3f}", f"{1000 * tflops[case]['value']:.2f}",
            f"{steps[case]['value']:.0f}",
            f"{steps[case]['min']:.0f} to {steps[case]['max']:.0f}",
            *(f"{wire[case]['value']:.2f}" for wire in wires)])
    return goals.markdown(["policy", "tokens/s", "of none's", "GFLOPS a rank",
                  "step, ms", "least to most", "dp ratio", "tp ratio",
                  "pp ratio"], lines)


def loss_table(rows):
    losses = by_case(rows, "val_loss")
    none = losses["none"]
    lines = []
    for case, row in losses.items():
        pairs = [value / other - 1 for value, other in
                 zip(row["values"], none["values"])]
        spread = statistics.stdev(row["values"]) if row["n"] > 1 else None
        lines.append([
            f"`{case}`", f"{statistics.mean(row['values']):.4f}",
            "-" if spread is None else f"{spread:.4f}",
            *(f"{value:.4f}" for value in row["values"]),
            *["-"] * (none["n"] - row["n"]),
            f"{statistics.mean(pairs):+.2%}",
            f"{min(pairs):+.2%} to {max(pairs):+.2%}"])
    return goals.markdown(["policy", "mean", "spread", *(f"seed {i + 1}" for i in
                                                range(none["n"])),
                  "to none", "by seed"], lines)


def curves(rows, keep):
    """{policy: [(step, loss)]}: validation, mean over seeds."""
    out = {}
    for case, row in by_case(rows, "val_loss").items():
        runs = [[(line["step"], line["val_loss"])
                 for line in read_lines(kept(keep, case, seed))
                 if "val_loss" in line] for seed in range(1, row["n"] + 1)]
        out[case] = [(points[0][0], statistics.mean(y for _, y in points))
                     for points in zip(*runs)]
    return out


def gnuplot(script, path, height=400):
    head = [f"set terminal svg size 760,{height} font 'Helvetica,13' "
            "background 'white'", f"set output '{path}'",
            "set border 3 lc '#555555'", "set tics nomirror",
            "set grid ytics lc '#dddddd' lw 1",
            "set key outside right top maxcols 1 spacing 1.1 samplen 2.5 "
            "noenhanced"]
    subprocess.run(["gnuplot"], input="\n".join(head + script), text=True,
                   check=True)


def plot_of(lines, prefix):
    """Data and the plot command of {policy: points}."""
    script, plots = [], []
    for i, (case, points) in enumerate(lines.items()):
        colour, dash = STYLES.get(case, ("#888888", 3))
        script += [f"${prefix}{i} << EOD", *(f"{x} {y}" for x, y in points),
                   "EOD"]
        plots.append(f"${prefix}{i} with linespoints lc '{colour}' dt {dash} "
                     f"lw 2 pt {7 if dash == 1 else 6} ps 0.5 title '{case}'")
    return script, "plot " + ", ".join(plots)


def draw_curves(lines, path, label):
    """Losses of {policy: points}, over what `label` says."""
    script, plot = plot_of(lines, "d")
    gnuplot(script + [f"set xlabel '{label}'", "set yrange [1.7:2.6]",
                      "set ylabel 'validation loss, nats a byte'", plot],
            path)


def draw_steps(lines, path):
    """Losses, and below how far they lie above none's, where that is little:
    curves that cannot be told apart above."""
    none = dict(lines["none"])
    over = {case: [(x, 100 * (y / none[x] - 1)) for x, y in points]
            for case, points in lines.items()}
    over = {case: points for case, points in over.items()
            if max(abs(y) for _, y in points) < 3 and case != "none"}
    script, plot = plot_of(lines, "d")
    more, under = plot_of(over, "o")
    gnuplot(script + more + [
        "set multiplot layout 2,1", "set lmargin 9", "set rmargin 22",
        "set yrange [1.7:2.6]", "set ylabel 'validation loss, nats'", plot,
        "unset key", "set xlabel 'step'", "set yrange [*:*]",
        "set ylabel 'above none, %'",
        "set arrow from graph 0, first 0 to graph 1, first 0 nohead "
        "lc '#000000'", under, "unset multiplot"], path, 640)


def draw_bars(rows, path):
    bars = [(case, row["ratio"] or 1) for case, row in
            by_case(rows, "tokens_per_s").items()]
    bars.sort(key=lambda bar: bar[1])
    script = ["$d << EOD", *(f"{i} {y} \"{case}\"" for i, (case, y) in
                             enumerate(bars)), "EOD",
              "set yrange [-0.6:%g]" % (len(bars) - 0.4),
              "set xrange [0:%g]" % (1.1 * bars[-1][1]),
              "unset key", "set grid noytics", "set ytics scale 0",
              "set xlabel 'tokens/s, times those of none'",
              "set arrow 1 from 1, graph 0 to 1, graph 1 nohead lc '#000000'"
              " dt 3",
              "plot $d using ($2/2):0:($2/2):(0.32):yticlabels(3) with "
              "boxxyerror fs solid 0.85 noborder lc '#0072b2', $d using "
              "2:0:(sprintf('%.2f',$2)) with labels left offset 0.5,0"]
    gnuplot(script, path)


def draw(rows, keep, out):
    steps = {case: row["value"] for case, row in
             by_case(rows, "step_ms").items()}
    if steps:
        draw_bars(rows, os.path.join(out, "train-speed.svg"))
    if not by_case(rows, "val_loss"):
        return
    # By all seeds, to compare.
    most = by_case(rows, "val_loss")["none"]["n"]
    lines = {case: points for case, points in curves(rows, keep).items()
             if by_case(rows, "val_loss")[case]["n"] == most}
    draw_steps(lines, os.path.join(out, "train-steps.svg"))
    timed = {case: [(step * steps[case] / steps["none"], loss)
                    for step, loss in points]
             for case, points in lines.items() if case in steps}
    if timed:
        draw_curves(timed, os.path.join(out, "train-time.svg"),
                    "time on the links, in steps of none")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("figures", "keep", "out"):
        parser.add_argument(name)
    parser.add_argument("--into")
    given = parser.parse_args()
    with open(given.figures) as file:
        rows = json.load(file)
    os.makedirs(given.out, exist_ok=True)
    for mark, metric, make in (("train-speed", "step_ms", speed_table),
                               ("train-loss", "val_loss", loss_table)):
        if not by_case(rows, metric):
            continue
        if given.into:
            goals.put_into(given.into, mark, make(rows))
        else:
            print("\n" + make(rows), end="")
    draw(rows, given.keep, given.out)
    print(f"\nplots: {given.out}/train-*.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
