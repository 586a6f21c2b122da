#!/usr/bin/env bash
# Makes the figures of the README, each against its yardstick in the same run:
#     bench/run.sh codec|allreduce|ckpt|all [--json FILE] [--quick]
# codec also takes NAME=FILE.safetensors; without any it dumps gradients and
# weights of a short run of lull-train, where there is a text (the program
# `bible`). ckpt also takes --dir DIR: the disk.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release

usage() {
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
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

# dump FOLDER: gradients of a training's first step, and its first weights.
dump() {
    bible -f gen1:1-rev22:21 >"$1/text" 2>/dev/null || return 1
    compile lull-train
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        "$build/bin/lull-train" --data "$1/text" --layers 4 --hidden 384 \
        --heads 6 --seq 128 --global-batch 4 --micro-batch 4 --steps 1 \
        --val-windows 1 --dump-grads "$1/gradients.safetensors" \
        --dump-init "$1/weights.safetensors" >"$1/log" 2>&1
}

run_codec() {
    compile bench_codec
    machine
    case " $* " in
    *=*.safetensors*) ;;
    *)
        work=$(mktemp -d)
        trap 'rm -rf "$work"' EXIT
        if dump "$work"; then
            set -- "$@" "gradients=$work/gradients.safetensors" \
                "weights=$work/weights.safetensors"
        else
            echo "no gradients: lull-train did not run; synthetic data only"
        fi
        ;;
    esac
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

# Debian's python3-torch and fio are its yardsticks.
run_ckpt() {
    compile bench_ckpt
    machine
    "$build/bin/bench_ckpt" --torch bench/torch_save.py "$@"
}

# One row for each benchmark: its name is the function's after run_.
benches=(codec allreduce ckpt)

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
