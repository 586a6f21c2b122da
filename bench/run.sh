#!/usr/bin/env bash
# Makes the figures of the README, each against its yardstick in the same run:
#     bench/run.sh codec|allreduce|ckpt|ckpt-sweep|train|train-speed|all
#                  [--json FILE] [--quick] [OPTION...]
#     bench/run.sh timeline
# --json: the measurements as one array, of all benchmarks if there are more.
# codec also takes --only SPEC, --mib N, and NAME=FILE.safetensors instead of
# what a run of lull-train dumps (kept in build/bench-data), and ends with the
# table of its goals; --quick: only what has a goal, on gradients.
# ckpt and ckpt-sweep also take --dir DIR, the disk, and --docs: their tables
# go into docs/checkpoints.md. timeline makes docs/timeline.svg. train (an
# hour; root) also takes --only loss|speed, --data FILE, and --docs: into
# docs/experiments.md, and plots beside it. Whole runs are kept in
# build/bench-train and not made again by the same programs.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/release data=build/bench-data
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OPENBLAS_NUM_THREADS=1

usage() {
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

compile() {
    cmake --preset release -DLULL_BENCH=ON >/dev/null &&
        cmake --build --preset release --target "$@" >/dev/null
}

# What the figures are of: sets machine and isa.
name_machine() {
    compile lull_program
    machine="$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)"
    machine="$machine, $(nproc) cores, $(uname -sr)"
    isa=$("$build/bin/lull" info --json | jq -r .isa)
    echo "$1: machine: $machine; codecs run on $isa"
}

# What training moves, from a model that has learnt something: the gradients
# of a step, what parallel ranks would send in it, and the weights after it.
# Made anew only when the recipe changes. Called in a condition, where -e does
# not hold.
steps=60
recipe=(--layers 4 --hidden 384 --heads 6 --seq 128 --global-batch 8
    --micro-batch 8 --steps "$steps" --warmup 10 --val-windows 1 --seed 1)
make_data() {
    if [ "$(cat "$data/recipe" 2>/dev/null)" = "${recipe[*]}" ]; then
        return 0
    fi
    local new
    mkdir -p build && new=$(mktemp -d build/bench-data.XXXXXX) || return 1
    # shellcheck disable=SC2064 # as it is now
    trap "rm -rf '$new'" EXIT
    if ! bible -f gen1:1-rev22:21 >"$new/text" 2>/dev/null; then
        echo "no text to train on: the program bible is missing (Debian:" \
            "bible-kjv, bible-kjv-text)"
        return 1
    fi
    echo "training $steps steps, for gradients, activations and weights"
    compile lull_train lull_program || return 1
    if ! "$build/bin/lull-train" --data "$new/text" "${recipe[@]}" \
        --dump-step "$steps" --dump-grads "$new/gradients.safetensors" \
        --dump-activations "$new/activations.safetensors" \
        --ckpt-dir "$new/ckpt" >"$new/log" 2>&1 ||
        ! "$build/bin/lull" export "$new/ckpt" -o "$new/model" \
            >>"$new/log" 2>&1; then
        tail -5 "$new/log"
        return 1
    fi
    mv "$new/model/model.safetensors" "$new/weights.safetensors" &&
        rm -r "$new/ckpt" "$new/model" "$new/text" &&
        echo "${recipe[*]}" >"$new/recipe" &&
        rm -rf "$data" && mv "$new" "$data" && trap - EXIT
}

# Each run_NAME gets the file for its figures, --quick or nothing, and what
# else was given.

run_codec() {
    local figures=$1 quick=$2 files=()
    shift 2
    compile bench_codec
    case " $* " in
    *=*.safetensors*) ;;
    *)
        if make_data; then
            local kind kinds=(gradients activations weights)
            [ -z "$quick" ] || kinds=(gradients)
            for kind in "${kinds[@]}"; do
                files+=("$kind=$data/$kind.safetensors")
            done
        else
            echo "no data of training: synthetic data only"
        fi
        ;;
    esac
    # In less memory memcpy would be that of a cache.
    [ -z "$quick" ] || set -- --quick --mib 64 --goals "$@"
    "$build/bin/bench_codec" --json "$figures" "$@" \
        ${files[@]+"${files[@]}"}
    /usr/bin/python3 bench/codec_goals.py "$figures"
}

# On an emulated cluster, so as root: 4 hosts at 1 Gbit/s, and 2. A short run has
# fewer sizes and policies. Gradients are those of a training, where there is
# text for one.
run_allreduce() {
    local figures=$1 quick=$2 data_option=()
    local policies="none raw mpc expo bf16 zfp:8 zfp:8@avx2 zfp:16 mxint8"
    shift 2
    compile mpi_allreduce
    if make_data; then
        data_option=(--data "$PWD/$data/gradients.safetensors")
    else
        echo "no gradients of a training: synthetic ones"
    fi
    grep -q avx2 /proc/cpuinfo || policies=${policies/zfp:8@avx2/}
    if [ -n "$quick" ]; then
        bench/cluster.sh with 4 1gbit "$PWD/$build/bin/mpi_allreduce" \
            --json "$figures" ${data_option[@]+"${data_option[@]}"} \
            --sizes "1KiB,64KiB,16MiB" --policies "$policies" "$@"
    else
        bench/cluster.sh with 4 1gbit "$PWD/$build/bin/mpi_allreduce" \
            --json "$figures.4" ${data_option[@]+"${data_option[@]}"} \
            --policies "$policies auto:zfp:8" --algorithms 1,2,3,4,5,6 "$@"
        bench/cluster.sh with 2 1gbit "$PWD/$build/bin/mpi_allreduce" \
            --json "$figures.2" ${data_option[@]+"${data_option[@]}"} \
            --sizes "1KiB,16MiB" --policies "$policies" "$@"
        jq -s add "$figures.4" "$figures.2" >"$figures"
        rm -f "$figures.4" "$figures.2"
    fi
    /usr/bin/python3 bench/allreduce_goals.py "$figures"
}

# take_docs [OPTION...]: sets docs where there is --docs, rest to the others.
take_docs() {
    docs='' rest=()
    local word
    for word in "$@"; do
        if [ "$word" = --docs ]; then docs=docs/checkpoints.md; else rest+=("$word"); fi
    done
}

# Names the machine in the figures, before they go into a page.
named() {
    jq --arg machine "$machine" --arg isa "$isa" \
        'map(. + {machine: $machine, isa: $isa})' "$1" >"$1.new"
    mv "$1.new" "$1"
}

# Debian's python3-torch and fio are its yardsticks.
run_ckpt() {
    local figures=$1 quick=$2 docs rest
    shift 2
    take_docs "$@"
    compile bench_ckpt lull_train
    # shellcheck disable=SC2086 # no word where it is empty
    "$build/bin/bench_ckpt" --torch bench/torch_save.py \
        --json "$figures.engine" $quick ${rest[@]+"${rest[@]}"}
    # shellcheck disable=SC2086
    /usr/bin/python3 bench/ckpt_train.py rows --build "$build" \
        --json "$figures.train" $quick ${rest[@]+"${rest[@]}"}
    jq -s add "$figures.engine" "$figures.train" >"$figures"
    named "$figures"
    /usr/bin/python3 bench/goals.py ckpt "$figures" ${docs:+--into "$docs"}
}

# The sweep of the DataStates-LLM paper: how often, and by how many ranks.
run_ckpt_sweep() {
    local figures=$1 quick=$2 docs rest
    shift 2
    take_docs "$@"
    compile lull_train
    # shellcheck disable=SC2086
    /usr/bin/python3 bench/ckpt_train.py sweep --build "$build" \
        --json "$figures" $quick ${rest[@]+"${rest[@]}"}
    named "$figures"
    [ -z "$docs" ] ||
        /usr/bin/python3 bench/ckpt_train.py table "$figures" "$docs"
}

# Under each scheme of compression: the loss of whole runs on this host, and
# the speed of short ones on an emulated cluster, so as root.
run_train() {
    local figures=$1 quick=$2 keep=build/bench-train out docs rest
    shift 2
    take_docs "$@"
    compile lull_train yield_sleeps
    [ -z "$quick" ] || keep=$keep-quick
    out=$keep
    [ -z "$json" ] || out=$(dirname "$json")
    # shellcheck disable=SC2086
    bench/train.py --build "$build" --keep "$keep" --json "$figures" \
        $quick ${rest[@]+"${rest[@]}"}
    named "$figures"
    bench/train_goals.py "$figures" ${docs:+--into docs/experiments.md}
    [ -z "$docs" ] || out=docs
    bench/train_report.py "$figures" "$keep" "$out" \
        ${docs:+--into docs/experiments.md}
}

# Against eager PyTorch, one thread each.
run_train_speed() {
    local figures=$1 quick=$2
    shift 2
    compile lull_train
    # shellcheck disable=SC2086
    bench/run_train_speed.sh --json "$figures" $quick "$@"
    jq -r '.[] | "\(.case): \(.value | round) \(.unit), \(.baseline) " +
        "\(.baseline_value | round), ratio \(.ratio * 100 | round / 100) " +
        "(n \(.n), \(.min | round) to \(.max | round))"' "$figures"
}

# run_one NAME FIGURES QUICK [OPTION...]: one benchmark and its figures, which
# name the machine and the instruction set.
run_one() {
    local name=$1 figures=$2 machine isa
    shift
    name_machine "$name"
    "run_${name//-/_}" "$@"
    jq --arg machine "$machine" --arg isa "$isa" 'map(. + {machine: $machine,
        isa: (if .bench == "codec" then .case | split("/") | last
              else $isa end)})' "$figures" >"$figures.named"
    mv "$figures.named" "$figures"
}

# One row for each benchmark: its function is run_NAME, with _ for -.
benches=(codec allreduce ckpt ckpt-sweep train train-speed)

[ $# -ge 1 ] || usage
if [ "$*" = timeline ]; then
    compile lull_train
    exec /usr/bin/python3 bench/timeline.py --build "$build" \
        --out docs/timeline.svg
fi
what=$1 json='' quick='' rest=()
shift
case " ${benches[*]} all " in
*" $what "*) ;;
*) usage ;;
esac
# A path as whoever called meant it.
absolute() {
    (cd "$OLDPWD" && realpath -m -- "$1")
}
while [ $# -gt 0 ]; do
    case $1 in
    --json | --dir | --data)
        [ $# -ge 2 ] || usage
        path=$(absolute "$2")
        if [ "$1" = --json ]; then json=$path; else rest+=("$1" "$path"); fi
        shift
        ;;
    --quick) quick=--quick ;;
    *=*.safetensors) rest+=("${1%%=*}=$(absolute "${1#*=}")") ;;
    *) rest+=("$1") ;;
    esac
    shift
done
chosen=("$what")
if [ "$what" = all ]; then
    [ ${#rest[@]} = 0 ] || usage # they are one benchmark's each
    chosen=("${benches[@]}")
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=()
for bench in "${chosen[@]}"; do
    # One that cannot run here does not take the others with it.
    set +e
    (
        set -e
        trap - EXIT
        run_one "$bench" "$work/$bench" "$quick" ${rest[@]+"${rest[@]}"}
    )
    code=$?
    set -e
    if [ $code != 0 ]; then
        failed+=("$bench")
        rm -f "$work/$bench"
    fi
done
if [ -n "$json" ]; then
    figures=()
    for bench in "${chosen[@]}"; do
        [ ! -f "$work/$bench" ] || figures+=("$work/$bench")
    done
    [ ${#figures[@]} = 0 ] || jq -s add "${figures[@]}" >"$json"
fi
[ ${#failed[@]} = 0 ] || {
    echo "bench/run.sh: failed: ${failed[*]}" >&2
    exit 1
}
