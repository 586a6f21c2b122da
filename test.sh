#!/usr/bin/env bash
# Installs what the tests need, builds, runs every test. Exit 0: all passed.
set -euo pipefail
cd "$(dirname "$0")"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OPENBLAS_NUM_THREADS=1

say() { printf '\n== %s\n' "$*"; }

say "packages"
tools/install-packages build test data bench

say "checks"
tools/check

say "build (dev)"
cmake --preset dev >/dev/null
cmake --build --preset dev

say "tests"
ctest --test-dir build/dev --output-on-failure
