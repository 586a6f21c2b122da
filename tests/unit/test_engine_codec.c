/* An engine that compresses: round trips, bounded memory, faults, damage. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocations.h"
#include "base/thread.h"
#include "ckpt.h"
#include "ckpt/classes.h"
#include "faultio.h"
#include "support.h"
#include "test.h"

#define MIB ((size_t)1 << 20)

static faultio_t fault;

static int set_up(void **state) {
    (void)ckpt_room_make(state);
    faultio_init(&fault);
    lull__io_set_default(&fault.io);
    return 0;
}

/* ---- round trips ---- */

/* One tensor of a state. */
typedef struct one {
    char name[32];
    lull_dtype_t dtype;
    uint64_t count;
    void *data;
} one_t;

static uint64_t bytes_of(const one_t *one) {
    return one->count * lull_dtype_bits(one->dtype) / 8;
}

/* Values as training has them: exponents of a narrow range. */
static void fill(one_t *one, uint64_t seed) {
    uint64_t n = bytes_of(one);
    one->data = malloc(n + 1);
    test_fill(one->data, n, seed);
    if (one->dtype != LULL_F32)
        return;
    float *values = one->data;
    for (uint64_t i = 0; i < one->count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        values[i] = ((float)bits / 4294967296.0F - 0.5F) * 0.04F;
    }
}

static lull_status_t save_all(lull_ckpt_t *ckpt, uint64_t step,
                              const one_t *ones, size_t count) {
    lull_ckpt_tensor_t tensors[64];
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    uint64_t position = step;
    lull_ckpt_state_t host = {"position", &position, sizeof position, false};
    for (size_t i = 0; i < count; i++)
        tensors[i] = test_tensor(ones[i].name, ones[i].dtype, ones[i].count,
                                 ones[i].data);
    save.step = step;
    save.tensors = tensors;
    save.tensor_count = count;
    save.states = &host;
    save.state_count = 1;
    return test_commit(ckpt, &save);
}

static lull_ckpt_info_t *open_step(uint64_t step) {
    lull_ckpt_find_options_t how = LULL_CKPT_FIND_OPTIONS_INIT;
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    how.step = step;
    assert_ok(lull_ckpt_find(ckpt_room, &how, &id));
    assert_ok(lull_ckpt_info_open(ckpt_room, id, &info));
    return info;
}

/* Where part p of `parts` begins: on a byte, also of packed elements. */
static uint64_t part_at(const one_t *one, uint64_t p, uint64_t parts) {
    return p == parts ? one->count : one->count * p / parts / 8 * 8;
}

/* Loads part p of each, all of them at once. */
static void assert_part(const lull_ckpt_info_t *info, const one_t *ones,
                        size_t count, uint64_t p, uint64_t parts) {
    lull_ckpt_load_options_t how = LULL_CKPT_LOAD_OPTIONS_INIT;
    lull_ckpt_slice_t slices[64] = {{0}};
    how.threads = 1 + (uint32_t)p;
    for (size_t i = 0; i < count; i++) {
        lull_ckpt_slice_t *slice = &slices[i];
        *slice = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        slice->name = ones[i].name;
        slice->dtype = ones[i].dtype;
        slice->ndim = 1;
        slice->global_shape[0] = ones[i].count;
        slice->offset[0] = part_at(&ones[i], p, parts);
        slice->shape[0] = part_at(&ones[i], p + 1, parts) - slice->offset[0];
        slice->data = malloc(bytes_of(&ones[i]) + 1);
    }
    assert_ok(lull_ckpt_load(info, slices, count, &how));
    for (size_t i = 0; i < count; i++) {
        unsigned bits = lull_dtype_bits(ones[i].dtype);
        assert_memory_equal(slices[i].data,
                            (char *)ones[i].data +
                                slices[i].offset[0] * bits / 8,
                            slices[i].shape[0] * bits / 8);
        free(slices[i].data);
    }
}

static void assert_holds(uint64_t step, const one_t *ones, size_t count,
                         uint64_t parts) {
    lull_ckpt_info_t *info = open_step(step);
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    for (uint64_t p = 0; p < parts; p++)
        assert_part(info, ones, count, p, parts);
    uint64_t position = 0;
    size_t n;
    assert_ok(lull_ckpt_info_state(info, "position", 0, &position,
                                   sizeof position, &n));
    assert_int_equal(position, step);
    lull_ckpt_info_destroy(info);
}

static lull_ckpt_stats_t stats_of(lull_ckpt_t *ckpt) {
    lull_ckpt_stats_t stats = {.size = sizeof stats};
    assert_ok(lull_ckpt_stats(ckpt, &stats));
    return stats;
}

/* Every dtype, in sizes around frames, blocks and slots. */
static void all_dtypes_come_back_bit_for_bit(void **state) {
    (void)state;
    static const char *const policies[] = {"expo", "mpc", "weights=mpc:2"};
    static const uint64_t sizes[] = {0, 8, 3000, MIB, MIB + 24, 4 * MIB + 72};
    for (unsigned p = 0; p < 3; p++) {
        one_t ones[24];
        size_t count = 0;
        for (unsigned d = 1; d < LULL__DTYPES; d++) {
            unsigned bits = lull_dtype_bits((lull_dtype_t)d);
            one_t *one = &ones[count];
            if (bits == 0)
                continue;
            snprintf(one->name, sizeof one->name, "%s%s",
                     count % 2 ? "optimizer." : "",
                     lull_dtype_name((lull_dtype_t)d));
            one->dtype = (lull_dtype_t)d;
            one->count = sizes[(count + p) % 6] * 8 / bits / 4 * 4;
            fill(one, d);
            count++;
        }
        lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
        options.codec = policies[p];
        options.copy_threads = 1 + p;
        options.buffer_bytes = (1 + p) * MIB;
        lull_ckpt_t *ckpt;
        assert_ok(lull_ckpt_open(&options, &ckpt));
        for (uint64_t step = 1; step <= 3; step++)
            assert_ok(save_all(ckpt, step, ones, count));
        assert_true(stats_of(ckpt).encode_s > 0);
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
        assert_holds(3, ones, count, 1);
        assert_holds(2, ones, count, 3);
        for (size_t i = 0; i < count; i++)
            free(ones[i].data);
        test_dir_drop(ckpt_room);
        test_dir_make(ckpt_room);
    }
}

/* The data file of a step, malloc'ed. */
static char *data_of(uint64_t step, size_t *bytes) {
    char path[400];
    snprintf(path, sizeof path, "%s/step-%08d/rank-00000.safetensors",
             ckpt_room, (int)step);
    char *data = test_slurp(path, bytes);
    assert_non_null(data);
    return data;
}

/* However many threads code, whatever lies on chunks' borders: the same step of
 * the same state has the same bytes. */
static void threads_do_not_show(void **state) {
    (void)state;
    one_t ones[] = {{"a", LULL_F32, 2 * MIB + 77, NULL},
                    {"ids", LULL_I64, 300001, NULL},
                    {"b", LULL_F32, 3, NULL},
                    {"c", LULL_BF16, 3 * MIB + 1, NULL},
                    {"d", LULL_F32, 0, NULL},
                    {"optimizer.m", LULL_F32, MIB, NULL},
                    {"e", LULL_U8, 5, NULL}};
    static const unsigned threads[] = {0, 1, 2, 3, 16};
    static const size_t buffers[] = {1, 3, 64};
    char *first = NULL;
    size_t count = sizeof ones / sizeof *ones, n, first_n = 0;
    for (size_t i = 0; i < count; i++)
        fill(&ones[i], i);
    for (size_t i = 0; i < 3 * sizeof threads / sizeof *threads; i++) {
        lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
        lull_ckpt_t *ckpt;
        options.codec = "weights=expo,moments=mpc";
        options.encode_threads = threads[i / 3];
        options.buffer_bytes = buffers[i % 3] * MIB;
        assert_ok(lull_ckpt_open(&options, &ckpt));
        for (int save = 0; save < 2; save++) {
            assert_ok(save_all(ckpt, 1, ones, count));
            assert_holds(1, ones, count, 2);
            char *data = data_of(1, &n);
            if (first == NULL) {
                first = data;
                first_n = n;
                continue;
            }
            assert_int_equal(n, first_n);
            assert_memory_equal(data, first, n);
            free(data);
        }
        assert_true(stats_of(ckpt).encode_s > 0);
        assert_ok(lull_ckpt_close(ckpt));
        lull_ckpt_destroy(ckpt);
    }
    free(first);
    for (size_t i = 0; i < count; i++)
        free(ones[i].data);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt;
    options.encode_threads = 17;
    assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_INVALID,
                 "encode_threads");
}

static void what_is_saved_is_told(void **state) {
    (void)state;
    one_t ones[] = {{"w", LULL_F32, 3 * MIB, NULL},
                    {"optimizer.m", LULL_F32, MIB, NULL},
                    {"ids", LULL_I64, 1000, NULL}};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_tensor_info_t t;
    lull_ckpt_t *ckpt;
    for (int i = 0; i < 3; i++)
        fill(&ones[i], 7);
    options.codec = "weights=expo,*=raw";
    options.buffer_bytes = 32 * MIB;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    assert_ok(save_all(ckpt, 1, ones, 3));
    lull_ckpt_stats_t stats = stats_of(ckpt);
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    uint64_t raw = 16 * MIB + 8000 + 8;
    assert_int_equal(stats.bytes_copied, raw);
    assert_true(stats.bytes_saved > (int64_t)MIB);
    assert_int_equal(stats.bytes_written, raw - (uint64_t)stats.bytes_saved);
    lull_ckpt_info_t *info = open_step(1);
    assert_ok(lull_ckpt_info_tensor(info, "w", &t));
    assert_string_equal(t.codec, "expo");
    assert_int_equal(t.bytes, 12 * MIB);
    assert_int_equal(t.stored_bytes, 12 * MIB - (uint64_t)stats.bytes_saved);
    assert_ok(lull_ckpt_info_tensor(info, "optimizer.m", &t));
    assert_string_equal(t.codec, "raw");
    assert_int_equal(t.stored_bytes, t.bytes);
    lull_ckpt_info_destroy(info);
    assert_holds(1, ones, 3, 5);
    for (int i = 0; i < 3; i++)
        free(ones[i].data);
}

static void lossy_moments_are_near(void **state) {
    (void)state;
    one_t one = {"optimizer.m", LULL_F32, 300000, NULL};
    fill(&one, 3);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_load_options_t how = LULL_CKPT_LOAD_OPTIONS_INIT;
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    lull_ckpt_t *ckpt;
    options.codec = "moments=bf16";
    assert_ok(lull_ckpt_open(&options, &ckpt));
    assert_ok(save_all(ckpt, 1, &one, 1));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    float *to = malloc(bytes_of(&one)), *from = one.data;
    slice.name = one.name;
    slice.dtype = one.dtype;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = one.count;
    slice.data = to;
    lull_ckpt_info_t *info = open_step(1);
    assert_ok(lull_ckpt_load(info, &slice, 1, &how));
    lull_ckpt_info_destroy(info);
    bool differ = false;
    for (uint64_t i = 0; i < one.count; i++) {
        float off = to[i] - from[i], size = from[i] < 0 ? -from[i] : from[i];
        assert_true(off <= size / 128 && -off <= size / 128);
        differ |= off != 0;
    }
    assert_true(differ);
    free(to);
    free(from);
}

/* Many saves pending, more than the ring holds, in the order of saves. */
static void saves_overlap(void **state) {
    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++) {
        one_t one = {"w", LULL_F32, 700000, NULL};
        lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
        lull_ckpt_t *ckpt;
        fill(&one, threads);
        options.codec = "expo";
        options.encode_threads = 5 - threads;
        options.copy_threads = threads;
        options.max_pending = 4;
        options.buffer_bytes = threads * MIB;
        assert_ok(lull_ckpt_open(&options, &ckpt));
        lull_ckpt_tensor_t tensor =
            test_tensor(one.name, one.dtype, one.count, one.data);
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.tensors = &tensor;
        save.tensor_count = 1;
        for (save.step = 1; save.step <= 12; save.step++)
            assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        assert_ok(lull_ckpt_close(ckpt));
        assert_int_equal(stats_of(ckpt).committed, 12);
        lull_ckpt_destroy(ckpt);
        lull_ckpt_info_t *info = open_step(12);
        assert_ok(lull_ckpt_verify(info, NULL, NULL));
        lull_ckpt_info_destroy(info);
        free(one.data);
        test_dir_drop(ckpt_room);
        test_dir_make(ckpt_room);
    }
}

/* A device that copies behind our back, several copiers, a ring that is full:
 * chunks land in any order and are coded in theirs. */
static void from_a_device(void **state) {
    (void)state;
    one_t one = {"w", LULL_F32, 3 * MIB, NULL};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_device_t *device;
    lull_stream_t stream;
    lull_ckpt_t *ckpt;
    void *data;
    fill(&one, 11);
    assert_ok(lull_device_open("sim:4", &device));
    assert_ok(lull_sim_stream_create(device, &stream));
    assert_ok(lull_sim_alloc(device, bytes_of(&one), &data));
    assert_ok(lull_sim_write(device, data, one.data, bytes_of(&one)));
    options.device = device;
    options.codec = "expo";
    options.copy_threads = 3;
    options.max_pending = 3;
    options.buffer_bytes = 4 * MIB;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_ckpt_tensor_t tensor =
        test_tensor(one.name, one.dtype, one.count, data);
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    uint64_t position = 6;
    lull_ckpt_state_t host = {"position", &position, sizeof position, false};
    save.tensors = &tensor;
    save.tensor_count = 1;
    save.states = &host;
    save.state_count = 1;
    save.stream = stream;
    for (save.step = 1; save.step <= 6; save.step++)
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
    assert_ok(lull_ckpt_close(ckpt));
    assert_int_equal(stats_of(ckpt).committed, 6);
    lull_ckpt_destroy(ckpt);
    assert_holds(6, &one, 1, 2);
    lull_sim_free(device, data);
    lull_sim_stream_destroy(device, stream);
    lull_device_destroy(device);
    free(one.data);
}

/* ---- what fails ---- */

static bool one_fault(const one_t *ones, uint64_t n, int error) {
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.codec = "expo";
    options.encode_threads = 1 + n % 3;
    options.buffer_bytes = 2 * MIB;
    faultio_arm(&fault, 0, 0);
    assert_ok(lull_ckpt_open(&options, &ckpt));
    assert_ok(save_all(ckpt, 1, ones, 2));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_ok(lull_ckpt_open(&options, &ckpt));
    faultio_arm(&fault, n, error);
    lull_status_t status = save_all(ckpt, 2, ones, 2);
    (void)lull_ckpt_close(ckpt);
    lull_ckpt_destroy(ckpt);
    bool hit = faultio_hit(&fault);
    faultio_arm(&fault, 0, 0);
    if (status == LULL_OK)
        assert_holds(2, ones, 2, 1);
    else if (status != LULL_ERR_DURABILITY_UNKNOWN)
        assert_false(test_has(ckpt_room, "step-00000002"));
    assert_ok(lull_ckpt_open(&options, &ckpt));
    assert_ok(save_all(ckpt, 3, ones, 2));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_holds(1, ones, 2, 1);
    assert_holds(3, ones, 2, 1);
    test_dir_drop(ckpt_room);
    test_dir_make(ckpt_room);
    return hit;
}

static void the_nth_call_fails(void **state) {
    (void)state;
    one_t ones[] = {{"w", LULL_F32, 1500000, NULL},
                    {"ids", LULL_I64, 1000, NULL}};
    uint64_t n = 1;
    fill(&ones[0], 1);
    fill(&ones[1], 2);
    while (one_fault(ones, n, n % 2 ? EIO : ENOSPC))
        n++;
    assert_true(n > 20);
    free(ones[0].data);
    free(ones[1].data);
}

/* A disk with this much room, of which it reserves none. */
static uint64_t free_bytes;
static lull__io_ops_t small_ops;

static int small_space(const lull__io_t *io, int fd, uint64_t *out) {
    (void)io, (void)fd;
    *out = free_bytes;
    return 0;
}

static int reserves_nothing(const lull__io_t *io, int fd, uint64_t bytes) {
    (void)io, (void)fd, (void)bytes;
    return -ENOSPC;
}

static lull_status_t save_on_small(uint64_t room, const char *codec,
                                   const one_t *ones, size_t count) {
    lull_ckpt_t *ckpt;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    options.codec = codec;
    free_bytes = room;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    lull_status_t status = save_all(ckpt, 1, ones, count);
    (void)lull_ckpt_close(ckpt);
    lull_ckpt_destroy(ckpt);
    return status;
}

/* Raw it would not fit; coded it does, and is tried. */
static void what_fits_only_coded_is_saved(void **state) {
    (void)state;
    lull__io_t small = {.ops = &small_ops};
    one_t ones[] = {{"w", LULL_F32, 1500000, NULL},
                    {"ids", LULL_I64, 400000, NULL}};
    uint64_t room = (uint64_t)5 * MIB;
    small_ops = *lull__io_system.ops;
    small_ops.space = small_space;
    small_ops.allocate = reserves_nothing;
    lull__io_set_default(&small);
    fill(&ones[0], 1);
    fill(&ones[1], 2);
    memset(ones[0].data, 0x3c, bytes_of(&ones[0]));
    assert_fails(save_on_small(room, NULL, ones, 2), LULL_ERR_NO_SPACE,
                 "are free");
    assert_ok(save_on_small(room, "weights=mpc", ones, 2));
    assert_holds(1, ones, 2, 1);
    /* What is not coded has to fit. */
    assert_fails(save_on_small(3 * MIB, "weights=mpc", ones, 2),
                 LULL_ERR_NO_SPACE, "are free");
    assert_fails(save_on_small(room, "moments=mpc", ones, 2), LULL_ERR_NO_SPACE,
                 "are free");
    /* Room that another takes between the look and the reservation. */
    assert_ok(save_on_small(100 * MIB, "weights=mpc", ones, 2));
    assert_holds(1, ones, 2, 1);
    lull__io_set_default(&fault.io);
    free(ones[0].data);
    free(ones[1].data);
}

/* Destroyed at any time: nothing hangs, nothing leaks. */
static void destroyed_while_it_codes(void **state) {
    (void)state;
    one_t one = {"w", LULL_F32, 4 * MIB, NULL};
    fill(&one, 5);
    unsigned before = test_descriptors();
    for (unsigned i = 0; i < 20; i++) {
        lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
        lull_ckpt_t *ckpt;
        options.codec = "mpc";
        options.encode_threads = 1 + i % 4;
        options.copy_threads = 1 + i % 3;
        options.buffer_bytes = 3 * MIB;
        assert_ok(lull_ckpt_open(&options, &ckpt));
        lull_ckpt_tensor_t tensor =
            test_tensor(one.name, one.dtype, one.count, one.data);
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.tensors = &tensor;
        save.tensor_count = 1;
        assert_ok(lull_ckpt_save(ckpt, &save, NULL));
        lull__sleep(0.001 * i);
        lull_ckpt_destroy(ckpt);
        assert_int_equal(test_descriptors(), before);
    }
    free(one.data);
}

/* A byte of a frame is flipped: the tensor is named, and LATEST falls back is
 * for others to test. */
static void damage_is_found(void **state) {
    (void)state;
    one_t one = {"w", LULL_F32, 600000, NULL};
    char path[512];
    size_t n;
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt;
    fill(&one, 5);
    options.codec = "expo";
    assert_ok(lull_ckpt_open(&options, &ckpt));
    assert_ok(save_all(ckpt, 1, &one, 1));
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    snprintf(path, sizeof path, "%s/step-00000001/rank-00000.safetensors",
             ckpt_room);
    char *file = test_slurp(path, &n);
    assert_non_null(file);
    for (size_t at = 4096; at < n; at += n / 9) {
        file[at] ^= 16;
        test_spit(path, file, n);
        file[at] ^= 16;
        lull_ckpt_info_t *info = open_step(1);
        assert_fails(lull_ckpt_verify(info, NULL, NULL), LULL_ERR_CORRUPT,
                     "rank-00000.safetensors");
        lull_ckpt_info_destroy(info);
    }
    free(file);
    free(one.data);
}

/* ---- allocations ---- */

static void the_nth_allocation_fails(void **state) {
    (void)state;
    one_t ones[] = {{"w", LULL_F32, 300000, NULL}, {"e", LULL_F32, 0, NULL}};
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 1);
    lull_ckpt_t *ckpt;
    unsigned opens = 0, saves = 0;
    bool reached = true;
    fill(&ones[0], 1);
    fill(&ones[1], 2);
    options.codec = "expo";
    options.encode_threads = 2;
    for (uint64_t n = 1; reached && n < 1000; n++) {
        allocations_arm(n);
        lull_status_t status = lull_ckpt_open(&options, &ckpt);
        reached = allocations_arm(0);
        opens += status != LULL_OK;
        if (status != LULL_OK)
            assert_int_equal(status, LULL_ERR_NO_MEMORY);
        else
            lull_ckpt_destroy(ckpt);
    }
    reached = true;
    assert_ok(lull_ckpt_open(&options, &ckpt));
    for (uint64_t n = 1; reached && n < 1000; n++) {
        allocations_arm(n);
        lull_status_t status = save_all(ckpt, 2, ones, 2);
        reached = allocations_arm(0);
        saves += status != LULL_OK;
        assert_ok(save_all(ckpt, 3, ones, 2));
    }
    assert_ok(lull_ckpt_close(ckpt));
    lull_ckpt_destroy(ckpt);
    assert_holds(3, ones, 2, 1);
    assert_true(opens > 5 && saves > 10);
    free(ones[0].data);
    free(ones[1].data);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, ckpt_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(all_dtypes_come_back_bit_for_bit),
        TEST(threads_do_not_show),
        TEST(what_is_saved_is_told),
        TEST(lossy_moments_are_near),
        TEST(saves_overlap),
        TEST(from_a_device),
        TEST(the_nth_call_fails),
        TEST(what_fits_only_coded_is_saved),
        TEST(destroyed_while_it_codes),
        TEST(damage_is_found),
        TEST(the_nth_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
