#!/usr/bin/env bash
# A cluster on one machine: network namespaces are hosts, veth pairs on a
# bridge are their cables, tc (tbf) gives the cables a rate.
#     bench/cluster.sh up N RATE        N hosts; RATE as tc writes it: 1gbit,
#                                       500mbit; none: not shaped
#     bench/cluster.sh run [-np P] CMD  an Open MPI program on P ranks (N), in
#                                       equal blocks of ranks a host
#     bench/cluster.sh down             takes everything down again
#     bench/cluster.sh with N RATE [-np P] CMD    up, run, down in any case
# Needs root, iproute2 (ip, tc), util-linux (unshare) and Open MPI.
# LULL_MCA holds further arguments of mpirun.
set -euo pipefail
state=/run/lull-cluster
bridge=lullbr
net=10.77.0

die() {
    echo "cluster.sh: $*" >&2
    exit 1
}

usage() {
    sed -n '2,12s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

need() {
    [ "$(id -u)" = 0 ] || die "needs root: namespaces and tc are root's"
    local tool
    for tool in ip tc unshare mpirun; do
        command -v "$tool" >/dev/null ||
            die "needs $tool (Debian: iproute2, util-linux, openmpi-bin)"
    done
}

# Bytes of burst and queue for a rate: 128 KiB and 4 MB at 1 Gbit/s hold it
# steadily; both grow with it.
tbf() {
    local number=${1%%[a-z]*} unit=${1##*[0-9.]} mbit
    case $unit in
    gbit) mbit=$(awk "BEGIN{print int($number * 1000)}") ;;
    mbit) mbit=$(awk "BEGIN{print int($number)}") ;;
    *) die "rate '$1': 1gbit, 500mbit or none was expected" ;;
    esac
    [ "$mbit" -gt 0 ] || die "rate '$1' is nothing"
    echo "rate ${mbit}mbit burst $((mbit < 1000 ? 131072 : mbit * 131)) limit $((mbit < 1250 ? 4000000 : mbit * 3200))"
}

host_up() {
    local i=$1 shape=$2
    ip netns add "lullh$i"
    ip link add "lullv$i" type veth peer name eth0 netns "lullh$i"
    ip link set "lullv$i" master "$bridge" up
    ip -n "lullh$i" link set lo up
    ip -n "lullh$i" addr add "$net.$i/24" dev eth0
    ip -n "lullh$i" link set eth0 up
    if [ -n "$shape" ]; then
        # shellcheck disable=SC2086 # words
        tc qdisc add dev "lullv$i" root tbf $shape
        # shellcheck disable=SC2086
        tc -n "lullh$i" qdisc add dev eth0 root tbf $shape
    fi
}

up() {
    [ $# = 2 ] || usage
    local hosts=$1 rate=$2 shape="" i
    [[ $hosts =~ ^[0-9]+$ ]] && [ "$hosts" -ge 1 ] && [ "$hosts" -le 64 ] ||
        die "up: '$hosts' hosts: 1 to 64 were expected"
    [ "$rate" = none ] || shape=$(tbf "$rate")
    mkdir "$state" 2>/dev/null || die "up: a cluster is up already: '$0 down'"
    trap 'down; die "up: failed, all is taken down again"' ERR
    set -E
    ip link add "$bridge" type bridge
    ip addr add "$net.100/24" dev "$bridge"
    ip link set "$bridge" up
    for ((i = 1; i <= hosts; i++)); do
        host_up "$i" "$shape"
    done
    echo "$hosts" >"$state/hosts"
    trap - ERR
}

down() {
    local name pid
    for name in $(ip netns list | awk '/^lullh[0-9]+/{print $1}'); do
        for pid in $(ip netns pids "$name" 2>/dev/null); do
            kill "$pid" 2>/dev/null || true
        done
        ip netns del "$name" || true
    done
    for name in $(ip -o link show | sed -n 's/^[0-9]*: \(lullv[0-9]*\)[@:].*/\1/p'); do
        ip link del "$name" 2>/dev/null || true
    done
    ip link del "$bridge" 2>/dev/null || true
    rm -rf "$state"
}

# mpirun starts its daemons through this. A host name of its own keeps them
# from racing for one session directory.
agent() {
    local i=${1##*.}
    shift
    exec ip netns exec "lullh$i" unshare -u sh -c "hostname lullh$i; $*"
}

# Why each: ranks that spin on few cores make every message wait for a tick;
# a large socket buffer bloats the queue; large fragments both ways on one
# connection take turns.
run() {
    [ -e "$state/hosts" ] || die "run: no cluster is up: '$0 up 4 1gbit'"
    local hosts ranks each list="" i btl=tcp,self
    hosts=$(cat "$state/hosts")
    ranks=$hosts
    if [ "${1:-}" = -np ]; then
        [[ ${2:-} =~ ^[0-9]+$ ]] || usage
        ranks=$2
        shift 2
    fi
    [ $# -ge 1 ] || usage
    each=$(((ranks + hosts - 1) / hosts))
    [ "$each" = 1 ] || btl=tcp,self,vader
    for ((i = 1; i <= hosts; i++)); do
        list+="${list:+,}$net.$i:$each"
    done
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    # shellcheck disable=SC2086 # words
    mpirun --mca plm_rsh_agent "$self agent" --host "$list" -np "$ranks" \
        --map-by slot --bind-to none --mca btl "$btl" \
        --mca btl_tcp_if_include "$net.0/24" \
        --mca oob_tcp_if_include "$net.0/24" --mca mpi_yield_when_idle 1 \
        --mca btl_tcp_sndbuf 131072 \
        --mca btl_tcp_rdma_pipeline_frag_size 32768 \
        --mca btl_vader_single_copy_mechanism none \
        --mca coll_tuned_use_dynamic_rules 1 \
        --mca coll_tuned_allreduce_algorithm "${LULL_ALLREDUCE:-4}" \
        ${LULL_MCA:-} "$@" &
    # A shell heeds signals between commands, or while it waits.
    trap 'kill "$!" 2>/dev/null' INT TERM
    wait "$!"
}

self=$(readlink -f "$0")
[ $# -ge 1 ] || usage
what=$1
shift
case $what in
agent) agent "$@" ;;
up) need && up "$@" ;;
down) need && down ;;
run) need && run "$@" ;;
with)
    [ $# -ge 3 ] || usage
    need
    up "$1" "$2"
    trap down EXIT
    shift 2
    run "$@"
    ;;
*) usage ;;
esac
