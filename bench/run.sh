#!/usr/bin/env bash
# Makes the figures of the README, each against its yardstick in the same run:
#     bench/run.sh codec|allreduce|all [--json FILE] [--quick]
# codec also takes NAME=FILE.safetensors, e.g. gradients=grads.safetensors as
# `lull-train --dump-grads` writes it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release

usage() {
    sed -n '2,5s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

machine() {
    echo "machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo |
        head -1), $(nproc) cores, $(uname -sr)"
}

compile() {
    cmake --preset release >/dev/null
    cmake --build --preset release --target "$@" >/dev/null
}

run_codec() {
    compile bench_codec
    machine
    "$build/bin/bench_codec" "$@"
}

# On an emulated cluster, so as root. A short run has fewer sizes and calls.
run_allreduce() {
    local options=()
    compile mpi_allreduce
    machine
    while [ $# -gt 0 ]; do
        case $1 in
        --quick) options+=(--sizes "1KiB,16MiB" --policies none,zfp:8) ;;
        *) options+=("$1") ;;
        esac
        shift
    done
    bench/cluster.sh with 4 1gbit "$build/bin/mpi_allreduce" "${options[@]}"
}

# One row for each benchmark: its name is the function's after run_.
benches=(codec allreduce)

[ $# -ge 1 ] || usage
what=$1
shift
case " ${benches[*]} all " in
*" $what "*) ;;
*) usage ;;
esac
if [ "$what" = all ]; then
    for bench in "${benches[@]}"; do
        "run_$bench" "$@"
    done
else
    "run_$what" "$@"
fi
