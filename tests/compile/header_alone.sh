#!/usr/bin/env bash
# header_alone.sh HEADER c11|c++17 INCLUDE_DIR CC CXX MPI_DIRS
# Compiles a file that includes just this header, with every warning.
set -euo pipefail
header=$1 language=$2 include=$3 cc=$4 cxx=$5 mpi=$6
flags=(-fsyntax-only -Wall -Wextra -Wpedantic -Werror "-I$include")
IFS=: read -ra dirs <<<"$mpi"
for dir in "${dirs[@]}"; do [ -n "$dir" ] && flags+=(-isystem "$dir"); done
if [ "$language" = c11 ]; then
    printf '#include <lull/%s>\n#include <lull/%s>\nint main(void) { return 0; }\n' \
        "$header" "$header" | "$cc" -std=c11 -x c "${flags[@]}" -
else
    [ -n "$cxx" ] && [ -x "$cxx" ] || {
        echo "skipped: no C++ compiler"
        exit 77
    }
    printf '#include <lull/%s>\nint main() { return 0; }\n' "$header" |
        "$cxx" -std=c++17 -x c++ "${flags[@]}" -
fi
