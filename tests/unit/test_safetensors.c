/* The public reader and writer of safetensors files. */
#include <lull/safetensors.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ckpt_writer.h"
#include "test.h"

static const lull_safetensors_tensor_t tensors[] = {
    {.name = "a", .dtype = LULL_F32, .ndim = 2, .shape = {2, 2}},
    {.name = "none", .dtype = LULL_F32, .ndim = 1, .shape = {0}},
    {.name = "b", .dtype = LULL_U8},
};
static const float values[4] = {1, 2, 3, 4};

static char *path_of(const char *dir, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", dir, name) < 0)
        abort();
    return path;
}

static void write_file(const char *dir, const char *name) {
    lull_safetensors_writer_t *writer;
    lull_ckpt_meta_t meta = {"k", "v"};
    char *path = path_of(dir, name);
    assert_ok(lull_safetensors_create(path, tensors, 3, &meta, 1, &writer));
    assert_ok(lull_safetensors_write(writer, values, 5));
    assert_ok(lull_safetensors_write(writer, (const char *)values + 5, 11));
    assert_ok(lull_safetensors_write(writer, "x", 1));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_ok(lull_safetensors_close(writer));
    lull_safetensors_writer_destroy(writer);
    free(path);
}

static void there_and_back(void **state) {
    (void)state;
    char *dir = test_dir("st"), *path = path_of(dir, "f.safetensors");
    write_file(dir, "f.safetensors");
    lull_safetensors_t *file;
    lull_safetensors_tensor_t tensor;
    assert_ok(lull_safetensors_open(path, &file));
    assert_int_equal(lull_safetensors_count(file), 3);
    assert_true(lull_safetensors_at(file, 0, &tensor));
    assert_string_equal(tensor.name, "a");
    assert_int_equal(tensor.bytes, 16);
    assert_false(lull_safetensors_at(file, 3, &tensor));
    assert_ok(lull_safetensors_find(file, "b", &tensor));
    assert_int_equal(tensor.ndim, 0);
    assert_fails(lull_safetensors_find(file, "c", &tensor), LULL_ERR_NOT_FOUND,
                 "'c'");
    assert_string_equal(lull_safetensors_meta(file, "format"), "pt");
    assert_string_equal(lull_safetensors_meta(file, "k"), "v");
    assert_null(lull_safetensors_meta(file, "l"));
    float two[2];
    char x;
    assert_ok(lull_safetensors_read(file, "a", 8, 8, two));
    assert_memory_equal(two, values + 2, 8);
    assert_ok(lull_safetensors_read(file, "b", 0, 1, &x));
    assert_int_equal(x, 'x');
    assert_fails(lull_safetensors_read(file, "a", 9, 8, two), LULL_ERR_INVALID,
                 "it has 16");
    lull_safetensors_destroy(file);
    lull_safetensors_destroy(NULL);
    test_dir_remove(dir);
    free(path);
}

static void writer_refuses(void **state) {
    (void)state;
    char *dir = test_dir("st"), *path = path_of(dir, "f.safetensors");
    lull_safetensors_writer_t *writer;
    lull_safetensors_tensor_t twice[2] = {tensors[0], tensors[0]};
    assert_fails(lull_safetensors_create(path, twice, 2, NULL, 0, &writer),
                 LULL_ERR_INVALID, "twice");
    lull_safetensors_tensor_t bad = {.name = "__metadata__", .dtype = LULL_U8};
    assert_fails(lull_safetensors_create(path, &bad, 1, NULL, 0, &writer),
                 LULL_ERR_INVALID, "__metadata__");
    bad = tensors[0];
    bad.shape[0] = bad.shape[1] = UINT64_MAX;
    assert_fails(lull_safetensors_create(path, &bad, 1, NULL, 0, &writer),
                 LULL_ERR_INVALID, "overflow");
    assert_ok(lull_safetensors_create(path, tensors, 3, NULL, 0, &writer));
    assert_fails(lull_safetensors_close(writer), LULL_ERR_INVALID, "missing");
    assert_fails(lull_safetensors_write(writer, values, 18), LULL_ERR_INVALID,
                 "lack 17");
    lull_safetensors_writer_destroy(writer);
    assert_int_equal(rmdir(dir), 0); /* nothing was left in it */
    free(path);
    free(dir);
    dir = test_dir("st");
    path = path_of(dir, "f.safetensors");
    write_file(dir, "f.safetensors");
    assert_fails(lull_safetensors_create(path, tensors, 3, NULL, 0, &writer),
                 LULL_ERR_BUSY, "exists");
    free(path);
    test_dir_remove(dir);
}

static void damaged_files(void **state) {
    (void)state;
    char *dir = test_dir("st"), *path = path_of(dir, "f.safetensors");
    lull_safetensors_t *file;
    assert_fails(lull_safetensors_open(path, &file), LULL_ERR_NOT_FOUND,
                 "f.safetensors");
    write_file(dir, "f.safetensors");
    size_t n;
    char *data = test_file_read(dir, "f.safetensors", &n);
    for (size_t cut = 0; cut < n; cut += cut < 300 || cut > 4080 ? 1 : 97) {
        test_file_write(dir, "f.safetensors", data, cut);
        assert_int_equal(lull_safetensors_open(path, &file), LULL_ERR_CORRUPT);
    }
    test_file_write(dir, "f.safetensors", data, n + 1);
    assert_fails(lull_safetensors_open(path, &file), LULL_ERR_CORRUPT,
                 "f.safetensors: 18 bytes of data");
    free(data);
    free(path);
    test_dir_remove(dir);
}

static void sharded(void **state) {
    (void)state;
    char *dir = test_dir("st");
    lull_safetensors_t *file;
    lull_safetensors_writer_t *writer;
    lull_safetensors_tensor_t c = {.name = "c", .dtype = LULL_U8};
    assert_fails(lull_safetensors_open(dir, &file), LULL_ERR_NOT_FOUND,
                 "index.json");
    write_file(dir, "model-00001-of-00002.safetensors");
    char *path = path_of(dir, "model-00002-of-00002.safetensors");
    assert_ok(lull_safetensors_create(path, &c, 1, NULL, 0, &writer));
    assert_ok(lull_safetensors_write(writer, "y", 1));
    assert_ok(lull_safetensors_close(writer));
    lull_safetensors_writer_destroy(writer);
    free(path);
#define ONE "\"model-00001-of-00002.safetensors\""
#define TWO "\"model-00002-of-00002.safetensors\""
    static const struct {
        const char *text, *word;
    } rows[] = {
        {"{\"metadata\":{\"total_size\":18},\"weight_map\":{\"a\":" ONE
         ",\"b\":" ONE ",\"none\":" ONE ",\"c\":" TWO "}}",
         NULL},
        {"{\"weight_map\":{\"a\":" ONE ",\"b\":" ONE ",\"none\":" ONE
         ",\"c\":" ONE "}}",
         "'c' is not in"},
        {"{\"weight_map\":{\"a\":" ONE ",\"b\":" ONE ",\"none\":" ONE "}}",
         NULL},
        {"{\"weight_map\":{\"a\":" ONE "}}", "1 tensors"},
        {"{\"weight_map\":{\"a\":" ONE ",\"a\":" ONE "}}", "twice"},
        {"{\"weight_map\":{\"a\":\"../x.safetensors\"}}", "no file name"},
        {"{\"weight_map\":{\"a\":\"x.bin\"}}", "no file name"},
        {"{\"weight_map\":[]}", "object"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_file_write(dir, "model.safetensors.index.json", rows[i].text,
                        strlen(rows[i].text));
        if (rows[i].word != NULL) {
            assert_fails(lull_safetensors_open(dir, &file), LULL_ERR_CORRUPT,
                         rows[i].word);
            continue;
        }
        char y;
        assert_ok(lull_safetensors_open(dir, &file));
        if (i == 0) {
            assert_int_equal(lull_safetensors_count(file), 4);
            assert_ok(lull_safetensors_read(file, "c", 0, 1, &y));
            assert_int_equal(y, 'y');
        }
        lull_safetensors_destroy(file);
    }
    test_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(writer_refuses),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(sharded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
