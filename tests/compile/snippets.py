#!/usr/bin/python3
"""snippets.py SOURCE PAGE CC BIN MPI_DIRS FLAGS...: compiles every ```c block
of a page as it stands, and runs its ```sh run blocks, one after the other in
an empty directory, against real runs of lull-train made small."""
import os
import re
import subprocess
import sys
import tempfile

source, page, compiler, binaries, mpi_dirs, *flags = sys.argv[1:]
# What makes a run of the documentation one of a second.
SMALL = ("--layers 2 --hidden 32 --heads 4 --seq 32 --global-batch 8 "
         "--val-windows 2 --steps 30 --warmup 4").split()
WRAPPER = """#!/bin/sh
[ "$1" != train ] || exec "{0}/lull" "$@" {1}
exec "{0}/lull" "$@"
"""

text = open(os.path.join(source, page), encoding="utf-8").read()
blocks = re.findall(r"^```(\S*) ?([^\n]*)\n(.*?)^```$", text, re.M | re.S)
for language, how, body in blocks:
    if (language, how) not in (("c", ""), ("sh", "run"), ("", "")):
        sys.exit(f"{page}: a block of '{language} {how}': give c or sh run")
ran = compiled = 0
with tempfile.TemporaryDirectory() as work:
    for language, how, body in blocks:
        if language != "c" or "lull/comm.h" in body and not mpi_dirs or \
                "<mpi.h>" in body and not mpi_dirs:
            continue
        subprocess.run(
            [compiler, "-std=c11", "-fsyntax-only", "-Wall", "-Wextra",
             "-Werror", "-Wno-unused-function", "-I", source + "/include",
             *[f"-isystem{path}" for path in mpi_dirs.split(":") if path],
             "-x", "c", "-"], input=body, text=True, check=True)
        compiled += 1
    script = "".join(body for language, how, body in blocks if how == "run")
    if script and "run" in flags:
        os.mkdir(work + "/bin")
        os.mkdir(work + "/here")
        with open(work + "/bin/lull", "w") as file:
            file.write(WRAPPER.format(binaries, " ".join(SMALL)))
        os.chmod(work + "/bin/lull", 0o755)
        with open(work + "/here/bible.txt", "w") as file:
            file.write("".join(f"{n} and {n * n % 97} begat {n * 7 % 1009}.\n"
                               for n in range(3000)))
        path = f"{work}/bin:{binaries}:{os.environ['PATH']}"
        done = subprocess.run(["bash", "-euxc", script], cwd=work + "/here",
                              env={**os.environ, "PATH": path}, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout)
        if done.returncode:
            sys.exit(f"{page}: its commands end with {done.returncode}")
        ran = 1
print(f"{page}: {compiled} blocks compile, " +
      ("its commands run" if ran else "no commands run"))
