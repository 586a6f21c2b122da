/* A tensor of more than 2 GiB, whose offsets no 31 bits hold, in a checkpoint;
 * arrays of more than 2^31 values in frames and bare streams. Memory is small:
 * the pages of an array are the same ones again and again. */
#include <fcntl.h>
#include <lull/codec.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "ckpt.h"
#include "support.h"
#include "test.h"

#define PERIOD ((size_t)1 << 26) /* bytes until an array repeats itself */
#define BYTES (((size_t)1 << 31) + 12345)

/* `bytes` of address space over PERIOD of memory. */
static char *repeated(size_t bytes) {
    size_t whole = (bytes + PERIOD - 1) / PERIOD * PERIOD;
    int fd = memfd_create("repeated", 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, PERIOD), 0);
    char *data = mmap(NULL, whole, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(data != MAP_FAILED);
    for (size_t at = 0; at < whole; at += PERIOD)
        assert_true(mmap(data + at, PERIOD, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, fd, 0) == data + at);
    close(fd);
    return data;
}

static void drop(char *data, size_t bytes) {
    munmap(data, (bytes + PERIOD - 1) / PERIOD * PERIOD);
}

/* ---- a tensor ---- */

/* What is loaded around an offset is what is there. */
static void assert_around(const lull_ckpt_info_t *info, const char *data,
                          size_t offset) {
    char back[2000];
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "huge";
    slice.dtype = LULL_U8;
    slice.ndim = 1;
    slice.global_shape[0] = BYTES;
    slice.offset[0] = offset - 1000;
    slice.shape[0] = BYTES - offset < 1000 ? 1000 + BYTES - offset : 2000;
    slice.data = back;
    assert_ok(lull_ckpt_load(info, &slice, 1, NULL));
    assert_memory_equal(back, data + offset - 1000, slice.shape[0]);
}

static void a_tensor_of_more_than_2_gib(void **state) {
    (void)state;
    char dir[256];
    struct statvfs room;
    lull_ckpt_t *ckpt;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    test_dir_make(dir);
    assert_int_equal(statvfs(dir, &room), 0);
    if ((uint64_t)room.f_bavail * room.f_frsize < BYTES + BYTES / 2) {
        printf("[ NOTE ] skipped: no 3 GiB are free in %s\n", dir);
        test_dir_drop(dir);
        skip();
    }
    char *data = repeated(BYTES);
    test_fill(data, PERIOD, 1);
    lull_ckpt_options_t options = test_options(dir, 0, 1);
    options.buffer_bytes = 64 << 20;
    options.commit_timeout_s = 600;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_ckpt_tensor_t tensors[2] = {
        test_tensor("huge", LULL_U8, BYTES, data),
        test_tensor("small", LULL_U8, 100, data + 7)};
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.tensors = tensors;
    save.tensor_count = 2;
    assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_ok(lull_ckpt_find(dir, NULL, &id));
    assert_ok(lull_ckpt_info_open(dir, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    assert_around(info, data, 1000);
    assert_around(info, data, 0x7ffff000);
    assert_around(info, data, (size_t)1 << 31);
    assert_around(info, data, BYTES);
    lull_ckpt_info_destroy(info);
    drop(data, BYTES);
    test_dir_drop(dir);
}

/* ---- arrays ---- */

#define COUNT (((size_t)1 << 31) + 5)

/* Mostly zeros, so that streams are small; every 64th or so group of four is
 * a power of two, which zfp brings back well. 16 bits each. */
static void fill_bf16(char *data) {
    uint64_t *groups = (uint64_t *)(void *)data, random = 1;
    for (size_t i = 0; i < PERIOD / 8; i++) {
        uint64_t bits = test_random(&random);
        groups[i] = bits % 64 ? 0
                              : (0x3d80 + (bits >> 40 & 7) * 0x80 +
                                 (bits >> 50 & 1) * 0x8000) *
                                    0x0001000100010001u;
    }
}

static float of_bf16(const char *data, size_t i) {
    uint16_t half;
    memcpy(&half, data + 2 * i, 2);
    uint32_t wide = (uint32_t)half << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
}

static void assert_same(const lull_codec_t *codec, const char *values,
                        const char *back) {
    if (!lull_codec_is_lossy(codec)) {
        assert_memory_equal(back, values, PERIOD);
        return;
    }
    for (size_t i = 0; i < PERIOD / 2; i++) {
        float v = of_bf16(values, i), off = of_bf16(back, i) - v;
        if (off * off > v * v / 4)
            fail_msg("value %zu: %g came back as %g", i, (double)v,
                     (double)(v + off));
    }
}

static void round_trip(const char *spec, bool bare) {
    lull_codec_t codec;
    lull_codec_scratch_t *scratch;
    size_t bound;
    char *values = repeated(2 * COUNT), *back = repeated(2 * COUNT);
    fill_bf16(values);
    assert_ok(lull_codec_scratch_create(&scratch));
    assert_ok(lull_codec_parse(spec, LULL_BF16, &codec));
    if (bare)
        assert_ok(lull_codec_bound(&codec, COUNT, &bound));
    else
        assert_ok(lull_frame_bound(&codec, COUNT, &bound));
    lull_buffer_t out = {.capacity = bound};
    out.data = mmap(NULL, bound, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(out.data != MAP_FAILED);
    if (bare) {
        assert_ok(lull_codec_encode(&codec, values, COUNT, &out, scratch));
        assert_ok(lull_codec_decode(&codec, out.data, out.bytes, back, COUNT,
                                    scratch));
    } else {
        assert_ok(lull_frame_encode(&codec, values, COUNT, 0, &out, scratch));
        assert_ok(lull_frame_decode(out.data, out.bytes, 0, back, 2 * COUNT,
                                    scratch));
    }
    printf("%s%s: %zu values in %zu bytes\n", spec, bare ? ", bare" : "", COUNT,
           out.bytes);
    assert_same(&codec, values, back);
    munmap(out.data, bound);
    lull_codec_scratch_destroy(scratch);
    drop(values, 2 * COUNT);
    drop(back, 2 * COUNT);
}

static void arrays_of_more_than_2_31_values(void **state) {
    (void)state;
    round_trip("expo", false);
    round_trip("expo", true);
    round_trip("mpc", true);
    round_trip("zfp:4", true);
}

int main(void) {
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    printf("skipped: sanitizers make it take minutes\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_of_more_than_2_gib),
        cmocka_unit_test(arrays_of_more_than_2_31_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
