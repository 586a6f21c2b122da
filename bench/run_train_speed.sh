#!/usr/bin/env bash
# Speed of lull-train against eager PyTorch on the same model: one rank, one
# thread each, alternating, medians of medians.
# bench/run_train_speed.sh [--json FILE] [--quick]; LULL_BUILD: build folder.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${LULL_BUILD:-build/release}
json=/dev/stdout rounds=5
while [ $# -gt 0 ]; do
    case $1 in
    --json) json=$2 && shift ;;
    --quick) rounds=2 ;;
    *)
        echo "usage: bench/run_train_speed.sh [--json FILE] [--quick]" >&2
        exit 2
        ;;
    esac
    shift
done
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
train=$build/bin/lull-train
[ -x "$train" ] || {
    echo "run_train_speed.sh: $train is not built" >&2
    exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Any bytes do: speed does not depend on them.
seq -f 'line %.0f of some text that nobody reads' 20000 >"$work/text"

# Median tokens/s of a run's steps but the first two.
lull_speed() { # LAYERS HIDDEN HEADS SEQ BATCH STEPS
    rm -f "$work/metrics"
    "$train" --data "$work/text" --layers "$1" --hidden "$2" --heads "$3" \
        --seq "$4" --global-batch "$5" --micro-batch "$5" --steps "$6" \
        --val-windows 1 --metrics "$work/metrics" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        return 1
    }
    jq -s '[.[2:][].tokens_per_s] | sort | .[length / 2 | floor]' \
        "$work/metrics"
}
torch_speed() {
    /usr/bin/python3 bench/torch_baseline.py --layers "$1" --hidden "$2" \
        --heads "$3" --seq "$4" --batch "$5" --steps "$6" | jq .tokens_per_s
}

while read -r shape; do
    read -r layers hidden heads seq batch steps <<<"$shape"
    for ((i = 0; i < rounds; i++)); do
        # shellcheck disable=SC2086
        lull_speed $shape >>"$work/lull.$hidden"
        # shellcheck disable=SC2086
        torch_speed $shape >>"$work/torch.$hidden"
    done
    jq -n --slurpfile a "$work/lull.$hidden" --slurpfile b \
        "$work/torch.$hidden" --arg case \
        "speed/layers$layers-hidden$hidden-seq$seq-batch$batch" '
        def median: sort | .[length / 2 | floor];
        {bench: "train", case: $case, metric: "tokens_per_s",
         unit: "tokens/s", value: ($a | median), min: ($a | min),
         max: ($a | max), n: ($a | length), baseline: "eager PyTorch",
         baseline_value: ($b | median),
         ratio: (($a | median) / ($b | median))}' >>"$work/results"
done <<'SHAPES'
4 128 4 128 16 12
6 384 6 256 8 6
SHAPES
jq -s . "$work/results" >"$json"
