#!/usr/bin/env python3
"""Makes the golden checkpoints beside it, from docs/formats/checkpoint.md and
nothing of lull's: good/ has to be read for ever, each bad/NAME has to be
refused. Needs the Python module xxhash; the files are kept, so nobody has to
run it."""
import json
import os
import shutil
import struct

import xxhash

HERE = os.path.dirname(os.path.abspath(__file__))


def digits(data):
    return f"{xxhash.xxh3_64_intdigest(data):016x}"


def dump(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Checkpoint:
    """One step of a run; changes of its parts make it bad."""

    def __init__(self):
        self.change_header = self.change_vote = self.change_manifest = None
        self.change_data = None

    def shards(self, rank):
        half = struct.pack("<6f", *[6 * rank + i for i in range(6)])
        rows = [{"name": "w", "dtype": "F32", "shape": [4, 3],
                 "offset": [2 * rank, 0], "box": [2, 3], "bytes": half}]
        if rank == 0:
            rows += [{"name": "h/\u00e9", "dtype": "BF16", "shape": [],
                      "bytes": b"\x80\x3f"},
                     {"name": "none", "dtype": "I64", "shape": [0, 2],
                      "bytes": b""},
                     {"name": "clock", "stored": "lull.state/clock",
                      "kind": "state", "dtype": "U8", "shape": [3],
                      "bytes": b"abc"}]
        rows.append({"name": "rng", "stored": "lull.state/rng",
                     "kind": "rank_state", "dtype": "U8", "shape": [1],
                     "bytes": bytes([rank])})
        return rows

    def data_file(self, rank):
        header, data, rows = {"__metadata__": {"format": "pt"}}, b"", []
        for shard in self.shards(rank):
            values = shard.pop("bytes")
            span = [len(data), len(data) + len(values)]
            header[shard.get("stored", shard["name"])] = {
                "dtype": shard["dtype"],
                "shape": shard.get("box", shard["shape"]),
                "data_offsets": span}
            rows.append({**shard, "file": 0, "data": span})
            data += values
        if self.change_header and rank == 0:
            self.change_header(header)
        text = dump(header).encode()
        text += b" " * (-(8 + len(text)) % 4096)
        return struct.pack("<Q", len(text)) + text, data, rows

    def write(self, top, step=100):
        path = os.path.join(top, f"step-{step:08}")
        shutil.rmtree(top, ignore_errors=True)
        os.makedirs(path)
        head = {"run": "golden", "save": 0, "step": step, "world": 2}
        files, votes = [], []
        for rank in range(2):
            header, data, rows = self.data_file(rank)
            name = f"rank-{rank:05}.safetensors"
            blocks = [digits(data)]
            vote = {"format": "lull-vote", "version": 1, **head, "rank": rank,
                    "files": [{"name": name, "bytes": len(header + data),
                               "header": len(header),
                               "header_hash": digits(header),
                               "blocks": blocks}],
                    "shards": rows,
                    "aliases": [{"name": "tied", "of": "w"}],
                    "times_us": {"queued": 1, "copy": 2, "flush": 3,
                                 "fsync": 4}}
            if self.change_vote and rank == 0:
                self.change_vote(vote)
            text = dump(vote).encode()
            words = struct.pack("<Q", int(blocks[0], 16))
            both = struct.pack("<QQ", int(digits(header), 16),
                               xxhash.xxh3_64_intdigest(words))
            files.append({"name": name, "rank": rank,
                          "bytes": len(header + data), "hash": digits(both)})
            votes.append({"bytes": len(text), "hash": digits(text)})
            with open(os.path.join(path, f"rank-{rank:05}.json"), "wb") as f:
                f.write(text)
            if self.change_data and rank == 0:
                data = self.change_data(data)
            with open(os.path.join(path, name), "wb") as f:
                f.write(header + data)
        manifest = {"format": "lull-checkpoint", "version": 1, "seq": 7,
                    "parent": 5, **head, "time": 1700000000,
                    "meta": {"note": "a \"golden\" one\n"},
                    "files": files, "votes": votes}
        if self.change_manifest:
            self.change_manifest(manifest)
        text = dump(manifest)[:-1].encode() + b","
        text += b'"hash":"' + digits(text).encode() + b'"}\n'
        with open(os.path.join(path, "manifest.json"), "wb") as f:
            f.write(text)


class Merged(Checkpoint):
    """The same, both ranks' shards in one file."""

    def merged_file(self):
        header, data, rows = {"__metadata__": {"format": "pt"}}, b"", []
        # Host state last: it has odd lengths.
        both = sorted(((rank, shard) for rank in range(2)
                       for shard in self.shards(rank)),
                      key=lambda row: "kind" in row[1])
        for rank, shard in both:
            values = shard.pop("bytes")
            span = [len(data), len(data) + len(values)]
            stored = shard.get("stored", shard["name"])
            if stored in header:
                stored = shard["stored"] = stored + "#1"
            header[stored] = {"dtype": shard["dtype"],
                              "shape": shard.get("box", shard["shape"]),
                              "data_offsets": span}
            owner = {"rank": rank} if rank > 0 else {}
            rows.append({**shard, **owner, "file": 0, "data": span})
            data += values
        text = dump(header).encode()
        text += b" " * (-(8 + len(text)) % 4096)
        return struct.pack("<Q", len(text)) + text, data, rows

    def write(self, top, step=100):
        path = os.path.join(top, f"step-{step:08}")
        shutil.rmtree(top, ignore_errors=True)
        os.makedirs(path)
        head = {"run": "golden", "save": 0, "step": step, "world": 2}
        header, data, rows = self.merged_file()
        blocks = [digits(data)]
        name = "rank-00000.safetensors"
        vote = {"format": "lull-vote", "version": 1, **head, "rank": 0,
                "ranks": 2,
                "files": [{"name": name, "bytes": len(header + data),
                           "header": len(header),
                           "header_hash": digits(header), "blocks": blocks}],
                "shards": rows, "aliases": [{"name": "tied", "of": "w"}] * 2,
                "times_us": [{"queued": 1, "copy": 2, "flush": 3, "fsync": 4},
                             {"queued": 5, "copy": 6, "flush": 7, "fsync": 8}]}
        if self.change_vote:
            self.change_vote(vote)
        text = dump(vote).encode()
        words = struct.pack("<Q", int(blocks[0], 16))
        both = struct.pack("<QQ", int(digits(header), 16),
                           xxhash.xxh3_64_intdigest(words))
        manifest = {"format": "lull-checkpoint", "version": 1, "seq": 7,
                    "parent": 5, **head, "time": 1700000000,
                    "meta": {"note": "a \"golden\" one\n"},
                    "files": [{"name": name, "rank": 0,
                               "bytes": len(header + data),
                               "hash": digits(both)}],
                    "votes": [{"bytes": len(text), "ranks": 2,
                               "hash": digits(text)}]}
        if self.change_manifest:
            self.change_manifest(manifest)
        with open(os.path.join(path, "rank-00000.json"), "wb") as f:
            f.write(text)
        with open(os.path.join(path, name), "wb") as f:
            f.write(header + data)
        text = dump(manifest)[:-1].encode() + b","
        text += b'"hash":"' + digits(text).encode() + b'"}\n'
        with open(os.path.join(path, "manifest.json"), "wb") as f:
            f.write(text)


def bad(name, kind=Checkpoint, **changes):
    checkpoint = kind()
    for key, change in changes.items():
        setattr(checkpoint, key, change)
    checkpoint.write(os.path.join(HERE, "bad", name))


def places(manifest, here):
    """Rank r in place r."""
    manifest.update(version=2, here=here, places=["a:/disk", "b:/disk"])
    for rank, vote in enumerate(manifest["votes"]):
        vote.update(place=rank)


def main():
    Checkpoint().write(os.path.join(HERE, "good"))
    Merged().write(os.path.join(HERE, "merged"))
    bad("merged-rank", Merged, change_vote=lambda v: v["shards"][-1].update(
        rank=2))
    bad("merged-times", Merged, change_vote=lambda v: v["times_us"].pop())
    bad("merged-ranks", Merged, change_vote=lambda v: v.update(ranks=3))
    bad("merged-none", Merged, change_manifest=lambda m:
        m["votes"][0].update(ranks=0))
    bad("merged-few", Merged, change_manifest=lambda m: m.update(world=3))
    bad("merged-names", Merged, change_vote=lambda v: v["shards"][-1].update(
        stored="lull.state/rng"))
    bad("merged-places", Merged, change_manifest=lambda m: places(m, 0))
    for here in range(2):
        place = Checkpoint()
        place.change_manifest = lambda m: places(m, here)
        top = os.path.join(HERE, f"place-{here}")
        place.write(top)
        for name in (f"rank-{1 - here:05}.json",
                     f"rank-{1 - here:05}.safetensors"):
            os.remove(os.path.join(top, "step-00000100", name))
    bad("version", change_manifest=lambda m: m.update(version=1000))
    bad("no-places", change_manifest=lambda m: m.update(version=2))
    bad("here", change_manifest=lambda m: places(m, 2))
    bad("placed", change_manifest=lambda m: places(m, 0) or
        m["votes"][1].update(place=2))
    bad("placed-one", change_manifest=lambda m: places(m, 0) or
        m.update(version=1))
    bad("vote-version", change_vote=lambda v: v.update(version=2))
    bad("path", change_manifest=lambda m: m["files"][0].update(
        name="../rank-00000.safetensors"))
    bad("seq", change_manifest=lambda m: m.update(seq=0))
    bad("world", change_manifest=lambda m: m.update(world=3))
    bad("field", change_manifest=lambda m: m.update(surprise=1))
    bad("digest", change_manifest=lambda m: m["files"][1].update(
        hash="0" * 16))
    bad("other-run", change_vote=lambda v: v.update(run="another"))
    bad("other-step", change_vote=lambda v: v.update(step=99))
    bad("overlap", change_vote=lambda v: v["shards"][0].update(
        offset=[1, 0]))
    bad("outside", change_vote=lambda v: v["shards"][0].update(
        offset=[3, 0]))
    bad("wraps", change_vote=lambda v: v["shards"][0].update(
        offset=[2 ** 64 - 1, 0]))
    bad("shape", change_vote=lambda v: v["shards"][0].update(
        shape=[2 ** 63, 3]))
    bad("gap", change_vote=lambda v: v["shards"][1].update(data=[25, 27]))
    bad("blocks", change_vote=lambda v: v["files"][0].update(blocks=[]))
    bad("alias", change_vote=lambda v: v["aliases"][0].update(of="x"))
    bad("frames", change_vote=lambda v: v["shards"][0].update(
        codec="zfp:8", frames=[2 ** 64 - 1]))
    bad("header-name", change_header=lambda h: h.update(
        other=h.pop("w")))
    bad("flipped", change_data=lambda d: bytes([d[0] ^ 1]) + d[1:])
    bad("short", change_data=lambda d: d[:-1])
    bad("trailing", change_data=lambda d: d + b"\0")


if __name__ == "__main__":
    main()
