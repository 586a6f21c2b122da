#!/usr/bin/env bash
# run.sh [--accept] BIN CASE.sh: runs the case in an empty directory and
# compares what it printed and its exit status with CASE.expected.
set -uo pipefail
accept=
[ "$1" = --accept ] && { accept=1; shift; }
bin=$(cd "$1" && pwd)
case=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
expected=${case%.sh}.expected
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/dir"
cd "$work/dir" || exit 1
export TESTS=$(dirname "$(dirname "$case")")
unset LULL_ISA LULL_IO
BASH_ENV=$TESTS/cli/lib.bash LC_ALL=C PATH=$bin:$PATH bash "$case" >"$work/out" 2>"$work/err" </dev/null
status=$?
[ $status = 77 ] && { cat "$work/out"; exit 77; }
{
    cat "$work/out"
    echo "--- stderr"
    cat "$work/err"
    echo "--- exit $status"
} >"$work/got"
if [ -n "$accept" ]; then
    cp "$work/got" "$expected"
    exit 0
fi
diff -u "$expected" "$work/got"
