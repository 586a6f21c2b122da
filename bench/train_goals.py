#!/usr/bin/python3
"""The goals of the trainings beside what bench/train.py reached, from its
figures: bench/train_goals.py FIGURES.json [--into PAGE.md]."""
import argparse
import json
import statistics
import sys

sys.dont_write_bytecode = True
import goals  # noqa: E402

HEAD = ("what", "goal", "reached", "")
VERDICTS = ("reached", "missed", "not measured")

# Times the tokens a second of none; what a loss may lie above none's.
SPEED = [("zhybrid:16,8", 1.204), ("mzhybrid:8", 1.044)]
LOSS_NEAR = 0.01
EXPOSED, EXPOSED_NEAR = 0.33, 0.02


def find(rows, case, metric):
    for row in rows:
        if row["case"] == case and row["metric"] == metric:
            return row
    return None


def above(values, others):
    return [value / other - 1 for value, other in zip(values, others)]


def line(what, goal, value, form, reached):
    """A row of the table; `value` None: not measured."""
    if value is None:
        return what, goal, "-", "not measured"
    return what, goal, format(value, form), \
        "reached" if reached(value) else "missed"


def speed_goals(rows):
    row = find(rows, "none", "exposed")
    yield line("none: lost to the links", f"{EXPOSED} +- {EXPOSED_NEAR}",
               row and row["value"], ".3f",
               lambda part: abs(part - EXPOSED) <= EXPOSED_NEAR)
    for scheme, goal in SPEED:
        row = find(rows, scheme, "tokens_per_s")
        yield line(f"{scheme}: tokens/s of none's", f">= {goal}",
                   row and row["ratio"], ".3f", lambda ratio: ratio >= goal)


def loss_goals(rows):
    losses = {row["case"]: row["values"] for row in rows
              if row["metric"] == "val_loss"}

    def of(what, goal, cases, pick, reached):
        both = [losses.get(case) for case in cases]
        value = None if None in both else pick(above(*both))
        return line(what, goal, value, "+.2%", reached)

    yield of("zhybrid:16,8: loss above none's, worst seed",
             f"<= {LOSS_NEAR:.0%}", ("zhybrid:16,8", "none"), max,
             lambda worst: worst <= LOSS_NEAR)
    yield of("mzhybrid:8: loss above none's, mean", f"<= {LOSS_NEAR:.0%}",
             ("mzhybrid:8", "none"), statistics.mean,
             lambda mean: mean <= LOSS_NEAR)
    yield of("zfp:6: loss above mzhybrid:6's, least seed", "> 0",
             ("zfp:6", "mzhybrid:6"), min, lambda least: least > 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures")
    parser.add_argument("--into")
    given = parser.parse_args()
    with open(given.figures) as file:
        rows = json.load(file)
    table = [*speed_goals(rows), *loss_goals(rows)]
    print("\ngoals of training under compression")
    goals.print_table(table, HEAD)
    goals.print_counts([row[3] for row in table], VERDICTS)
    none = find(rows, "none", "val_loss")
    if none:
        print(f"losses: {none['n']} seed{'s' * (none['n'] > 1)}, "
              f"{none['steps']} steps")
    if given.into:
        goals.put_into(given.into, "train-goals",
                       goals.markdown(HEAD, table) + goals.machine_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
