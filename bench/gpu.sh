#!/usr/bin/env bash
# Runs the device tests and the figures of bench_gpu on a machine with an
# NVIDIA GPU, within four minutes; needs the driver, no CUDA toolkit.
#     bench/gpu.sh [--dir DIR] [--bytes N] [--rounds N]   builds, then runs
#     bench/gpu.sh --pack FOLDER    builds here and copies what a bare machine
#                                   needs (the same processor and libc) there
#     bench/gpu.sh --packed FOLDER [...]                  runs such a folder
#     bench/gpu.sh --fake [...]     a rehearsal on the driver that tests play;
#                                   its figures mean nothing
# DIR is where checkpoints go: by default memory (/dev/shm), so that what is
# measured is the GPU's side; name a folder of a disk to include it.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/gpu dir='' bytes=$((1 << 30)) rounds=7 pack='' packed='' fake=''
while [ $# -gt 0 ]; do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    --bytes) bytes=$2 && shift 2 ;;
    --rounds) rounds=$2 && shift 2 ;;
    --pack) pack=$2 && shift 2 ;;
    --packed) packed=$2 && shift 2 ;;
    --fake) fake=1 && shift ;;
    *) sed -n '2,13s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
    esac
done
tests=(test_cuda test_cuda_memory test_cuda_faults test_engine_cuda
    test_engine_cuda_faults)
programs=("${tests[@]}" bench_gpu lull)

compile() {
    cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        -DLULL_MPI=OFF >"$build.log" 2>&1 &&
        cmake --build "$build" --target "${tests[@]}" bench_gpu lull_program \
            fake_cuda >>"$build.log" 2>&1 ||
        { tail -20 "$build.log" && exit 1; }
}

if [ -n "$packed" ]; then
    bin=$packed/bin
    export LD_LIBRARY_PATH=$packed/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
else
    mkdir -p build && compile
    bin=$build/bin
fi

if [ -n "$pack" ]; then
    mkdir -p "$pack/bin" "$pack/lib"
    for program in "${programs[@]}"; do
        cp "$bin/$program" "$pack/bin/"
        ldd "$bin/$program" | awk '$3 ~ /^\// {print $3}'
    done | sort -u | grep -vE '/(libc|libm|libdl|libpthread|ld-linux.*)\.so' |
        xargs -I{} cp -L {} "$pack/lib/"
    echo "packed: run bench/gpu.sh --packed $pack there"
    exit 0
fi

mode=real
if [ -n "$fake" ]; then
    mode=fake
    export LD_LIBRARY_PATH=$build/fake_cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
[ -n "$dir" ] || dir=$(mktemp -d /dev/shm/lull-gpu-XXXXXX)
[ -n "${dir##/dev/shm/lull-gpu-*}" ] || trap 'rm -rf "$dir"' EXIT

echo "== machine"
nvidia-smi --query-gpu=name,driver_version,pcie.link.gen.max,pcie.link.width.max \
    --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1
"$bin/lull" info | sed -n '/^devices/,/^$/p'
failed=0
for test in "${tests[@]}"; do
    echo "== $test"
    status=0
    LULL_TEST_CUDA=$mode timeout 50 "$bin/$test" >"$dir.$test.log" 2>&1 ||
        status=$?
    grep -E '^(skipped|\[  (ERROR|FAILED|PASSED|SKIPPED))|LINE' \
        "$dir.$test.log" || tail -5 "$dir.$test.log"
    rm -f "$dir.$test.log"
    [ $status -eq 77 ] && exit 77
    [ $status -eq 0 ] || { echo "$test: exit $status" && failed=1; }
done
echo "== figures (checkpoints in $dir)"
timeout 120 "$bin/bench_gpu" --bytes "$bytes" --rounds "$rounds" "$dir/ckpt" ||
    { echo "bench_gpu: exit $?" && failed=1; }
exit $failed
