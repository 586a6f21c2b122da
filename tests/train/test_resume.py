#!/usr/bin/python3
"""Bits: of the same run twice, of a run in two parts, of lazy and synchronous
checkpoints; and going on in another layout."""
from harness import *

KEYS = ("loss", "grad_norm", "lr", "val_loss")
MODEL = {**SMALL, "val-every": 5}


def curve(path):
    return [{key: line[key] for key in KEYS if key in line} | {
        "step": line["step"]} for line in metrics(path)]


def tensors(directory, step):
    """Bytes of every tensor and state in a checkpoint, by file and name."""
    folder = os.path.join(directory, f"step-{step:08d}")
    result = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            for tensor, value in safetensors(os.path.join(folder,
                                                          name)).items():
                result[name, tensor] = value
    check(f"{directory}: has tensors", len(result) > 10, len(result))
    return result


def bits_in_two_parts(name, ranks, layout):
    """Twice the same; 10 + 10 steps are 20."""
    base = {**MODEL, **layout, "data": data}
    must(ranks, {**base, "metrics": f"{name}-a", "ckpt-dir": f"{name}-whole"})
    must(ranks, {**base, "metrics": f"{name}-b"})
    whole = curve(f"{name}-a")
    check(f"{name}: twice the same bits", whole == curve(f"{name}-b"))
    half = {**base, "ckpt-dir": f"{name}-parts", "metrics": f"{name}-c"}
    must(ranks, {**half, "stop-at": 10})
    check(f"{name}: stops at 10", len(metrics(f"{name}-c")) == 10)
    must(ranks, {"data": data, "ckpt-dir": f"{name}-parts", "resume": "auto",
                 "metrics": f"{name}-c"})
    check(f"{name}: 10 + 10 are 20", curve(f"{name}-c") == whole)
    check(f"{name}: the same last checkpoint",
          tensors(f"{name}-parts", 20) == tensors(f"{name}-whole", 20))


def lazy_is_sync():
    """Every save of a lazy run, taken while it trains on, is a synchronous
    run's to the byte. The state is many times the buffer and a step takes
    little: an update that did not wait for the copy would be seen."""
    base = {**MODEL, "data": data, "ckpt-every": 3, "hidden": 128, "tp": 2,
            "layers": 4, "seq": 16, "global-batch": 2, "val-every": None,
            "ckpt-buffer": "1M"}
    for mode in ("sync", "lazy", "eager"):
        must(2, {**base, "ckpt-mode": mode, "ckpt-dir": mode})
    for step in (3, 6, 9, 12, 15, 18, 20):
        wanted = tensors("sync", step)
        check(f"lazy = sync at {step}", tensors("lazy", step) == wanted)
        check(f"eager = sync at {step}", tensors("eager", step) == wanted)


def other_layouts():
    """From one checkpoint on: any layout, the same losses within 1e-5."""
    base = {**MODEL, "data": data, "layers": 4}
    must(BIG, {**base, "tp": 2, "pp": 2, "ckpt-dir": "from", "stop-at": 10})
    must(1, {**base, "metrics": "straight"})
    wanted = curve("straight")[10:]
    layouts = [(BIG, {"tp": 2, "pp": 1}), (1, {"tp": 1, "pp": 1}),
               (2, {"tp": 1, "pp": 1, "zero": 1}),
               (3, {"tp": 1, "pp": 3, "comm": "none", "ckpt-dir": "to",
                    "ckpt-every": 5, "ckpt-mode": "eager"})]
    for number, (ranks, layout) in enumerate(layouts):
        file = f"other-{number}"
        must(ranks, {**layout, "data": data, "resume": "from",
                     "metrics": file})
        got = curve(file)
        check(f"{layout}: steps", [line["step"] for line in got] ==
              list(range(11, 21)), got[:1])
        for line, want in zip(got, wanted):
            for key in ("loss", "grad_norm", "val_loss"):
                if key in want:
                    check(f"{layout}: step {line['step']}: {key}",
                          close(line[key], want[key]),
                          f"{line[key]} for {want[key]}")
    # Those in another directory than their parent's are whole, too.
    verified = subprocess.run([LULL, "verify", "to", "--all"],
                              capture_output=True)
    check("into another directory", verified.returncode == 0,
          verified.stderr)
    # From a sharded optimizer back to a whole one.
    must(2, {"data": data, "resume": "to", "tp": 1, "pp": 1, "zero": 1,
             "ckpt-dir": "to"})


def sharded_parts():
    """With a sharded optimizer, over a change of ranks."""
    base = {**MODEL, "data": data, "zero": 1}
    must(4, {**base, "ckpt-dir": "zero", "stop-at": 10})
    must(1, {**base, "zero": 0, "metrics": "zero-straight"})
    must(2, {"data": data, "resume": "zero", "zero": 0, "tp": 2,
             "metrics": "zero-on"})
    for line, want in zip(curve("zero-on"), curve("zero-straight")[10:]):
        check(f"from 4 shards: step {line['step']}",
              close(line["loss"], want["loss"]), line["loss"])


fresh_work()
data = write_text("text")
bits_in_two_parts("one", 1, {})
bits_in_two_parts("big", BIG, {"tp": 2, "pp": 2})
bits_in_two_parts("zero", 2, {"zero": 1})
bits_in_two_parts("coded", 4, {"tp": 2, "comm": "zhybrid;min=0"})
lazy_is_sync()
other_layouts()
sharded_parts()
finish()
