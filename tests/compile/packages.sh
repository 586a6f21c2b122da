#!/usr/bin/env bash
# packages.sh SOURCE CMAKE: makes the Debian packages, looks at what they hold
# and ask for, installs them below a root of their own, runs what was
# installed, and removes it without a trace.
set -euo pipefail
source=$1 cmake=$2
for tool in dpkg dpkg-deb dpkg-shlibdeps file; do
    command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: dpkg installs as root only"; exit 77; }
die() { echo "packages.sh: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$source"
rm -rf build/deb/packages
{
    "$cmake" --preset deb && "$cmake" --build --preset deb -- --quiet &&
        "${cmake%cmake}cpack" --preset deb
} >"$work/log" 2>&1 || { tail -40 "$work/log"; exit 1; }
debs=(build/deb/packages/*.deb)

# ---- What they hold and ask for. ----
field() { dpkg-deb -f "$(echo build/deb/packages/"$1"_*.deb)" "$2"; }
for deb in "${debs[@]}"; do
    echo "== $(dpkg-deb -f "$deb" Package)"
    dpkg-deb -c "$deb" | awk '!/\/$/ {print $6}' |
        sed "s|/$(dpkg-architecture -qDEB_HOST_MULTIARCH)/|/TRIPLET/|" | sort
done >"$work/files"
diff -u tests/compile/packages.expected "$work/files" || die "other files"
asks() { [[ ", $(field "$1" Depends)," == *", $2"[,\ ]* ]] ||
    die "$1 does not depend on $2: $(field "$1" Depends)"; }
asks_not() { [[ $(field "$1" Depends) != *$2* ]] || die "$1 depends on $2"; }
asks liblull0 libxxhash0
asks_not liblull0 mpi
asks liblull-mpi0 liblull0
asks liblull-mpi0 libopenmpi3
asks liblull-dev liblull0
asks liblull-dev liblull-mpi0
asks liblull-dev libopenmpi-dev
asks lull liblull0
asks lull openmpi-bin
for deb in "${debs[@]}"; do
    dpkg-deb -f "$deb" Description | grep -q . || die "$deb: no description"
    dpkg-deb -f "$deb" Description | awk 'length > 80 {exit 1}' ||
        die "$deb: a long line in the description"
done
readelf -d build/deb/packages/_CPack_Packages/*/DEB/*/programs/usr/bin/lull |
    grep -qE 'RPATH|RUNPATH' && die "a search path in /usr/bin/lull"
if command -v lintian >/dev/null; then
    lintian --allow-root --fail-on error "${debs[@]}" >"$work/log" 2>&1 ||
        { cat "$work/log"; die "lintian has errors"; }
fi

# ---- Installed, run, removed. ----
root=$work/root
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers} "$work/bin"
: >"$root/var/lib/dpkg/status"
# The scripts run here, not below the root: they must not touch this system.
printf '#!/bin/sh\nexit 0\n' >"$work/bin/ldconfig"
chmod +x "$work/bin/ldconfig"
dpkg_below() {
    PATH=$work/bin:$PATH dpkg --root="$root" --log=/dev/null --no-triggers \
        --force-script-chrootless --force-depends "$@" >"$work/log" 2>&1 ||
        { cat "$work/log"; die "dpkg $1 failed"; }
}
dpkg_below -i "${debs[@]}"
libdir=$root/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
export LD_LIBRARY_PATH=$libdir
[ "$("$root/usr/bin/lull" --version)" = "lull $(field lull Version |
    sed 's/-.*//')" ] || die "lull --version"
"$root/usr/bin/lull-train" --help >"$work/help"
grep -q ckpt-dir "$work/help" || die "lull-train --help"
gzip -dc "$root/usr/share/man/man1/lull.1.gz" | grep -q '^.TH LULL 1' ||
    die "no man page"
export PKG_CONFIG_PATH=$libdir/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root
echo '#include <lull/lull.h>
int main(void) { return lull_version()[0] != 48; }' >"$work/main.c"
# shellcheck disable=SC2046
cc "$work/main.c" -o "$work/main" $(pkg-config --cflags --libs lull)
"$work/main"
dpkg_below --purge lull liblull-dev liblull-mpi0 liblull0
left=$(find "$root" -path "$root/var" -prune -o ! -type d -print)
[ -z "$left" ] || die "left behind: $left"
echo "${#debs[@]} packages"
