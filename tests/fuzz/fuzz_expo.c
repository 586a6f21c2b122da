/* Fuzz target: expo's streams of every dtype. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    return fuzz_codec("expo", 0, data, bytes);
}
