#!/usr/bin/env bash
# examples.sh SOURCE BUILD CMAKE MPICC MPIEXEC FLAG...
# Builds examples/ from a fresh prefix through pkg-config, as its README says,
# and runs them on 1, 2 and 4 ranks.
set -euo pipefail
source=$1 build=$2 cmake=$3 mpicc=$4 start=("${@:5}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "examples.sh: $*" >&2; exit 1; }
ranks() { "${start[@]}" "$@"; }

"$cmake" --install "$build" --prefix "$work/prefix" >"$work/log" ||
    { cat "$work/log"; exit 1; }
cp "$source"/examples/* "$work"
cd "$work"
rm -f heat logistic
libdir=$(dirname "$(find prefix -name lull.pc)")
PKG_CONFIG_PATH=$PWD/$libdir make -s CC="$mpicc" CFLAGS="-O2 -Werror"

# The same bits, whether a run was stopped and on whatever many ranks.
ranks 1 ./heat whole 60 20 | tee whole.txt
ranks 2 ./heat parts 30 20 | tee parts.txt
ranks 4 ./heat parts 50 20 | tee -a parts.txt
ranks 1 ./heat parts 60 20 | tee -a parts.txt
[ "$(grep -c '^from step 20 on 4' parts.txt)" = 1 ] || die "not from step 20"
[ "$(grep -c '^from step 40 on 1' parts.txt)" = 1 ] || die "not from step 40"
[ "$(tail -1 parts.txt)" = "$(tail -1 whole.txt)" ] || die "other bits"
[[ $(tail -1 whole.txt) == "step 60: "* ]] || die "no end"
[[ $(tail -1 whole.txt) != *" 0000000000000000" ]] || die "all zeros"

# Gradients that are compressed learn as well, for fewer bytes.
for n in 1 2 4; do
    ranks $n ./logistic zfp:8 | tee "zfp-$n.txt"
    [ "$n" = 4 ] && ranks $n ./logistic none | tee none.txt
done
last() { awk '/loss/ {loss = $NF} END {print loss}' "$1"; }
bytes() { awk '/^gradients/ {print $'"$2"'}' "$1"; }
for file in zfp-*.txt; do
    awk -v a="$(last "$file")" -v b="$(last none.txt)" \
        'BEGIN {exit !(a < 0.2 && a - b < 0.01 && b - a < 0.01)}' ||
        die "$file: loss $(last "$file") beside $(last none.txt)"
done
for n in 2 4; do
    awk -v wire="$(bytes "zfp-$n.txt" 2)" -v raw="$(bytes "zfp-$n.txt" 11)" \
        'BEGIN {exit !(wire > 0 && wire < raw / 3)}' ||
        die "on $n ranks $(bytes "zfp-$n.txt" 2) of $(bytes "zfp-$n.txt" 11)"
done
