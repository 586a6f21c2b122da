/* Layouts without MPI: what the ranks of a run hold, for many layouts. */
#include <stdlib.h>

#include "fail.h"
#include "model.h"
#include "test.h"

enum { MAX_RANKS = 16 };

typedef struct layout {
    int layers, hidden, heads, tp, dp, pp, zero;
} layout_t;

static const layout_t layouts[] = {
    {3, 16, 2, 1, 1, 1, 0}, {3, 16, 2, 1, 2, 1, 0}, {3, 32, 4, 2, 2, 2, 0},
    {5, 32, 4, 4, 1, 3, 0}, {3, 16, 2, 1, 2, 1, 1}, {3, 32, 4, 2, 3, 2, 1},
    {2, 24, 3, 1, 5, 2, 1}, {2, 24, 1, 1, 7, 1, 1},
};

static groups_t groups_of(const layout_t *l, int rank) {
    return (groups_t){.world = l->tp * l->dp * l->pp,
                      .rank = rank,
                      .tp = l->tp,
                      .dp = l->dp,
                      .pp = l->pp,
                      .tp_rank = rank % l->tp,
                      .dp_rank = rank / l->tp % l->dp,
                      .pp_rank = rank / (l->tp * l->dp)};
}

static config_t config_of(const layout_t *l) {
    return (config_t){.layers = l->layers,
                      .hidden = l->hidden,
                      .heads = l->heads,
                      .seq = 4,
                      .global_batch = l->dp,
                      .micro_batch = 1,
                      .tp = l->tp,
                      .dp = l->dp,
                      .pp = l->pp,
                      .zero = l->zero,
                      .seed = 7};
}

typedef struct fleet {
    config_t config;
    groups_t groups[MAX_RANKS];
    model_t *models[MAX_RANKS];
    int ranks;
} fleet_t;

static void fleet_create(fleet_t *fleet, const layout_t *layout) {
    fleet->config = config_of(layout);
    fleet->ranks = layout->tp * layout->dp * layout->pp;
    assert_true(fleet->ranks <= MAX_RANKS);
    for (int i = 0; i < fleet->ranks; i++) {
        fleet->groups[i] = groups_of(layout, i);
        assert_ok(model_create(&fleet->config, &fleet->groups[i], NULL,
                               &fleet->models[i]));
        model_init_weights(fleet->models[i]);
    }
}

static void fleet_destroy(fleet_t *fleet) {
    for (int i = 0; i < fleet->ranks; i++)
        model_destroy(fleet->models[i]);
}

/* Adds `weight` to each value of a box. */
static void count_box(const shard_t *s, unsigned *seen, unsigned weight) {
    for (uint64_t i = 0; i < s->shape[0]; i++)
        for (uint64_t j = 0; j < s->shape[1]; j++)
            seen[(s->offset[0] + i) * s->global_shape[1] + s->offset[1] + j] +=
                weight;
}

/* Every value has one writer, and holders numbered from 0 without a gap. */
static void check_tensor(const fleet_t *fleet, const char *name,
                         const tensor_info_t *info) {
    size_t values = (size_t)(info->shape[0] * info->shape[1]);
    unsigned *once = calloc(values, sizeof *once);
    unsigned *all = calloc(values, sizeof *all);
    unsigned *numbers = calloc(values, sizeof *numbers);
    assert_true(once && all && numbers);
    unsigned replicas = 0;
    for (int rank = 0; rank < fleet->ranks; rank++) {
        size_t count, boxes = 0;
        const shard_t *s =
            model_shards(fleet->models[rank], SHARDS_STATE, &count);
        for (size_t i = 0; i < count; i++, s++) {
            if (strcmp(s->name, name) != 0)
                continue;
            assert_true(s->replica < s->replicas);
            assert_int_equal(s->ndim, info->ndim);
            if (s->replica == 0)
                count_box(s, once, 1);
            count_box(s, all, 1);
            count_box(s, numbers, s->replica * s->replica);
            replicas = s->replicas;
            boxes++;
        }
        assert_true(boxes <= 2 * info->ndim - 1);
    }
    unsigned squares = 0;
    for (unsigned i = 0; i < replicas; i++)
        squares += i * i;
    for (size_t i = 0; i < values; i++) {
        if (once[i] != 1 || all[i] != replicas || numbers[i] != squares)
            fail_msg("%s: value %zu: %u writers, %u holders of %u", name, i,
                     once[i], all[i], replicas);
    }
    free(once);
    free(all);
    free(numbers);
}

static void boxes_tile_every_tensor(void **state) {
    (void)state;
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        fleet_t fleet;
        fleet_create(&fleet, &layouts[l]);
        size_t tensors, names;
        const tensor_info_t *info = model_tensors(fleet.models[0], &tensors);
        const char *const *name = model_names(fleet.models[0], &names);
        assert_int_equal(names, 3 * tensors);
        for (size_t i = 0; i < names; i++)
            check_tensor(&fleet, name[i], &info[i % tensors]);
        fleet_destroy(&fleet);
    }
}

/* The values of a tensor, from the boxes of all ranks. */
static void collect(const fleet_t *fleet, const char *name, float *out) {
    for (int rank = 0; rank < fleet->ranks; rank++) {
        size_t count;
        const shard_t *s =
            model_shards(fleet->models[rank], SHARDS_WEIGHTS, &count);
        for (size_t n = 0; n < count; n++, s++) {
            if (strcmp(s->name, name) != 0)
                continue;
            const float *from = s->data;
            for (uint64_t i = 0; i < s->shape[0]; i++)
                for (uint64_t j = 0; j < s->shape[1]; j++)
                    out[(s->offset[0] + i) * s->global_shape[1] + s->offset[1] +
                        j] = *from++;
        }
    }
}

static void weights_do_not_depend_on_the_layout(void **state) {
    (void)state;
    layout_t alone = {3, 32, 4, 1, 1, 1, 0}, split = {3, 32, 4, 2, 2, 3, 1};
    fleet_t one, many;
    fleet_create(&one, &alone);
    fleet_create(&many, &split);
    size_t tensors;
    const tensor_info_t *info = model_tensors(one.models[0], &tensors);
    for (size_t i = 0; i < tensors; i++) {
        size_t values = (size_t)(info[i].shape[0] * info[i].shape[1]);
        float *a = calloc(values, sizeof *a), *b = calloc(values, sizeof *b);
        assert_non_null(a);
        assert_non_null(b);
        collect(&one, info[i].name, a);
        collect(&many, info[i].name, b);
        assert_memory_equal(a, b, values * sizeof *a);
        free(a);
        free(b);
    }
    fleet_destroy(&one);
    fleet_destroy(&many);
}

static void shapes_that_do_not_divide(void **state) {
    (void)state;
    static const struct {
        layout_t layout;
        const char *word;
    } rows[] = {
        {{2, 30, 4, 1, 1, 1, 0}, "--hidden"},
        {{2, 48, 3, 2, 1, 1, 0}, "--heads"},
        {{2, 48, 6, 3, 1, 1, 0}, "vocabulary"},
        {{2, 32, 4, 1, 1, 3, 0}, "--pp"},
        {{2, 16, 4, 1, 1, 1, 0}, "rotates"},
        {{0, 16, 2, 1, 1, 1, 0}, "--layers"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        config_t config = config_of(&rows[i].layout);
        groups_t groups = groups_of(&rows[i].layout, 0);
        model_t *model = NULL;
        assert_int_equal(model_create(&config, &groups, NULL, &model),
                         LULL_ERR_INVALID);
        assert_null(model);
        if (!strstr(train_error(), rows[i].word))
            fail_msg("'%s' does not say %s", train_error(), rows[i].word);
        train_error_clear();
    }
}

static void learning_rates(void **state) {
    (void)state;
    config_t c = {.lr = 2.0, .warmup = 4, .steps = 104};
    assert_true(train_lr(&c, 0) == 0.5 && train_lr(&c, 3) == 2.0);
    assert_true(train_lr(&c, 4) == 2.0);
    assert_float_equal(train_lr(&c, 54), 2.0 * 0.55, 1e-12);
    assert_float_equal(train_lr(&c, 104), 0.2, 1e-12);
    c.warmup = c.steps;
    assert_true(train_lr(&c, 103) == 2.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_tile_every_tensor),
        cmocka_unit_test(weights_do_not_depend_on_the_layout),
        cmocka_unit_test(shapes_that_do_not_divide),
        cmocka_unit_test(learning_rates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
