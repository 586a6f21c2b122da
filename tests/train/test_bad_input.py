#!/usr/bin/python3
"""Bad input: one clear line from one rank, which says what, which value, what
would do; exit 2 for usage and 1 otherwise; no MPI noise, no hang, no file
harmed."""
import hashlib
import stat

from harness import *


def tree(top):
    """Every file below a folder with its hash."""
    result = {}
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                result[path] = hashlib.sha256(file.read()).hexdigest()
    return result


def refused(name, ranks, given, code, *words, program=None):
    """The run fails with this code and one line that has these words."""
    if program:
        words_of_program = program + options(given)
        result = subprocess.run(words_of_program, capture_output=True,
                                timeout=LIMIT)
        result.stdout = result.stdout.decode("latin-1")
        result.stderr = result.stderr.decode("latin-1")
    else:
        result = run(ranks, given)
    # Some are found only after the line that says what is trained; and now
    # and then the event library of a dying mpirun warns of its own pipes.
    lines = [line for line in result.stderr.split("\n")
             if line and not line.startswith(("lull-train 0.", "[warn] Epoll"))]
    check(f"{name}: exit {code}", result.returncode == code,
          f"{result.returncode} {lines}")
    check(f"{name}: one line", len(lines) == 1, lines)
    check(f"{name}: nothing on stdout", result.stdout == "", result.stdout)
    for word in ("lull-train: ", *words):
        check(f"{name}: says {word!r}", word in result.stderr, lines)
    return result


def usage():
    base = {**SMALL, "data": data}
    table = [
        ("tp into heads", 3, {"tp": 3}, "--tp 3", "--heads 4", "1, 2, 4"),
        ("tp into hidden", 3, {"tp": 3, "heads": 3, "hidden": 31}, "--heads 3",
         "--hidden 31"),
        ("tp into 256", 3, {"tp": 3, "heads": 3, "hidden": 48}, "--tp 3",
         "256"),
        ("heads into hidden", 1, {"heads": 5}, "--heads 5", "--hidden 32"),
        ("heads too narrow", 1, {"heads": 32}, "heads of 1", "8, 16"),
        ("pp over layers", 4, {"pp": 4}, "--pp 4", "--layers 2", "at most 2"),
        ("tp pp into world", 3, {"tp": 2}, "--tp 2", "3 ranks", "multiple of 2"),
        ("batch into dp", 3, {}, "--global-batch 8", "3 data-parallel",
         "multiple of 3"),
        ("micro into batch", 2, {"micro-batch": 3}, "--micro-batch 3",
         "4 sequences", "1, 2, 4"),
        ("not a number", 2, {"layers": "many"}, "--layers", "'many'", "1 to"),
        ("negative", 2, {"steps": -1}, "--steps", "'-1'", "from 1"),
        ("too large", 1, {"seq": "99999999999999999999"}, "--seq", "'9999999"),
        ("nan", 1, {"lr": "nan"}, "--lr", "'nan'"),
        ("mode", 1, {"ckpt-mode": "fast"}, "--ckpt-mode", "'fast'",
         "lazy|eager|sync"),
        ("suffix", 1, {"ckpt-buffer": "64X"}, "--ckpt-buffer", "'64X'", "64M"),
        ("small buffer", 1, {"ckpt-buffer": "1K"}, "--ckpt-buffer", "1M"),
        ("zero", 1, {"zero": 2}, "--zero", "'2'", "0 to 1"),
        ("no such option", 2, {"layer": 2}, "--layer", "no such option"),
        ("policy", 2, {"comm": "zpf:8"}, "--comm", "zpf"),
        ("stop past steps", 1, {"stop-at": 21}, "--stop-at 21", "--steps 20"),
        ("warm-up past steps", 1, {"warmup": 21}, "--warmup 21", "at most 20"),
        ("no data", 2, {"data": None}, "--data"),
        ("auto without dir", 1, {"resume": "auto"}, "--resume auto",
         "--ckpt-dir"),
        ("every without dir", 1, {"ckpt-every": 5}, "--ckpt-every",
         "--ckpt-dir"),
        ("dump step of nothing", 1, {"dump-step": 3}, "--dump-step",
         "--dump-grads"),
        ("dump step past the end", 1, {"dump-step": 4, "stop-at": 3,
                                       "dump-grads": "x"}, "--dump-step 4",
         "at most 3"),
        ("activations of two", 2, {"dump-activations": "x"},
         "--dump-activations x", "2 ranks", "one rank"),
        ("init and resume", 1, {"resume": "x", "init": "y"}, "--init",
         "--resume"),
    ]
    for name, ranks, given, *words in table:
        refused(name, ranks, {**base, **given}, 2, *words)
    refused("no value", 1, ["--data"], 2, "--data", "FILE")
    refused("a word", 1, ["train"], 2, "train", "no such option")


def texts():
    open("empty", "w").close()
    write_text("short", 20)
    write_text("few", 900)
    base = {**SMALL, "data": data}
    for name, path, *words in (
            ("missing", "nowhere", "nowhere", "No such file"),
            ("empty", "empty", "empty"), ("too short", "short", "short"),
            ("too few windows", "few", "few"), ("a folder", ".", ".")):
        refused(f"{name} text", 2, {**base, "data": path}, 1, *words)


def directories():
    base = {**SMALL, "data": data, "ckpt-every": 2}
    open("in-the-way", "w").close()
    for name, path in (("a file in the way", "in-the-way/ckpt"),
                       ("a file as directory", "in-the-way"),
                       ("an unwritable place", "/proc/lull")):
        refused(name, 2, {**base, "ckpt-dir": path}, 1, path)
    for what in ("metrics", "trace", "dump-init", "dump-batches",
                 "dump-grads"):
        refused(f"unwritable {what}", 2,
                {**base, "ckpt-every": None, "steps": 2, "warmup": 1,
                 what: "in-the-way/x"}, 1, "in-the-way/x")
    os.link(data, "same-text")
    before = tree(".")
    for what in ("metrics", "trace", "dump-init", "dump-batches",
                 "dump-grads"):
        refused(f"{what} over the text", 2,
                {**base, "ckpt-every": None, what: "./same-text"}, 2, what,
                "write over --data")
    refused("a dump over the weights", 2,
            {**base, "ckpt-every": None, "init": "weights",
             "dump-init": "weights"}, 2, "write over --init")
    check("what is read is unharmed", tree(".") == before)
    os.unlink("same-text")
    os.mkfifo("pipe")
    for what in ("dump-init", "dump-batches", "dump-grads"):
        refused(f"a pipe as {what}", 2,
                {**base, "ckpt-every": None, "steps": 2, "warmup": 1,
                 what: "pipe"}, 1, "pipe", "not a plain file")
    refused("a pipe as dump-activations", 1,
            {**base, "ckpt-every": None, "steps": 2, "warmup": 1,
             "dump-activations": "pipe"}, 1, "pipe", "not a plain file")
    refused("a pipe as text", 1, {**base, "ckpt-every": None, "data": "pipe"},
            1, "pipe", "not a plain file")
    check("the pipe is there", stat.S_ISFIFO(os.stat("pipe").st_mode))
    os.unlink("pipe")
    refused("unwritable dump-activations", 1,
            {**base, "ckpt-every": None, "steps": 2, "warmup": 1,
             "dump-activations": "in-the-way/x"}, 1, "in-the-way/x")
    for what in ("no file", "text"):
        path = "nowhere" if what == "no file" else data
        refused(f"init from {what}", 2, {**SMALL, "data": data, "init": path},
                1, path)


def full_disk():
    """A directory on a file system of 512 KiB."""
    if subprocess.run(["unshare", "-rm", "true"]).returncode != 0:
        print("note: no mount name spaces here: the full disk is not tested")
        return
    os.mkdir("full")
    given = {**SMALL, "data": data, "ckpt-every": 2, "ckpt-dir": "full/ckpt",
             "hidden": 128}
    words = " ".join(command(2, options(given)))
    result = subprocess.run(
        ["unshare", "-rm", "sh", "-c",
         f"mount -t tmpfs -o size=512k none full && {words}; code=$?; "
         "ls -a full/ckpt; exit $code"], capture_output=True, timeout=LIMIT)
    lines = [line for line in result.stderr.decode().split("\n")
             if "lull-train:" in line]
    check("full disk: exit 1", result.returncode == 1, result.returncode)
    check("full disk: one line", len(lines) == 1, result.stderr.decode())
    check("full disk: says so", "full/ckpt" in lines[0] and (
        "space" in lines[0] or "free" in lines[0]), lines)
    check("full disk: nothing published", b"step-0" not in result.stdout or
          b".step-0" in result.stdout, result.stdout)


def newest_data(directory):
    folder = os.path.join(directory, committed(directory)[-1])
    return os.path.join(folder, sorted(
        name for name in os.listdir(folder)
        if name.endswith(".safetensors"))[-1])


def flip(path, at):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def resuming():
    base = {"data": data}
    must(2, {**SMALL, "data": data, "ckpt-dir": "good", "ckpt-every": 10,
             "stop-at": 10})
    os.mkdir("nothing")
    os.makedirs("foreign/step-00000010")
    with open("foreign/step-00000010/model.bin", "wb") as file:
        file.write(b"not ours")
    made = subprocess.run([os.path.join(BIN, "foreign_checkpoint"), "other"])
    check("foreign checkpoint made", made.returncode == 0)
    write_text("other-text", 60000)
    for name in ("flipped", "cut", "no-manifest", "torn-manifest"):
        shutil.copytree("good", name)
    flip(newest_data("flipped"), -3)
    os.truncate(newest_data("cut"), 5000)
    os.unlink("no-manifest/step-00000010/manifest.json")
    os.truncate("torn-manifest/step-00000010/manifest.json", 40)
    before = tree(".")
    table = [
        ("nothing there", {"resume": "nowhere"}, "nowhere"),
        ("an empty directory", {"resume": "nothing"}, "nothing"),
        ("a file", {"resume": data}, data),
        ("a foreign folder", {"resume": "foreign"}, "foreign"),
        ("another program's", {"resume": "other"}, "other", "lull-train"),
        ("a flipped bit", {"resume": "flipped"}, "flipped", "step 10"),
        ("a cut file", {"resume": "cut"}, "cut", "step 10"),
        ("no manifest", {"resume": "no-manifest"}, "no-manifest"),
        ("a torn manifest", {"resume": "torn-manifest"}, "torn-manifest"),
        ("a dump of a step that is done", {"resume": "good", "dump-step": 10,
                                           "dump-grads": "x"},
         "--dump-step 10", "done already"),
        ("more layers", {"resume": "good", "layers": 3}, "--layers 3",
         "has 2"),
        ("another width", {"resume": "good", "hidden": 64}, "--hidden 64",
         "has 32"),
        ("another schedule", {"resume": "good", "steps": 30}, "--steps 30",
         "has 20"),
        ("another seed", {"resume": "good", "seed": 9}, "--seed 9", "has 1"),
        ("another text", {"resume": "good", "data": "other-text"},
         "other-text", "learnt"),
    ]
    for name, given, *words in table:
        refused(f"resume: {name}", 2, {**base, **given}, 1, *words)
    refused("resume: layout", 3, {**base, "resume": "good", "tp": 2}, 2,
            "--tp 2", "3 ranks")
    refused("init: another shape", 2,
            {**SMALL, "data": data, "init": "weights", "layers": 3}, 1,
            "weights", "no tensor")
    refused("init: another width", 2,
            {**SMALL, "data": data, "init": "weights", "hidden": 64}, 1,
            "weights", "[256, 64]")
    check("no file was harmed", tree(".") == before)


def falls_back():
    """A damaged newest is passed over, and told, for an older one."""
    must(2, {**SMALL, "data": data, "ckpt-dir": "two", "ckpt-every": 5,
             "stop-at": 10})
    flip(newest_data("two"), -3)
    for where in ("two", "auto"):
        result = must(2, {"data": data, "resume": where, "ckpt-dir": "two",
                          "stop-at": 6, "ckpt-every": 100})
        check("falls back, and says so", result.stderr.count(
            "passing over checkpoint step 10") == 1 and
            "resumed from checkpoint step 5" in result.stderr, result.stderr)
        shutil.rmtree("two/step-00000006")


def busy():
    """Two runs in one directory: the second is refused."""
    given = {**SMALL, "data": data, "ckpt-dir": "busy", "steps": 100000}
    first = start(1, {**given, "metrics": "busy-metrics"}, "busy-errors")
    check("the first run begins", wait_for(
        lambda: os.path.exists("busy-metrics") and
        os.path.getsize("busy-metrics") > 0))
    refused("a directory in use", 2, given, 1, "busy", str(
        ranks_of(first.pid)[0]))
    kill(ranks_of(first.pid)[0], signal.SIGUSR1)
    check("the first run is unharmed", first.wait(60) == 0)


fresh_work()
data = write_text("text")
must(1, {**SMALL, "data": data, "stop-at": 1, "dump-init": "weights"})
for part in (usage, texts, directories, full_disk, resuming, falls_back, busy):
    begun = time.monotonic()
    part()
    print(f"{part.__name__}: {time.monotonic() - begun:.1f} s", flush=True)
finish()
