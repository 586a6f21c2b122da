#!/usr/bin/env bash
# readme.sh README CC INCLUDE_DIR MPI_DIRS
# Compiles every C block of the README as it stands.
set -euo pipefail
readme=$1 cc=$2 flags=(-std=c11 -fsyntax-only -Wall -Wextra -Werror
    -Wno-unused-function "-I$3")
IFS=: read -ra dirs <<<"$4"
for dir in "${dirs[@]}"; do [ -n "$dir" ] && flags+=(-isystem "$dir"); done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk -v dir="$work" '/^```c$/ {n++; inside = 1; next} /^```$/ {inside = 0}
    inside {print > (dir "/" n ".c")}' "$readme"
count=0
for file in "$work"/*.c; do
    if [ ${#dirs[@]} -eq 0 ] && grep -q lull/comm.h "$file"; then
        continue # no MPI in this build
    fi
    "$cc" "${flags[@]}" "$file"
    count=$((count + 1))
done
[ "$count" -gt 0 ] || { echo "no C block in $readme"; exit 1; }
echo "$count blocks compile"
