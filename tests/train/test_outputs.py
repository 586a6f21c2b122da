#!/usr/bin/python3
"""What a run writes: metrics, trace, dumps, sample, help."""
from harness import *

ROLES = {"dp", "tp", "pp", "param", "other"}
KEYS = {"step", "loss", "grad_norm", "lr", "step_ms", "tokens_per_s", "tflops",
        "ckpt_blocked_ms", "comm"}
LANES = {"forward", "backward", "optimizer", "tp", "pp", "dp", "other",
         "staging", "flushing"}


def strict_json(path):
    """No NaN, no Infinity: JSON has none."""
    def refuse(word):
        raise ValueError(word)
    with open(path) as file:
        return json.load(file, parse_constant=refuse)


def check_metrics():
    lines = metrics("metrics")
    check("a line a step", [line["step"] for line in lines] ==
          list(range(1, 21)), len(lines))
    for line in lines:
        step = line["step"]
        validated = step % 8 == 0 or step == 20
        check(f"keys of step {step}", set(line) == KEYS | (
            {"val_loss"} if validated else set()), sorted(line))
        check(f"roles of step {step}", set(line["comm"]) == ROLES)
        for role, sums in line["comm"].items():
            check(f"{role} of step {step}", set(sums) ==
                  {"calls", "bytes", "wire_bytes", "ms"}, sums)
        check(f"speed of step {step}", line["step_ms"] > 0 and
              line["tflops"] > 0 and close(
                  line["tokens_per_s"], 8 * 32 / line["step_ms"] * 1e3, 1e-3))
    for role in ("dp", "tp", "pp", "other") if BIG == 8 else ("tp", "pp"):
        check(f"{role} was used", lines[-1]["comm"][role]["bytes"] > 0)


def check_trace():
    events = strict_json("trace")["traceEvents"]
    names = {(event["pid"], event["tid"]): event["args"]["name"]
             for event in events if event["name"] == "thread_name"}
    spans = [event for event in events if event["ph"] == "X"]
    seen = {names[span["pid"], span["tid"]] for span in spans}
    check("lanes", (LANES if BIG == 8 else LANES - {"dp"}) <= seen, sorted(seen))
    check("ranks", {span["pid"] for span in spans} == set(range(BIG)))
    check("times", all(span["dur"] >= 0 and span["ts"] >= 0
                       for span in spans))


def check_dumps():
    first = safetensors("init")
    check("names", "gpt_neox.layers.1.attention.query_key_value.weight"
          in first and len(first) == 4 + 12 * 2, len(first))
    check("shape", first["gpt_neox.embed_in.weight"][:2] == ("F32", [256, 32]))
    check("dtype", {value[0] for value in first.values()} == {"F32"})
    check("other layout, same weights", safetensors("init-1") == first)
    check("from a file, same weights", safetensors("init-again") == first)
    gradients = safetensors("grads")
    check("gradients of all weights", set(gradients) == set(first))
    batches = safetensors("batches")
    check("batches", set(batches) == {f"batch.{n:06d}" for n in range(1, 4)})
    check("batch", batches["batch.000001"][:2] == ("U8", [8, 33]))


def floats(tensor):
    return struct.unpack(f"<{len(tensor[2]) // 4}f", tensor[2])


def nearly(ours, theirs):
    """Two lists of floats, within rounding of the largest."""
    largest = max(abs(x) for x in theirs)
    return largest > 0 and all(abs(a - b) <= 2e-5 * largest
                               for a, b in zip(ours, theirs))


def column_sums(values, width=32):
    return [sum(values[i::width]) for i in range(width)]


def check_activations(step, biased):
    """Sums over rows are the gradients of biases; what a layer adds to the
    stream is its row-parallel output (and the biases, once they are not 0)."""
    dump = safetensors(f"activations-{step}")
    gradients = safetensors(f"grads-{step}")
    check("activations: names", set(dump) == {
        f"{what}.layers.{layer}.{of}" for layer in (0, 1) for what, of in (
            ("activations", "output"), ("activation_gradients", "output"),
            ("activations", "row_parallel"),
            ("activation_gradients", "norms"))}, sorted(dump))
    output = {i: floats(dump[f"activations.layers.{i}.output"])
              for i in (0, 1)}
    added = [b - a for a, b in zip(output[0], output[1])]
    product = floats(dump["activations.layers.1.row_parallel"])
    if biased:
        rest = [a - p for a, p in zip(added, product)]
        check("the rest of the output is one row of biases",
              nearly(rest[:32] * (len(rest) // 32), rest) and any(rest))
    else:
        check("outputs differ by the row-parallel sum",
              nearly(added, product))
    for i in (0, 1):
        layer = f"gpt_neox.layers.{i}"
        name = f"activation_gradients.layers.{i}"
        check("shapes", dump[f"{name}.output"][:2] == ("F32", [8, 32, 32]) and
              dump[f"{name}.norms"][:2] == ("F32", [2, 8, 32, 32]))
        norms = floats(dump[f"{name}.norms"])
        half = len(norms) // 2
        for what, values in (
                ("attention.dense.bias", floats(dump[f"{name}.output"])),
                ("input_layernorm.bias", norms[:half]),
                ("post_attention_layernorm.bias", norms[half:])):
            check(f"step {step}: {layer}.{what}", nearly(
                column_sums(values), floats(gradients[f"{layer}.{what}"])))


def check_norms():
    """A model with a NaN: no step is done, the tenth in a row ends the run."""
    with open("init", "rb") as file:
        raw = bytearray(file.read())
    raw[-4:] = struct.pack("<f", float("nan"))
    with open("nan", "wb") as file:
        file.write(raw)
    result = run(2, {**MODEL, "init": "nan", "metrics": "nan-metrics"})
    check("NaN: exit 1", result.returncode == 1, result.stderr)
    check("NaN: told", "in 10 steps in a row" in result.stderr)
    lines = metrics("nan-metrics")
    check("NaN: ten lines, strict JSON", len(lines) == 10 and
          all(line["grad_norm"] is None for line in lines), lines[-1:])


fresh_work()
data = write_text("text")
MODEL = {**SMALL, "data": data}
big = must(BIG, {**MODEL, "tp": 2, "pp": 2, "val-every": 8, "ckpt-dir": "ckpt",
               "ckpt-every": 5, "metrics": "metrics", "trace": "trace",
               "sample": 40, "prompt": "the ", "dump-init": "init"})
check("the sample, and nothing else, on stdout", len(big.stdout) == 45 and
      big.stdout.startswith("the "), repr(big.stdout))
for word in ("tokens/s", "wire", "blocked", "left", "ratio", "durable"):
    check(f"the progress or the table says {word}", word in big.stderr)
check_metrics()
check_trace()
one = must(1, {**MODEL, "stop-at": 3, "dump-init": "init-1",
               "dump-grads": "grads", "dump-batches": "batches",
               "metrics": "metrics-1"})
two = must(2, {**MODEL, "stop-at": 3, "init": "init", "tp": 2,
               "dump-init": "init-again", "metrics": "metrics-2"})
check_dumps()
for a, b in zip(metrics("metrics-1"), metrics("metrics-2")):
    check("from --init as from the seed", close(a["loss"], b["loss"]))
again = must(1, {"data": data, "resume": "ckpt", "sample": 40,
                 "prompt": "the ", "seed": 1})
check("a sample is the weights' and the seed's, on any layout",
      again.stdout == big.stdout, repr(again.stdout))
for step in (1, 3):
    must(1, {**MODEL, "stop-at": 3, "dump-grads": f"grads-{step}",
             "dump-activations": f"activations-{step}",
             "dump-step": step if step > 1 else None,
             "metrics": f"metrics-of-{step}"})
    check_activations(step, step > 1)
    check("a dump changes nothing", [line["loss"] for line in metrics(
        f"metrics-of-{step}")] == [line["loss"] for line in
                                   metrics("metrics-1")])
check("without --dump-step the first step",
      safetensors("grads-1") == safetensors("grads") != safetensors("grads-3"))
help_text = must(2, ["--help"]).stdout
for name in ("--data", "--ckpt-buffer", "--dump-grads", "--dump-activations", "--top-k", "--zero"):
    check(f"--help has {name}", help_text.count(name + " ") >= 1)
check("--help once", help_text.count("usage:") == 1)
check("--version", must(1, ["--version"]).stdout.startswith("lull-train 0."))
check_norms()
finish()
