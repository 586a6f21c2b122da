#!/usr/bin/python3
"""bench/train.py chooses a length of sequences and makes figures of steps;
train_goals.py judges them. Nothing is trained. Given: the folder bench."""
import json
import subprocess
import sys
import tempfile

BENCH = sys.argv[1]
sys.path.insert(0, BENCH)
sys.dont_write_bytecode = True
import train  # noqa: E402

failures = 0


def check(what, good, detail=""):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}: {detail}")


def verdicts(rows):
    with tempfile.NamedTemporaryFile("w") as file:
        json.dump(rows, file)
        file.flush()
        text = subprocess.run(
            ["/usr/bin/python3", f"{BENCH}/train_goals.py", file.name],
            check=True, capture_output=True, text=True).stdout
    return {line.split("  ")[0]: line.rsplit("  ", 1)[-1].strip()
            for line in text.split("\n")}, text


# A cluster whose links take 300 ms, beside 20 ms and 5 ms a byte of sequence.
def links(seq):
    return 300 / (300 + 20 + 5 * seq)


for first in (32, 104, 400):
    seq = train.choose_seq(links, first)
    check(f"length from {first}", abs(links(seq) - train.EXPOSED) < .02, seq)
check("a link that costs nothing ends", train.choose_seq(lambda _: 0.0) > 0)
check("nor one that costs all", train.choose_seq(lambda _: 1.0) > 0)


def steps(ms, ratio):
    sums = {"bytes": 100 * ratio, "wire_bytes": 100}
    return [{"step_ms": ms * more, "tokens_per_s": 1e6 / (ms * more),
             "tflops": 8e3 / ms, "comm": {role: sums for role in
                                          ("dp", "tp", "pp")}}
            for more in (1, 1, 3)]


rows = train.speed_rows(steps(67, 1), {
    "none": steps(100, 1), "zhybrid:16,8": steps(80, 2),
    "mzhybrid:8": steps(98, 1.5)})
find = {(row["case"], row["metric"]): row for row in rows}
check("median speed", find["none", "tokens_per_s"]["value"] == 1e4, rows)
check("ratio", abs(find["zhybrid:16,8", "tokens_per_s"]["ratio"] - 1.25) <
      1e-9, rows)
check("less is better", abs(find["zhybrid:16,8", "step_ms"]["ratio"] - 1.25) <
      1e-9, rows)
check("lost to the links", abs(find["none", "exposed"]["value"] - .33) < 1e-9,
      rows)
check("by rank", find["none", "tflops"]["value"] == 10, rows)
check("wire", find["mzhybrid:8", "wire_ratio_tp"]["value"] == 1.5, rows)


def loss(case, values):
    return {**train.figure(case, "val_loss", "nats", values),
            "values": values, "steps": 600}


losses = [loss("none", [1.7, 1.8, 1.7]), loss("zhybrid:16,8", [1.7, 1.8, 1.73]),
          loss("mzhybrid:8", [1.7, 1.8, 1.73]), loss("zfp:6", [2, 2, 1.9]),
          loss("mzhybrid:6", [1.9, 2.1, 1.8])]
found, text = verdicts(rows + losses)
for name, want in (("none: lost", "reached"),
                   ("zhybrid:16,8: tokens", "reached"),
                   ("mzhybrid:8: tokens", "missed"),
                   ("zhybrid:16,8: loss", "missed"),
                   ("mzhybrid:8: loss", "reached"),
                   ("zfp:6: loss", "missed")):
    check(f"{name}: {want}", any(line.startswith(name) and verdict == want
                                 for line, verdict in found.items()), text)
_, text = verdicts(rows)
check("losses not measured", "3 not measured" in text, text)
_, text = verdicts([loss("none", [1.7])])
check("speed not measured", "6 not measured" in text, text)
print("failures:", failures)
sys.exit(1 if failures else 0)
