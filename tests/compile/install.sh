#!/usr/bin/env bash
# install.sh BUILD_DIR CMAKE CC WITH_MPI
# Installs into a fresh prefix and builds a program from nothing but that
# prefix, once through pkg-config and once through CMake's package.
set -euo pipefail
build=$1 cmake=$2 cc=$3 mpi=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
"$cmake" --install "$build" --prefix "$prefix" >"$work/log" || {
    cat "$work/log"
    exit 1
}
libdir=$(dirname "$(find "$prefix" -name lull.pc | head -1)")
export PKG_CONFIG_PATH=$libdir LD_LIBRARY_PATH=${libdir%/pkgconfig}

cat >"$work/main.c" <<'C'
#include <lull/lull.h>
#include <stdio.h>
int main(void) {
    printf("%s\n", lull_version());
    return lull_dtype_bits(LULL_F32) != 32;
}
C
mkdir "$work/pc" && cd "$work/pc"
# shellcheck disable=SC2046
"$cc" "$work/main.c" -o main $(pkg-config --cflags --libs lull)
./main

mkdir "$work/cm" && cd "$work/cm"
cat >CMakeLists.txt <<'CM'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(lull REQUIRED)
add_executable(main ../main.c)
target_link_libraries(main PRIVATE lull::lull)
CM
"$cmake" -B b -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
"$cmake" --build b >/dev/null
b/main

if [ "$mpi" = ON ]; then
    cat >"$work/mpi.c" <<'C'
#include <lull/comm.h>
#include <stdio.h>
int main(void) {
    return puts(lull_role_name(LULL_ROLE_DP)) < 0;
}
C
    cd "$work/pc"
    # shellcheck disable=SC2046
    "$cc" "$work/mpi.c" -o mpi $(pkg-config --cflags --libs lull_mpi)
    ./mpi
fi
# Programs find the libraries of their own prefix.
unset LD_LIBRARY_PATH
version=$("$prefix/bin/lull" --version)
[ "$version" = "lull $(pkg-config --modversion lull)" ] || {
    echo "lull.pc and lull --version differ: $version"
    exit 1
}
[ "$mpi" != ON ] || "$prefix/bin/lull-train" --version
[ -e "$prefix/share/man/man1/lull.1.gz" ]
[ -e "$prefix/share/bash-completion/completions/lull" ]
[ "$mpi" = ON ] || [ ! -e "$prefix/include/lull/comm.h" ]
# Every symbol that users link to has a version.
readelf --dyn-syms -W "$prefix"/lib*/liblull.so | awk '/ lull_[a-z]/ &&
    !/UND/ {n++; if (!/@@?LULL_0\.1/) {print; bad = 1}}
    END {exit bad || n < 50}'
