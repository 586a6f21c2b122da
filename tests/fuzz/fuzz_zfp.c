/* Fuzz target: zfp streams of every dtype and rate. An input is: dtype and
 * flags, rate, missing values of the last block, then the stream, whose length
 * tells the count. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    static const lull_dtype_t dtypes[] = {LULL_F32, LULL_F64, LULL_F16,
                                          LULL_BF16};
    static lull_codec_scratch_t *scratch;
    if (bytes < 3)
        return 0;
    if (scratch == NULL)
        FUZZ_CHECK(lull_codec_scratch_create(&scratch) == LULL_OK);
    fuzz_codec_t in = {
        .data = data + 3, .bytes = bytes - 3, .scratch = scratch};
    FUZZ_CHECK(lull_codec_parse("zfp:8", dtypes[data[0] % 4], &in.codec) ==
               LULL_OK);
    in.size = lull_dtype_bits(in.codec.dtype) / 8;
    unsigned least = in.size == 8 ? 12 : 9, most = (unsigned)(32 * in.size);
    in.codec.param = least + data[1] % (most - least + 1);
    in.codec.flags = data[0] & 16 ? LULL_CODEC_ZFP_TRUNCATE : 0;
    in.count = in.bytes * 8 / in.codec.param * 4;
    in.count -= in.count > 0 ? data[2] % 4 : 0;
    fuzz_decode(&in);
    in.codec.flags |= data[0] & 32 ? LULL_CODEC_FORCE : 0;
    fuzz_encode(&in);
    return 0;
}
