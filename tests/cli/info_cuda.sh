# What `lull info` says of CUDA with, without and with a broken driver.
cuda() { lull info | grep '^  cuda' | sed 's/  */ /g'; }
# A driver that is not ours would be found first.
ldconfig -p | grep -q 'libcuda\.so\.1' && { echo "skipped: this machine has a driver"; exit 77; }
[ -n "${FAKE_CUDA_DIR:-}" ] || { echo "skipped: no FAKE_CUDA_DIR"; exit 77; }
unset LD_LIBRARY_PATH
cuda
export LD_LIBRARY_PATH=$FAKE_CUDA_DIR
cuda
FAKE_CUDA_DEVICES=2 cuda
FAKE_CUDA_DEVICES=0 cuda
FAKE_CUDA_VERSION=10020 cuda
FAKE_CUDA_INIT=803 cuda
# Not a driver at all.
mkdir broken
echo nonsense >broken/libcuda.so.1
LD_LIBRARY_PATH=broken cuda
# One that lacks an entry point.
mkdir old
echo 'int cuInit(unsigned flags) { return (int)flags; }' |
    cc -shared -fPIC -x c - -o old/libcuda.so.1
LD_LIBRARY_PATH=old cuda
