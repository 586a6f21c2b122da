#!/usr/bin/env bash
# Installs what the tests need, builds, and runs every test.
# ./test.sh          all of it; exit 0 only if all passed
# ./test.sh PART...  some parts: checks nompi asan tsan mpich dev
# Every part has its own build folder, so running it again is quick. The part
# `dev` comes last and is the whole suite under Open MPI.
set -euo pipefail
cd "$(dirname "$0")"

# Open MPI refuses root, and test machines are root.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# One thread a rank: more would only steal cores from the other ranks.
export OPENBLAS_NUM_THREADS=1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
export TSAN_OPTIONS=halt_on_error=1
export CTEST_OUTPUT_ON_FAILURE=1

parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(checks nompi asan tsan mpich dev)

say() { printf '\n== %s\n' "$*"; }
began() { local s=$SECONDS; printf '== %d min %02d s so far\n' $((s / 60)) $((s % 60)); }

build() {
    say "build ($1)"
    cmake --preset "$1" >"build/$1.log" 2>&1 || {
        cat "build/$1.log"
        return 1
    }
    cmake --build --preset "$1" -- --quiet
}

tests() { # PRESET [CTEST OPTION...]
    local preset=$1
    shift
    say "tests ($preset${*:+: $*})"
    ctest --test-dir "build/$preset" --no-tests=error --timeout 900 "$@"
    began
}

part_checks() { say "checks" && tools/check; }
part_nompi() { build nompi && tests nompi -j2 -L '^(compile|cli)$'; }
part_asan() { build asan && tests asan -j2 -L '^(unit|fuzz|cli|crash)$'; }
# Codecs have no threads but where frames are coded by several at once.
part_tsan() {
    build tsan &&
        tests tsan -j2 -L '^unit$' -E 'test_(expo|mpc|mxint8|zfp|formats)$'
}
part_mpich() { build mpich && tests mpich -L '^mpi$'; }
part_dev() { build dev && tools/check_symbols build/dev && tests dev; }

say "packages"
tools/install-packages build test data bench
mkdir -p build
for part in "${parts[@]}"; do
    declare -F "part_$part" >/dev/null || {
        echo "test.sh: no part is named '$part'" >&2
        exit 2
    }
    "part_$part"
done
