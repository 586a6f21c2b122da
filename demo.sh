#!/usr/bin/env bash
# The main job on real text: trains a language model on 8 ranks with lazy
# checkpoints, kills it in the middle of one, resumes on another layout, shows
# what it cost, exports the model and lets it write. Usage: ./demo.sh
# [--data FILE] [--policy POLICY] [--steps N]. Everything lands in build/demo.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD

data='' policy=${LULL_DEMO_POLICY:-zhybrid} steps=${LULL_DEMO_STEPS:-800}
usage() {
    echo "usage: ./demo.sh [--data FILE] [--policy POLICY] [--steps N]"
}
while [ $# -gt 0 ]; do
    case $1 in
    --data | --policy | --steps)
        [ $# -gt 1 ] || { usage >&2; exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
done
[ -z "$data" ] || data=$(realpath "$data")

say() { printf '\n== %s\n' "$*"; }
die() { echo "demo.sh: $*" >&2; exit 1; }

say "packages and build"
tools/install-packages build data
cmake --preset release -DLULL_TESTS=OFF -DLULL_BENCH=OFF >/dev/null
cmake --build --preset release --target lull_train lull_program |
    tail -n 1
bin=$PWD/build/release/bin
work=$PWD/build/demo
rm -rf "$work"
mkdir -p "$work"
cd "$work"
if [ -z "$data" ]; then
    data=$work/bible.txt
    bible -f gen1:1-rev22:21 >"$data"
fi
echo "text: $data, $(wc -c <"$data") bytes; files of the demo: $work"

# A launcher that still runs when this script ends, by whatever way, goes too.
launcher=''
cluster=''
finish() {
    [ -z "$launcher" ] || kill "$launcher" 2>/dev/null || true
    [ -z "$cluster" ] || "$root/bench/cluster.sh" down
}
trap finish EXIT

model=(--data "$data" --layers 4 --hidden 128 --heads 4 --seq 128
    --global-batch 16 --steps "$steps" --warmup $((steps / 20)) --lr 0.004
    --seed 1 --val-every $((steps / 4)) --comm "$policy")
ckpt=(--ckpt-dir "$work/ckpt" --ckpt-every 20 --ckpt-mode lazy --keep-last 5)

# ---- 1 and 2: train, and kill it in the middle of a checkpoint --------------

ranks_below() { # the lull-train processes below launcher $1
    local stat pid rest fields
    declare -A parent name
    for stat in /proc/[0-9]*/stat; do
        read -r rest <"$stat" 2>/dev/null || continue
        pid=${rest%% *}
        name[$pid]=${rest#*\(}
        fields=${rest##*) }
        parent[$pid]=$(cut -d' ' -f2 <<<"$fields")
    done
    for pid in "${!name[@]}"; do
        [[ ${name[$pid]} == lull-train\)* ]] || continue
        rest=$pid
        while [ -n "${parent[$rest]:-}" ] && [ "$rest" != "$1" ]; do
            rest=${parent[$rest]}
        done
        [ "$rest" = "$1" ] && echo "$pid"
    done
}

newest_step() { # the newest committed step, by the names; 0: none
    ls "$work/ckpt" 2>/dev/null | sed -n 's/^step-0*\([0-9]\)/\1/p' |
        sort -n | tail -n 1 | grep . || echo 0
}

train_and_kill() { # until a save is cut off; $1: committed step to wait for
    "$bin/lull" train -n 8 "${model[@]}" --tp 2 --pp 2 "${ckpt[@]}" \
        --resume auto --metrics "$work/metrics.jsonl" &
    launcher=$!
    while [ "$(newest_step)" -lt "$1" ]; do
        kill -0 "$launcher" 2>/dev/null || die "the training ended by itself"
        sleep 0.2
    done
    mapfile -t victims < <(ranks_below "$launcher")
    [ ${#victims[@]} -eq 8 ] || die "found ${#victims[@]} of 8 ranks"
    while ! compgen -G "$work/ckpt/.step-*.partial-*" >/dev/null; do
        kill -0 "$launcher" 2>/dev/null || die "the training ended by itself"
    done
    kill -KILL "${victims[@]}"
    wait "$launcher" || true
    launcher=''
}

say "1. training on 8 ranks, DP 2 x TP 2 x PP 2, a lazy checkpoint every 20" \
    "steps, communication: $policy"
for try in 1 2 3 4 5 6; do
    train_and_kill $((steps / 2 / 20 * 20 + try * 20 - 20))
    cut=$(compgen -G "$work/ckpt/.step-*.partial-*" || true)
    [ -z "$cut" ] || break
    echo "that checkpoint was committed before the signal came: once more"
done
[ -n "$cut" ] || die "no kill hit a checkpoint"
say "2. killed with SIGKILL in the middle of a checkpoint"
echo "left behind, never to be loaded: ${cut##*/}"
"$bin/lull" ls "$work/ckpt"
resumed=$(newest_step)

# ---- 3: resume on another layout --------------------------------------------

say "3. resuming from step $resumed on another layout: DP 4 x TP 2 x PP 1"
"$bin/lull" train -n 8 --data "$data" --tp 2 --pp 1 "${ckpt[@]}" \
    --resume auto --metrics "$work/metrics.jsonl" \
    --sample 600 --prompt "And " --temperature 0.7 >"$work/sample.txt" &
launcher=$!
wait "$launcher" || die "the resumed run failed"
launcher=''
[ -z "$(compgen -G "$work/ckpt/.step-*.partial-*" || true)" ] ||
    die "the cut-off checkpoint is still there"

# ---- 4: what it cost --------------------------------------------------------

field() { # numbers of key $2 in file $1, one a line
    sed -n "s/.*\"$2\":\\([-+.e0-9]*\\).*/\\1/p" "$1"
}
mean() { # of stdin
    awk '{sum += $1} END {printf "%.2f", NR ? sum / NR : 0}'
}
around() { # losses of the steps around the resumption
    awk -v at="$resumed" 'match($0, /"step":[0-9]+/) {
            step = substr($0, RSTART + 7, RLENGTH - 7) + 0
            match($0, /"loss":[-+.e0-9]+/)
            loss = substr($0, RSTART + 7, RLENGTH - 7)
            if (step > at - 4 && step <= at + 4)
                printf "  step %5d  loss %.4f%s\n", step, loss,
                    step == at + 1 ? "  <- resumed, DP 4 x TP 2" : ""
        }' "$work/metrics.jsonl"
}
start_cluster() { # hosts with a network between them, where root may have some
    [ "$(id -u)" = 0 ] || return 0
    if "$root/bench/cluster.sh" up 4 1gbit 2>"$work/cluster.log"; then
        cluster=4
    else
        tail -n 1 "$work/cluster.log"
    fi
}
compare() { # a few steps of the same run: $1 name, then options
    local name=$1 run=("$bin/lull" train -n 8)
    shift
    rm -rf "$work/compare"
    [ -z "$cluster" ] || run=("$root/bench/cluster.sh" run -np 8 -q
        "$bin/lull-train")
    OPENBLAS_NUM_THREADS=1 timeout 300 "${run[@]}" "${model[@]}" --tp 2 \
        --pp 2 --stop-at 20 --val-windows 1 --ckpt-dir "$work/compare" \
        --ckpt-every 2 --metrics "$work/$name.jsonl" "$@" \
        2>"$work/$name.log" ||
        { cat "$work/$name.log" >&2; die "the run '$name' failed"; }
    rm -rf "$work/compare"
}
row() { # $1 name, $2 text
    printf '  %-34s %10s %16s %16s\n' "$2" \
        "$(field "$work/$1.jsonl" step_ms | tail -n +3 | mean)" \
        "$(field "$work/$1.jsonl" ckpt_blocked_ms | tail -n +3 | mean)" \
        "$(grep -o '"wire_bytes":[0-9]*' "$work/$1.jsonl" |
            awk -F: '{sum += $2} END {printf "%.1f MB", sum / 20e6}')"
}

say "4. what it cost"
echo "the loss goes on where it stood:"
around
echo
start_cluster
where="ranks share this machine's memory"
[ -z "$cluster" ] || where="8 ranks on 4 hosts (network namespaces), 1 Gbit/s"
echo "the same 20 steps, a checkpoint every 2 of them (means of a step);"
echo "$where:"
printf '  %-34s %10s %16s %16s\n' '' 'ms' 'ms blocked' 'on the wire'
compare lazy --ckpt-mode lazy
row lazy "lazy, communication: $policy"
compare sync --ckpt-mode sync
row sync "synchronous, communication: $policy"
if [ "$policy" != none ]; then
    compare plain --ckpt-mode lazy --comm none
    row plain "lazy, communication: none"
    [ -n "$cluster" ] || {
        echo "Over shared memory compression can only cost time; it pays on a"
        echo "network. As root these runs are on hosts with one between them."
    }
fi
echo "(Roles and checkpoints of the whole resumed run: its table above.)"

# ---- 5: the model, and what it writes ---------------------------------------

say "5. the model as a Hugging Face directory, and what it writes"
"$bin/lull" verify "$work/ckpt" --all
"$bin/lull" export "$work/ckpt" --step "$steps" -o "$work/model"
ls -l "$work/model"
echo
cat "$work/sample.txt"
say "done in $SECONDS s"
