#!/usr/bin/python3
"""Checkpoints of lull-train, which shares its cores with the copies: figures
for bench/run.sh ckpt, and the sweep of docs/checkpoints.md.

    bench/ckpt_train.py rows|sweep --build DIR --json FILE [--quick]
                        [--dir DIR]
    bench/ckpt_train.py table FIGURES.json PAGE.md

table: puts the figures of a sweep into a page.

rows: a run with a checkpoint every step against the same run without, where
the state is little beside the computation; and against a run that stops for a
warm torch.save + fsync of as many bytes, where computing a step takes about as
long as saving. sweep: a checkpoint every 10, 5, 2, 1 steps, with 1, 2, 4
data-parallel ranks. A step's time is the mean over a run's steps but the first
two; runs take turns. A run with torch.save is the run without checkpoints and
the time of its torch.saves: training stands still meanwhile."""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import goals

BENCH = pathlib.Path(__file__).parent
PYTHON = "/usr/bin/python3"  # Debian's, which has torch
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
MIB = 1 << 20
TINY = {"layers": 1, "hidden": 32, "heads": 2, "seq": 512}


class Torch:
    """A warm process that does torch.save + fsync when told; seconds."""

    def __init__(self, folder, state):
        self.process = subprocess.Popen(
            [PYTHON, BENCH / "torch_save.py", str(state), folder / "torch.pt"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.works = self.process.stdout.readline() == "ready\n"
        if self.works:
            self.save()

    def save(self):
        self.process.stdin.write("save\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Trainer:
    """Runs of one model."""

    def __init__(self, args, folder, shape):
        self.args, self.folder, self.shape = args, folder, shape
        if args.smoke:
            shape.update(TINY)
        self.text = folder / "text"
        self.text.write_text("".join(
            f"line {i} of some text that nobody reads\n"
            for i in range(20000)))

    def run(self, steps, every=0, mode="lazy", ranks=1):
        """(seconds a step, seconds that a checkpoint blocked on average,
        bytes of state that were saved at once)."""
        metrics, ckpt = self.folder / "metrics", self.folder / "ckpt"
        shutil.rmtree(ckpt, ignore_errors=True)
        os.sync()
        command = [self.args.build / "bin/lull-train", "--data", self.text,
                   "--steps", str(steps), "--val-windows", "1",
                   "--metrics", metrics]
        for name, value in self.shape.items():
            command += ["--" + name, str(value)]
        if ranks > 1:
            command[:0] = ["mpirun", "--oversubscribe", "--mca",
                           "mpi_yield_when_idle", "1", "-np", str(ranks)]
        if every > 0:
            command += ["--ckpt-dir", ckpt, "--ckpt-every", str(every),
                        "--ckpt-mode", mode, "--ckpt-buffer", "512M",
                        "--keep-last", "2"]
        result = subprocess.run([str(word) for word in command],
                                env=ENVIRONMENT, text=True,
                                capture_output=True)
        if result.returncode != 0:
            sys.exit("ckpt_train.py: lull-train failed:\n" + result.stderr)
        with open(metrics) as file:
            lines = [json.loads(line) for line in file][2:]
        state = sum(path.stat().st_size
                    for path in ckpt.glob("step-*/rank-*.safetensors")
                    ) // max(1, len(list(ckpt.glob("step-*"))))
        shutil.rmtree(ckpt, ignore_errors=True)
        blocked = [line["ckpt_blocked_ms"] for line in lines]
        saves = len(lines) // every if every else 0
        return (statistics.mean(line["step_ms"] for line in lines) / 1e3,
                sum(blocked) / max(1, saves) / 1e3, state)


def figure(case, metric, ours, baseline, theirs):
    """A row of the figures: times of a step, less is better."""
    row = {"bench": "ckpt", "case": case, "metric": metric, "unit": "s",
           "value": statistics.median(ours), "min": min(ours),
           "max": max(ours), "n": len(ours), "baseline": baseline,
           "baseline_value": statistics.median(theirs),
           "ratio": statistics.median(b / a for a, b in zip(ours, theirs))}
    print(f"{case:<24} {metric:<13} {row['value']:9.4g} s a step  {baseline} "
          f"{row['baseline_value']:.4g}, ratio {row['ratio']:.3g} "
          f"(n {row['n']})", flush=True)
    return row


def steps_of(args):
    return 4 if args.smoke else 10 if args.quick else 20


def light(args, folder):
    """At most 0.2 GB of state a second of computation: the batch grows until
    a step takes long enough."""
    shape = {"layers": 4, "hidden": 256, "heads": 4, "seq": 128,
             "global-batch": 4, "micro-batch": 4}
    trainer = Trainer(args, folder, shape)
    steps = steps_of(args)
    alone, _, _ = trainer.run(5)
    _, _, state = trainer.run(4, every=2)
    while state / alone > .19e9:
        shape["global-batch"] += 2
        shape["micro-batch"] += 2
        alone, _, _ = trainer.run(5)
    none, lazy = [], []
    for _ in range(args.rounds):
        none.append(trainer.run(steps)[0])
        lazy.append(trainer.run(steps, every=1)[0])
    rate = state / statistics.median(none) / 1e9
    print(f"{'':<24} {state / MIB:.0f} MiB of state, {rate:.2f} GB a second "
          "of computation")
    yield figure(f"train/light/{state // MIB}MiB", "run_vs_none", lazy,
                 "no checkpoints", none)


def heavy(args, folder):
    """Computing takes about as long as draining a checkpoint."""
    shape = {"layers": 6, "hidden": 384, "heads": 6, "seq": 16,
             "global-batch": 1, "micro-batch": 1}
    trainer = Trainer(args, folder, shape)
    steps = steps_of(args)
    _, drain, state = trainer.run(8, every=1, mode="sync")
    while shape["seq"] < 512 and trainer.run(6)[0] < drain:
        shape["seq"] *= 2
    torch = Torch(folder, state)
    if not torch.works:
        print("no torch.save: /usr/bin/python3 has no torch")
        return
    none, lazy, saves, sync = [], [], [], []
    for _ in range(args.rounds):
        none.append(trainer.run(steps)[0])
        lazy.append(trainer.run(steps, every=1)[0])
        sync.append(trainer.run(steps, every=1, mode="sync")[0])
        saves.append(statistics.median(torch.save() for _ in range(3)))
    torch.close()
    with_torch = [a + b for a, b in zip(none, saves)]
    print(f"{'':<24} {state / MIB:.0f} MiB of state, computing "
          f"{statistics.median(none):.3g} s, draining {drain:.3g} s")
    case = f"train/heavy/{state // MIB}MiB"
    yield figure(case, "run_s", lazy, "torch.save", with_torch)
    yield figure(case, "run_vs_sync", lazy, "sync", sync)
    yield figure(case, "run_vs_none", lazy, "no checkpoints", none)


EVERY, RANKS = (10, 5, 2, 1), (1, 2, 4)


def sweep_ranks(args, trainer, torch_s, ranks):
    """Figures of one number of ranks."""
    steps = 2 + (10 if args.quick or args.smoke else 20)  # whole tens, two
    none, times, blocked = [], {}, {}
    for _ in range(args.rounds):
        none.append(trainer.run(steps, ranks=ranks)[0])
        for every in EVERY:
            for mode in "lazy", "sync":
                seconds, held, _ = trainer.run(steps, every, mode, ranks)
                times.setdefault((every, mode), []).append(seconds)
                blocked.setdefault((every, mode), []).append(held)
    for every in EVERY:
        torch = [seconds + torch_s / every for seconds in none]
        case = f"sweep/dp{ranks}/every{every}"
        for mode in "lazy", "sync":
            row = figure(f"{case}/{mode}", "run_vs_none", times[every, mode],
                         "no checkpoints", none)
            yield {**row, "blocked_s": statistics.median(
                blocked[every, mode])}
        yield figure(f"{case}/torch", "run_vs_none", torch, "no checkpoints",
                     none)


def sweep(args, folder):
    shape = {"layers": 4, "hidden": 256, "heads": 4, "seq": 64,
             "global-batch": 4, "micro-batch": 1}
    trainer = Trainer(args, folder, shape)
    _, _, state = trainer.run(4, every=2)
    torch = Torch(folder, state)
    torch_s = statistics.median(torch.save() for _ in range(5)) \
        if torch.works else float("nan")
    torch.close()
    print(f"{'':<24} {state / MIB:.0f} MiB of state")
    for ranks in RANKS:
        yield from sweep_ranks(args, trainer, torch_s, ranks)


def sweep_table(figures):
    """The figures of a sweep as Markdown."""
    def cell(ranks, every, mode):
        for row in figures:
            if row["case"] == f"sweep/dp{ranks}/every{every}/{mode}":
                return row
        raise KeyError(mode)
    rows = []
    for ranks in RANKS:
        for every in EVERY:
            found = {mode: cell(ranks, every, mode)
                     for mode in ("lazy", "sync", "torch")}
            rows.append((
                str(ranks), str(every),
                f"{1e3 * found['lazy']['baseline_value']:.0f}",
                *(f"{1 / row['ratio']:.2f}" for row in found.values()),
                *(f"{1e3 * found[mode]['blocked_s']:.1f} ms"
                  for mode in ("lazy", "sync"))))
    head = ("ranks", "a checkpoint every", "ms a step without", "lazy", "sync",
            "torch.save", "a lazy one blocks", "a sync one")
    return goals.markdown(head, rows) + goals.machine_of(figures)


def main():
    if sys.argv[1:2] == ["table"] and len(sys.argv) == 4:
        with open(sys.argv[2]) as file:
            goals.put_into(sys.argv[3], "ckpt-sweep",
                           sweep_table(json.load(file)))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("rows", "sweep"))
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--json", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--smoke", action="store_true",
                        help="whether it works: a tiny model, few steps")
    parser.add_argument("--dir", default=".")
    args = parser.parse_args()
    args.rounds = 1 if args.quick or args.smoke else 3
    with tempfile.TemporaryDirectory(prefix="lull-bench-",
                                     dir=args.dir) as name:
        folder = pathlib.Path(name)
        if args.what == "rows":
            figures = [*light(args, folder), *heavy(args, folder)]
        else:
            figures = list(sweep(args, folder))
    with open(args.json, "w") as file:
        json.dump(figures, file, indent=1)


main()
