#!/usr/bin/python3
"""What schemes of compression do to a training: its loss and its speed.
    bench/train.py --build DIR --keep DIR --json FILE [--quick]
                   [--only loss|speed] [--data FILE]
Loss: whole runs on 8 ranks of this host, since the bits do not depend on the
link; kept in --keep and not made again while the programs are the same.
Speed: short runs on bench/cluster.sh's hosts (root), in turns. run.sh calls
this, then train_goals.py and train_report.py."""
import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLUSTER = os.path.join(HERE, "cluster.sh")
SCHEMES = ["none", "zhybrid:16,8", "mzhybrid:8", "zfp:6", "mzhybrid:6",
           "mxhybrid", "mxint8", "bf16", "zfp:8", "zhybrid:16,6", "mpc"]
# What mxhybrid might have been, without loss but for gradients: by one seed.
OTHERS = ["dp=mxint8;tp=expo;pp=expo"]
QUICK = ["none", "zhybrid:16,8", "mzhybrid:8", "zfp:8"]
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
RANKS, LAYOUT = 8, {"tp": 2, "pp": 2}
# Below the size of every message, so that each is what its policy says.
MIN = ";min=1024"
LOSS = {"layers": 4, "hidden": 128, "heads": 4, "seq": 128,
        "global-batch": 16, "micro-batch": 2, **LAYOUT, "steps": 600,
        "lr": 0.001, "warmup": 100, "val-every": 100, "val-windows": 512}
QUICK_LOSS = {"steps": 150, "warmup": 50, "val-every": 50}
# Wider than for the loss: what it sends is larger than what the links let
# pass at once, and products take longer than waking ranks does.
SPEED = {"layers": 4, "hidden": 512, "heads": 8, "global-batch": 8,
         "micro-batch": 1, **LAYOUT, "steps": 600, "val-windows": 1}
HOSTS, RATE = 4, "1gbit"
# What none loses to the links, of its time: by the tokens of a step.
EXPOSED, EXPOSED_NEAR = 0.33, 0.01
FIRST_SEQ, SEQ_UNIT, TRIES = 104, 8, 6
SEQ_LEAST, SEQ_MOST = 32, 512
WARM, STEPS, ROUNDS, QUICK_ROUNDS = 2, 10, 3, 2
LIMIT, SPEED_LIMIT = 3600, 300  # seconds of one run

ENV = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OPENBLAS_NUM_THREADS": "1",
       "OMP_NUM_THREADS": "1"}


def say(*words):
    print(*words, flush=True)


class Failed(Exception):
    """A run, with the end of what it said."""


def words_of(options):
    return [word for name, value in options.items()
            for word in (f"--{name}", str(value))]


def read_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file if line.startswith("{")]


class Programs:
    """What is built, and how it is started."""

    def __init__(self, build, data):
        self.train = os.path.join(build, "bin", "lull-train")
        self.calm = os.path.join(build, "lib", "libyield_sleeps.so")
        self.libs = os.path.join(build, "lib")
        self.data = data

    def digest(self):
        """Of all that decides the bits of a run."""
        sums = hashlib.sha256()
        for path in (self.train, self.data, *(
                os.path.join(self.libs, f"lib{name}.so")
                for name in ("lull", "lull_mpi"))):
            with open(path, "rb") as file:
                sums.update(hashlib.sha256(file.read()).digest())
        return sums.hexdigest()

    def words(self, options, metrics):
        return ["env", f"LD_PRELOAD={self.calm}",
                f"LD_LIBRARY_PATH={self.libs}", self.train, "--data",
                self.data, *words_of(options), "--metrics", metrics]

    def local(self, options, metrics):
        run(["mpirun", "-q", "--oversubscribe", "--bind-to", "none", "--mca",
             "mpi_yield_when_idle", "1", "-np", str(RANKS),
             *self.words(options, metrics)])
        return read_lines(metrics)

    def cluster(self, rate, options, metrics):
        command = [CLUSTER, "with", str(HOSTS), rate, "-np", str(RANKS),
                   *self.words(options, metrics)]
        for last in (False, True):  # starting may fail; not twice
            try:
                run(command, SPEED_LIMIT)
                return read_lines(metrics)
            except Failed as failed:
                subprocess.run([CLUSTER, "down"], check=False)
                if last:
                    raise
                say(f"{failed}\nonce more")


def run(command, limit=LIMIT):
    try:
        done = subprocess.run(command, env=ENV, timeout=limit, text=True,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired as late:
        raise Failed(f"no end after {limit} s: {' '.join(command)}") from late
    if done.returncode != 0:
        raise Failed(f"exit {done.returncode}: {' '.join(command)}\n" +
                     "\n".join(done.stdout.splitlines()[-6:]))


# ---- Loss -------------------------------------------------------------------


def kept(keep, scheme, seed):
    return os.path.join(keep, f"loss-{scheme}-{seed}.json")


def loss_run(programs, keep, scheme, seed, recipe):
    """Its lines; from an earlier run of the same programs if there is one."""
    path = kept(keep, scheme, seed)
    comm = scheme if scheme == "none" else scheme + MIN
    options = {**recipe, "comm": comm, "seed": seed}
    key = " ".join([programs.digest(), *words_of(options)])
    try:
        with open(path + ".recipe") as file:
            if file.read() == key:
                return read_lines(path)
    except OSError:
        pass
    begun = time.monotonic()
    programs.local(options, path + ".part")
    os.replace(path + ".part", path)
    with open(path + ".recipe", "w") as file:
        file.write(key)
    lines = read_lines(path)
    say(f"loss: {scheme}, seed {seed}: {lines[-1]['val_loss']:.4f} after "
        f"{lines[-1]['step']} steps, {time.monotonic() - begun:.0f} s")
    return lines


def figure(case, metric, unit, values, value=None, baseline=None,
           less_is_better=False):
    """A row of figures. `baseline`: the row of none."""
    value = statistics.mean(values) if value is None else value
    row = {"bench": "train", "case": case, "metric": metric, "unit": unit,
           "value": value, "min": min(values), "max": max(values),
           "n": len(values), "baseline": None, "baseline_value": None,
           "ratio": None}
    if baseline is not None:
        other = baseline["value"]
        row.update(baseline="none", baseline_value=other,
                   ratio=other / value if less_is_better else value / other)
    return row


def measure_loss(programs, keep, quick):
    recipe = {**LOSS, **(QUICK_LOSS if quick else {})}
    rows = []
    for scheme in QUICK if quick else SCHEMES + OTHERS:
        seeds = QUICK_SEEDS if quick or scheme in OTHERS else SEEDS
        ends = [loss_run(programs, keep, scheme, seed, recipe)[-1]
                for seed in seeds]
        losses = [end["val_loss"] for end in ends]
        # Against none of the same seeds.
        none = {"value": statistics.mean(rows[0]["values"][:len(seeds)])} \
            if rows else None
        rows.append({**figure(scheme, "val_loss", "nats", losses,
                              baseline=none, less_is_better=True),
                     "values": losses, "steps": ends[0]["step"]})
    return rows


# ---- Speed ------------------------------------------------------------------


def choose_seq(exposed_of, first=FIRST_SEQ):
    """The length of sequences at which none loses the wanted part of its time
    to the links. exposed_of(seq): that part. What is lost hardly depends on
    the length, the rest is in proportion to it."""
    seq, tried = first, {}
    while len(tried) < TRIES and seq not in tried:
        part = tried[seq] = exposed_of(seq)
        say(f"speed: {seq} bytes a sequence: none loses {100 * part:.0f} % of"
            " its time to the links")
        if abs(part - EXPOSED) <= EXPOSED_NEAR:
            break
        part = min(max(part, 0.05), 0.9)
        # Half the way there, in proportion: one measurement is noisy.
        scale = (part / (1 - part) * (1 - EXPOSED) / EXPOSED) ** 0.7
        seq = SEQ_UNIT * round(seq * min(max(scale, 0.6), 1.6) / SEQ_UNIT)
        seq = min(max(seq, SEQ_LEAST), SEQ_MOST)
    return min(tried, key=lambda one: abs(tried[one] - EXPOSED))


def speed_run(programs, keep, rate, scheme, seq, steps):
    """The lines of its steps, without the first ones."""
    options = {**SPEED, "seq": seq, "stop-at": WARM + steps, "comm": scheme}
    path = os.path.join(keep, "speed.part")
    return programs.cluster(rate, options, path)[WARM:]


def median(lines, key):
    return statistics.median(line[key] for line in lines)


def exposed(plain, shaped):
    return 1 - median(plain, "step_ms") / median(shaped, "step_ms")


def wire_ratio(lines, roles=("dp", "tp", "pp")):
    """Bytes given for each on the wire; of nothing: None."""
    total = {key: sum(line["comm"][role][key] for line in lines
                      for role in roles) for key in ("bytes", "wire_bytes")}
    return total["bytes"] / total["wire_bytes"] if total["wire_bytes"] \
        else None


def speed_rows(plain, shaped):
    """Rows of {scheme: lines}; `plain`: of none on links without a limit."""
    rows, first = [], {}

    def add(scheme, metric, unit, values, middle, **more):
        row = figure(scheme, metric, unit, values, value=middle,
                     baseline=None if scheme == "none" else
                     first.get(metric), **more)
        first.setdefault(metric, row)
        rows.append(row)

    for scheme, lines in shaped.items():
        for metric, unit, scale in (("tokens_per_s", "tokens/s", 1),
                                    ("tflops", "TFLOPS a rank", 1 / RANKS)):
            add(scheme, metric, unit, [scale * line[metric] for line in lines],
                scale * median(lines, metric))
        for role in ("dp", "tp", "pp"):
            value = wire_ratio(lines, (role,))
            rows.append(figure(scheme, f"wire_ratio_{role}", "times", [value]))
        add(scheme, "step_ms", "ms", [line["step_ms"] for line in lines],
            median(lines, "step_ms"), less_is_better=True)
    times = [line["step_ms"] for line in plain]
    rows.append(figure("none", "unshaped_step_ms", "ms", times,
                       value=median(plain, "step_ms")))
    rows.append(figure("none", "exposed", "of the time",
                       [exposed(plain, shaped["none"])]))
    return rows


def measure_speed(programs, keep, quick):
    schemes, rounds = (QUICK, QUICK_ROUNDS) if quick else \
        (SCHEMES + OTHERS, ROUNDS)

    def one(rate, scheme, seq):
        return speed_run(programs, keep, rate, scheme, seq, STEPS)

    seq = choose_seq(lambda seq: exposed(one("none", "none", seq),
                                         one(RATE, "none", seq)))
    plain, shaped = [], {scheme: [] for scheme in schemes}
    for turn in range(rounds):
        say(f"speed: round {turn + 1} of {rounds}, load "
            f"{os.getloadavg()[0]:.1f}")
        plain += one("none", "none", seq)
        for scheme in schemes:
            shaped[scheme] += one(RATE, scheme, seq)
    with open(os.path.join(keep, "speed.json"), "w") as file:
        json.dump({"seq": seq, "plain": plain, "shaped": shaped}, file)
    rows = speed_rows(plain, shaped)
    rows.append(figure("none", "tokens_a_step", "tokens",
                       [seq * SPEED["global-batch"]]))
    return rows


def text(keep):
    """The King James text, as the demo uses it."""
    path = os.path.join(keep, "text")
    if not os.path.exists(path):
        if shutil.which("bible") is None:
            raise Failed("no text to train on: the program bible is missing "
                         "(Debian: bible-kjv, bible-kjv-text), or give --data "
                         "FILE")
        with open(path + ".part", "w") as file:
            subprocess.run(["bible", "-f", "gen1:1-rev22:21"], check=True,
                           stdout=file)
        os.replace(path + ".part", path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("build", "keep", "json"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--data")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("loss", "speed"))
    given = parser.parse_args()
    os.makedirs(given.keep, exist_ok=True)
    keep = os.path.abspath(given.keep)
    programs = Programs(os.path.abspath(given.build),
                        os.path.abspath(given.data or text(keep)))
    rows = []
    if given.only != "loss":
        rows += measure_speed(programs, keep, given.quick)
    if given.only != "speed":
        rows += measure_loss(programs, keep, given.quick)
    with open(given.json, "w") as file:
        json.dump(rows, file, indent=1)


if __name__ == "__main__":
    try:
        main()
    except (Failed, OSError) as failed:
        sys.exit(f"train.py: {failed}")
