"""What the tests of lull-train share: starting it under MPI, its text, its
files read strictly. Run by CMake with LULL_BUILD, LULL_MPIRUN_PROGRAM and
LULL_MPI set; a work folder is made anew for each test."""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time

BUILD = os.environ["LULL_BUILD"]
BIN = os.path.join(BUILD, "bin")
TRAIN = os.path.join(BIN, "lull-train")
LULL = os.path.join(BIN, "lull")
LAUNCHER = os.environ.get("LULL_MPIRUN_PROGRAM", "mpirun")
FLAGS = {
    # A failed run ends at once instead of a second or two later.
    "openmpi": ["-q", "--oversubscribe", "--bind-to", "none", "--mca",
                "mpi_yield_when_idle", "1", "--mca",
                "odls_base_sigkill_timeout", "0"],
    "mpich": [],
}[os.environ.get("LULL_MPI", "openmpi")]
# MPICH's ranks spin while they wait: eight on two cores take minutes.
BIG = 4 if os.environ.get("LULL_MPI") == "mpich" else 8
WORK = os.path.join(BUILD, "tests", "train-" +
                    os.path.splitext(os.path.basename(sys.argv[0]))[0])
LIMIT = 900  # seconds; a run that takes longer hangs, on any machine

os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OPENBLAS_NUM_THREADS="1",
                  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

failures = 0


def fresh_work():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    os.chdir(WORK)


def check(what, good, detail=""):
    """One thing that must hold; the test goes on to find more."""
    global failures
    if good:
        return
    failures += 1
    print(f"FAILED: {what}: {detail}", flush=True)


def finish():
    print("failures:", failures)
    sys.exit(1 if failures else 0)


def skip(why):
    print("skipped:", why)
    sys.exit(77)


def seed():
    value = os.environ.get("LULL_TEST_SEED")
    value = int(value) if value else int.from_bytes(os.urandom(4), "little")
    print(f"seed: LULL_TEST_SEED={value}", flush=True)
    return random.Random(value)


def write_text(path, size=65536):
    """Words by a fixed seed: the same on every machine."""
    state, words, total = 12345, [], 0
    nouns = ("light", "water", "earth", "heaven", "beast", "seed", "day",
             "night", "and", "the", "of", "in", "was", "it", "good", "saw")
    while total < size:
        state = (state * 1103515245 + 12345) % 2**31
        word = nouns[(state >> 16) % len(nouns)]
        word += ".\n" if (state >> 8) % 11 == 0 else " "
        words.append(word)
        total += len(word)
    with open(path, "w") as file:
        file.write("".join(words)[:size])
    return path


SMALL = {"layers": 2, "hidden": 32, "heads": 4, "seq": 32, "global-batch": 8,
         "steps": 20, "warmup": 5, "lr": 0.003, "val-windows": 8}


def options(given):
    """{"tp": 2, "resume": "auto"} as words; None leaves an option out,
    a list gives it again."""
    words = []
    for name, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                words += [f"--{name.replace('_', '-')}", str(one)]
    return words


def command(ranks, words):
    return [LAUNCHER, *FLAGS, "-n", str(ranks), TRAIN, *words]


def run(ranks, given, limit=LIMIT):
    """Runs to the end; the result has returncode, stdout, stderr, seconds."""
    begun = time.monotonic()
    words = given if isinstance(given, list) else options(given)
    result = subprocess.run(command(ranks, words), capture_output=True,
                            timeout=limit)
    result.seconds = time.monotonic() - begun
    result.stdout = result.stdout.decode("latin-1")
    result.stderr = result.stderr.decode("latin-1")
    return result


def must(ranks, given, limit=LIMIT):
    result = run(ranks, given, limit)
    if result.returncode != 0:
        print("FAILED:", " ".join(result.args), "exit", result.returncode)
        print(result.stderr)
        sys.exit(1)
    return result


def start(ranks, given, errors, program=None):
    """Begins a run in its own process group; stderr to a file."""
    words = (program or command(ranks, options(given)))
    return subprocess.Popen(words, stdout=subprocess.DEVNULL,
                            stderr=open(errors, "wb"), start_new_session=True)


def ranks_of(pid):
    """Process ids of the lull-train ranks below a launcher."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    head, tail = file.read().rsplit(")", 1)
                parents[int(entry)] = (int(tail.split()[1]),
                                       head.split("(", 1)[1])
            except (OSError, IndexError):
                pass
    found = []
    for child, (_, name) in parents.items():
        at, depth = child, 0
        while at in parents and at != pid and depth < 8:
            at, depth = parents[at][0], depth + 1
        if at == pid and child != pid and name == "lull-train":
            found.append(child)
    return sorted(found)


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def wait_for(what, limit=LIMIT):
    """Until what() is true; False when it never was."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.005)
    return False


def metrics(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def committed(directory):
    """Names of checkpoints, oldest step first."""
    try:
        return sorted(name for name in os.listdir(directory)
                      if name.startswith("step-"))
    except FileNotFoundError:
        return []


def leftovers(directory):
    return [name for name in os.listdir(directory) if name.startswith(".step-")
            or name.startswith(".trash-")]


SIZES = {"F32": 4, "U8": 1, "F64": 8, "I64": 8, "I32": 4, "F16": 2, "BF16": 2}


def unique(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) != len(names):
        raise ValueError("a name twice")
    return dict(pairs)


def safetensors(path):
    """{name: (dtype, shape, bytes)}; raises where the format's rules are not
    kept: header length, JSON object, no gaps, no overlap, nothing behind."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack("<Q", raw[:8])
    assert length <= 100_000_000 and 8 + length <= len(raw), "header length"
    assert raw[8:9] == b"{", "the header begins with {"
    header = json.loads(raw[8:8 + length].decode("utf-8"),
                        object_pairs_hook=unique)
    data, at, result = raw[8 + length:], 0, {}
    meta = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in meta.values())
    for name, item in sorted(header.items(),
                             key=lambda pair: pair[1]["data_offsets"]):
        assert set(item) == {"dtype", "shape", "data_offsets"}, name
        begin, end = item["data_offsets"]
        count = 1
        for extent in item["shape"]:
            count *= extent
        assert begin == at and end - begin == count * SIZES[item["dtype"]], name
        result[name] = (item["dtype"], item["shape"], data[begin:end])
        at = end
    assert at == len(data), "bytes behind the last tensor"
    return result


def close(a, b, relative=1e-5):
    return abs(a - b) <= relative * max(abs(a), abs(b))
