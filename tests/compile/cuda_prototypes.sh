#!/usr/bin/env bash
# cuda_prototypes.sh SOURCE CC CUDA_H_DIR: compiles cuda_prototypes.c.
set -euo pipefail
source=$1 compiler=$2 dir=$3
[ -e "$dir/cuda.h" ] || { echo "skipped: no cuda.h on this machine"; exit 77; }
"$compiler" -std=gnu11 -fsyntax-only -Wall -Wextra -Werror \
    -I "$source/include" -I "$source/src" -isystem "$dir" \
    "$source/tests/compile/cuda_prototypes.c"
