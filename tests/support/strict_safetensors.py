#!/usr/bin/env python3
"""strict_safetensors.py FILE|DIR...: is it a safetensors file by every rule of
the format, written from its description and nothing of lull's? A directory is
a Hugging Face model: model.safetensors, or shards and an index. Prints the
first fault; exit status 1."""
import json
import os
import re
import struct
import sys

BITS = {"BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
        "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16,
        "BF16": 16, "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64,
        "I64": 64, "U64": 64, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
HEADER_MOST, HUB_MOST = 100_000_000, 25_000_000


class Fault(Exception):
    pass


def need(condition, why):
    if not condition:
        raise Fault(why)


def unique(pairs):
    names = [name for name, _ in pairs]
    need(len(set(names)) == len(names), "a name is there twice")
    return dict(pairs)


def whole(value):
    return type(value) is int and 0 <= value < 2 ** 64


def check_tensor(name, tensor, at):
    need(isinstance(tensor, dict), f"{name}: not an object")
    need(set(tensor) == {"dtype", "shape", "data_offsets"},
         f"{name}: its fields are {sorted(tensor)}")
    need(tensor["dtype"] in BITS, f"{name}: dtype {tensor['dtype']}")
    need(isinstance(tensor["shape"], list) and all(map(whole, tensor["shape"])),
         f"{name}: a bad shape")
    offsets = tensor["data_offsets"]
    need(isinstance(offsets, list) and len(offsets) == 2 and
         all(map(whole, offsets)), f"{name}: bad offsets")
    need(offsets[0] == at, f"{name}: begins at {offsets[0]}, not at {at}")
    count = 1
    for n in tensor["shape"]:
        count *= n
    bits = count * BITS[tensor["dtype"]]
    need(bits % 8 == 0, f"{name}: does not fill bytes")
    need(offsets[1] - offsets[0] == bits // 8, f"{name}: a wrong size")
    return offsets[1]


def check_file(path, model=False):
    """Returns {name: bytes}."""
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(8)
        need(len(head) == 8, "shorter than 8 bytes")
        n, = struct.unpack("<Q", head)
        need(n <= HEADER_MOST and n + 8 <= size, f"header of {n} bytes")
        text = file.read(n)
    need(text[:1] == b"{", "the header does not begin with '{'")
    end = text.rstrip(b" ")
    need(end[-1:] == b"}", "something but spaces behind the header")
    header = json.loads(end.decode("utf-8", "strict"),
                        object_pairs_hook=unique)
    meta = header.pop("__metadata__", {})
    need(isinstance(meta, dict) and
         all(isinstance(v, str) for v in meta.values()),
         "__metadata__ is not strings to strings")
    if model:
        need(n <= HUB_MOST, "a header that the hub refuses")
        need(meta.get("format") == "pt", "no format in __metadata__")
    for name in header:
        need("\0" not in name, f"{name!r}: NUL in a name")
    order = sorted(header.items(), key=lambda item: (
        item[1].get("data_offsets", [0, 0]) if isinstance(item[1], dict)
        else [0, 0]))
    at = 0
    for name, tensor in order:
        at = check_tensor(name, tensor, at)
    need(at == size - 8 - n, f"{size - 8 - n} bytes of data, tensors have {at}")
    return {name: t["data_offsets"][1] - t["data_offsets"][0]
            for name, t in header.items()}


def check_model(path):
    single = os.path.join(path, "model.safetensors")
    index = os.path.join(path, "model.safetensors.index.json")
    if os.path.exists(single):
        need(not os.path.exists(index), "one file and an index")
        return check_file(single, True)
    with open(index, encoding="utf-8") as file:
        content = json.load(file, object_pairs_hook=unique)
    files = sorted(set(content["weight_map"].values()))
    tensors = {}
    for number, name in enumerate(files, 1):
        need(re.fullmatch(r"model-\d{5}-of-\d{5}\.safetensors", name) and
             name == f"model-{number:05}-of-{len(files):05}.safetensors",
             f"{name}: not the name of shard {number}")
        for tensor, size in check_file(os.path.join(path, name), True).items():
            need(tensor not in tensors, f"{tensor}: in two files")
            need(content["weight_map"].get(tensor) == name,
                 f"{tensor}: the index says another file")
            tensors[tensor] = size
    need(set(tensors) == set(content["weight_map"]), "the index has more")
    need(content["metadata"]["total_size"] == sum(tensors.values()),
         "total_size is wrong")
    return tensors


def main(paths):
    for path in paths:
        try:
            tensors = (check_model if os.path.isdir(path) else
                       check_file)(path)
        except (Fault, ValueError, KeyError, OSError) as fault:
            print(f"{path}: {fault}")
            return 1
        print(f"{path}: good, {len(tensors)} tensors, "
              f"{sum(tensors.values())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
