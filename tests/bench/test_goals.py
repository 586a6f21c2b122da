#!/usr/bin/python3
"""bench/codec_goals.py: what is reached, missed and not measured, of which
data; bench/goals.py: the same of checkpoints, and a table put into a page; and
bench/run.sh says how it is used. Given: the folder bench."""
import json
import subprocess
import sys
import tempfile

BENCH = sys.argv[1]
failures = 0


def check(what, good, detail=""):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}: {detail}")


def row(case, metric, baseline, ratio):
    return {"bench": "codec", "case": case, "metric": metric, "unit": "GB/s",
            "value": 1, "min": 1, "max": 1, "n": 1, "baseline": baseline,
            "baseline_value": 1, "ratio": ratio}


def printed(figures, *options):
    with tempfile.NamedTemporaryFile("w") as file:
        json.dump(figures, file)
        file.flush()
        return subprocess.run(
            ["/usr/bin/python3", f"{BENCH}/codec_goals.py", *options,
             file.name], check=True, capture_output=True, text=True).stdout


def goals(figures):
    """{(codec, isa, what, yardstick): verdict} and the whole text."""
    text = printed(figures)
    verdicts = {}
    for line in text.split("\n"):
        for verdict in ("reached", "missed", "not measured"):
            words = line.removesuffix(verdict).split()
            if line.endswith(f"  {verdict}"):
                rest = " ".join(words[2:])
                verdicts[words[0], words[1], rest] = verdict
    return verdicts, text


gradients = [
    row("zfp:8/gradients/f32/avx512", "encode_GBps", "libzfp 1.0.0", 20),
    row("zfp:8/gradients/f32/avx512", "decode_GBps", "libzfp 1.0.0", 19.9),
    row("zfp:8/gradients/f32/avx512", "encode_memcpy", "memcpy", 0.1),
    row("mpc/gradients/f32/avx2", "encode_GBps", "zstd level 1", 9),
    row("mpc/gradients/f32/avx2", "encode_memcpy", "memcpy", 0.3),
    row("expo/gradients/bf16/avx512", "size_ratio", "entropy bound", 0.98),
    row("expo/gradients/bf16/avx2", "decode_huff0", "Huff0", 2.5),
    row("expo/gradients/bf16/avx2", "rel_l2", None, None),
    row("zfp:8/smooth/f32/avx512", "encode_GBps", "libzfp 1.0.0", 1),
]
found, text = goals(gradients)
for want, verdict in (
        (("zfp:8/f32", "avx512", "encode 20 20 libzfp"), "reached"),
        (("zfp:8/f32", "avx512", "decode 20 19.9 libzfp"), "missed"),
        (("mpc/f32", "avx2", "encode 0.4 0.3 memcpy"), "missed"),
        (("mpc/f32", "avx2", "decode 0.4 - memcpy"), "not measured"),
        (("expo/bf16", "avx2", "decode 2 2.5 Huff0"), "reached"),
        (("expo/bf16", "avx512", "size ratio 0.99 0.9800 entropy bound"),
         "missed")):
    check(want, found.get(want) == verdict, text)
check("counts", "2 reached, 3 missed, 21 not measured" in text, text)
check("names its data", "goals, on gradients;" in text, text)
text = printed([{**one, "machine": "a machine"} for one in gradients],
               "--markdown")
for line in ("On gradients, one core of a machine.",
             "| zfp:8 | f32 | avx512 | encode / decode | libzfp | 20 / 20 "
             "| 20 / 19.9 | yes / no |",
             "| expo | bf16 | avx512 | size ratio | entropy bound | 0.99 "
             "| 0.9800 | no |",
             "| mxint8 | f32 | avx2 | encode / decode | memcpy | 1 / 1 "
             "| - / - |  |"):
    check(f"Markdown: {line}", line in text.split("\n"), text)
_, text = goals([row("zfp:8/gaussian/f32/avx2", "encode_GBps", "libzfp", 5)])
check("synthetic data is called so", "synthetic" in text, text)
_, text = goals([row("zfp:8/zeros/f32/avx2", "encode_GBps", "libzfp", 5)])
check("nothing is judged on zeros", "nothing to judge" in text, text)

def ckpt_row(case, metric, value, ratio):
    return {**row(case, metric, "a yardstick", ratio), "bench": "ckpt",
            "unit": "ms", "value": value, "machine": "a machine"}


with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/figures", "w") as file:
        json.dump([ckpt_row("lazy/64MiB/host", "blocked_mean_ms", 3, 90),
                   ckpt_row("lazy/64MiB/host", "blocked_p99_ms", 2, 50),
                   ckpt_row("lazy/1GiB/host", "blocked_mean_ms", 1, 100),
                   ckpt_row("sync/4GiB/host", "durable_GBps", 1, 0.94)], file)
    command = ["/usr/bin/python3", f"{BENCH}/goals.py", "ckpt",
               f"{folder}/figures", "--into", f"{folder}/page"]
    with open(f"{folder}/page", "w") as file:
        file.write("before\n<!-- ckpt -->\nold\n<!-- /ckpt -->\nafter\n")
    text = subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout
    with open(f"{folder}/page") as file:
        page = file.read()
    check("counts of ckpt", "2 yes, 2 no, " in text, text)
    check("around the table", page.startswith("before\n<!-- ckpt -->\n| ") and
          page.endswith("<!-- /ckpt -->\nafter\n") and "old" not in page, page)
    check("a value is judged", "| 3 ms | ≤ 2 ms | no |" in page, page)
    check("a ratio is judged", "| 0.94 (1 ms, a yardstick 1) | ≥ 0.95 | no |"
          in page, page)
    check("the machine", "On a machine." in page, page)
    with open(f"{folder}/page", "w") as file:
        file.write("no marks")
    result = subprocess.run(command, capture_output=True, text=True)
    check("a page without marks", result.returncode == 1 and
          "no place" in result.stderr, result)

for words in ([], ["nonsense"], ["all", "--only", "mpc"], ["codec", "--json"]):
    result = subprocess.run([f"{BENCH}/run.sh", *words], capture_output=True,
                            text=True)
    check(f"run.sh {words}: usage", result.returncode == 2 and
          "bench/run.sh codec|" in result.stderr and not result.stdout,
          result)
print("failures:", failures)
sys.exit(1 if failures else 0)
