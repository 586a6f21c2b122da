/* Fuzz target: MPC streams of every dtype and dimension. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    return fuzz_codec("mpc", 32, data, bytes);
}
