/* Fuzz target: MXINT8 blocks of every dtype. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    return fuzz_codec("mxint8", 0, data, bytes);
}
