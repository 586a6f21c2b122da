#!/usr/bin/env bash
# clang.sh SOURCE BUILD CMAKE: libraries and programs built by clang, without
# warnings and without oneDNN and io_uring, whose absence is easily forgotten.
set -euo pipefail
source=$1 build=$2/clang cmake=$3
command -v clang >/dev/null || { echo "skipped: no clang"; exit 77; }
ls /usr/lib/*/libblas.so /usr/lib/*/libopenblas.so >/dev/null 2>&1 ||
    { echo "skipped: no CBLAS"; exit 77; }
{
    "$cmake" -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER=clang \
        -DCMAKE_BUILD_TYPE=Debug -DLULL_WERROR=ON -DLULL_ONEDNN=OFF \
        -DLULL_URING=OFF -DLULL_TESTS=OFF -DLULL_BENCH=OFF &&
        "$cmake" --build "$build" -- --quiet
} >"$build.log" 2>&1 || { tail -40 "$build.log"; exit 1; }
"$build/bin/lull" info | grep -q zfp
"$build/bin/lull-train" --help | grep -q ckpt-dir
