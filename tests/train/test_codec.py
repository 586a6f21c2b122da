"""--ckpt-codec: checkpoints of the same training, raw and compressed, hold the
same bits for whoever reads them; a policy that is none is refused."""
import json
import subprocess

from harness import (LULL, SMALL, check, finish, fresh_work, must, run,
                     write_text)

fresh_work()
data = write_text("text")
BASE = {**SMALL, "steps": 4, "warmup": 2, "ckpt-every": 2, "hidden": 128, "data": data}


def lull(*words):
    return subprocess.run([LULL, *words], capture_output=True, text=True)


def show(where):
    return json.loads(lull("show", where, "--json").stdout)


must(2, {**BASE, "ckpt-dir": "raw"})
must(2, {**BASE, "tp": 2, "ckpt-dir": "coded", "ckpt-buffer": "1M",
         "ckpt-codec": "weights=expo,moments=mpc,*=raw"})
must(2, {**BASE, "ckpt-dir": "same", "ckpt-codec": "expo"})
must(2, {**BASE, "ckpt-dir": "threads", "ckpt-codec": "expo",
         "ckpt-encode-threads": 3})
for rank in range(2):
    name = f"step-00000004/rank-{rank:05}.safetensors"
    check("threads do not show", open(f"same/{name}", "rb").read() ==
          open(f"threads/{name}", "rb").read(), name)
for where in ("coded", "same"):
    result = lull("verify", where, "--all")
    check(f"{where} verifies", result.returncode == 0, result.stderr)
result = lull("diff", "raw", "same", "--json")
check("diff sees through", result.returncode == 0, result.stdout[-300:])
tensors = {t["name"]: t for t in show("coded")["tensors"]}
big = [t for t in tensors.values() if t["bytes"] > 100000]
check("large tensors", len(big) > 5, tensors.keys())
for t in big:
    wanted = "mpc" if t["name"].startswith("optimizer.") else "expo"
    check(f"{t['name']}: codec", t["codec"] == wanted, t["codec"])
    if wanted == "expo":
        check(f"{t['name']}: smaller", t["stored"] < t["bytes"], t)
check("show tells what is saved", "% saved" in lull("show", "same").stdout)
check("raw saves nothing", "% saved" not in lull("show", "raw").stdout)
lull("export", "raw", "-o", "raw-model")
result = lull("export", "same", "-o", "same-model")
check("export", result.returncode == 0, result.stderr)
result = subprocess.run(["cmp", "raw-model/model.safetensors",
                         "same-model/model.safetensors"])
check("exports are equal", result.returncode == 0)

# Resumed on another layout, with another codec.
must(1, {"data": data, "resume": "coded", "ckpt-dir": "more", "stop-at": 4,
         "ckpt-codec": "moments=bf16"})
for policy, says in (("weights=expo,oops", "'oops'"),
                     ("*=zfp:8", "lossy"), ("expo=weights", "no such class")):
    result = run(2, {**BASE, "ckpt-dir": "never", "ckpt-codec": policy})
    check(policy, result.returncode != 0 and says in result.stderr,
          result.stderr)
result = run(1, {**BASE, "ckpt-every": None, "ckpt-codec": "expo"})
check("without --ckpt-dir", "--ckpt-codec" in result.stderr, result.stderr)
must(1, {**BASE, "ckpt-dir": "timed", "commit-timeout": 30})
finish()
