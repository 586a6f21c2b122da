"""The yardstick of bench_ckpt: torch.save and fsync of a state that is in
memory. Usage: torch_save.py BYTES PATH; each line on stdin saves once, to a
fresh file, and prints the seconds it took. "ready" is printed first."""
import os
import sys
import time

import torch


def main():
    size, path = int(sys.argv[1]), sys.argv[2]
    parts = 16
    count = size // 4 // parts
    state = {f"layer.{i}.weight": torch.rand(count) - 0.5
             for i in range(parts)}
    print("ready", flush=True)
    for _ in sys.stdin:
        if os.path.exists(path):
            os.unlink(path)
        begin = time.monotonic()
        with open(path, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        print(time.monotonic() - begin, flush=True)


main()
