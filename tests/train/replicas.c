/* What several ranks hold must stay the same bits: weights and gradients over
 * data-parallel ranks, and what tensor-parallel ranks replicate over those.
 * Run under MPI: replicas FILE TP PP ZERO POLICY STEPS. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fail.h"
#include "model.h"

static config_t config = {.layers = 4,
                          .hidden = 64,
                          .heads = 4,
                          .seq = 32,
                          .global_batch = 12,
                          .micro_batch = 1,
                          .warmup = 2,
                          .lr = 0.003,
                          .seed = 3,
                          .val_windows = 2};
static groups_t groups;
static int differences;

static void must(lull_status_t status, const char *what) {
    if (status == LULL_OK)
        return;
    fprintf(stderr, "replicas: %s: %s\n", what, train_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint64_t hash(const float *data, size_t count, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i < count * sizeof *data; i++)
        seed = (seed ^ bytes[i]) * 0x100000001b3u;
    return seed;
}

/* One number for all that this rank shares with others: `replicated`: over
 * tensor-parallel ranks too, else over data-parallel ones alone. */
static uint64_t digest(const model_t *model, shard_kind_t kind,
                       bool replicated) {
    size_t count;
    const shard_t *s = model_shards(model, kind, &count);
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < count; i++, s++) {
        bool over_tp = s->ndim == 1 && s->shape[0] == s->global_shape[0] &&
                       !strstr(s->name, "query_key_value") &&
                       !strstr(s->name, "h_to_4h");
        if (over_tp == replicated)
            sum = hash(s->data, (size_t)(s->shape[0] * s->shape[1]), sum);
    }
    return sum;
}

/* Every rank of the same group must have the same number. */
static void compare(const char *what, int64_t step, int group,
                    uint64_t number) {
    int64_t mine[2] = {group, (int64_t)number};
    int64_t *all = malloc((size_t)groups.world * sizeof mine);
    must(all ? LULL_OK : LULL_ERR_NO_MEMORY, "out of memory");
    must(lull_allgather(mine, all, 2, LULL_I64, groups.other), "all-gather");
    for (int i = 0; i < groups.world; i++)
        if (all[2 * i] == group && all[2 * i + 1] != mine[1]) {
            fprintf(stderr, "step %lld: %s: ranks %d and %d differ\n",
                    (long long)step, what, groups.rank, i);
            differences++;
        }
    free(all);
}

typedef struct context {
    int64_t step;
} context_t;

static void check(model_t *model, shard_kind_t kind, const char *what,
                  int64_t step) {
    int stage = groups.pp_rank;
    compare(what, step, stage * groups.tp + groups.tp_rank,
            digest(model, kind, false));
    compare(what, step, stage, digest(model, kind, true));
}

static lull_status_t on_gradients(void *ctx, model_t *model) {
    if (!config.zero)
        check(model, SHARDS_GRADIENTS, "gradients", ((context_t *)ctx)->step);
    return LULL_OK;
}

int main(int argc, char **argv) {
    int world;
    if (argc != 7) {
        fprintf(stderr, "usage: replicas FILE TP PP ZERO POLICY STEPS\n");
        return 2;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    config.data = argv[1];
    config.tp = atoi(argv[2]);
    config.pp = atoi(argv[3]);
    config.zero = atoi(argv[4]);
    config.comm = argv[5];
    config.steps = atoi(argv[6]);
    config.dp = world / (config.tp * config.pp);
    data_t *data;
    model_t *model;
    must(groups_create(&config, &groups), "groups");
    must(data_open(&config, &data), "data");
    must(model_create(&config, &groups, data, &model), "model");
    model_init_weights(model);
    context_t context;
    hooks_t hooks = {.ctx = &context, .gradients = on_gradients};
    step_result_t result;
    for (context.step = 0; context.step < config.steps; context.step++) {
        must(train_step(model, context.step, &hooks, &result), "step");
        check(model, SHARDS_WEIGHTS, "weights", context.step);
    }
    if (groups.rank == 0)
        printf("loss %.9g norm %.9g\n", result.loss, result.grad_norm);
    model_destroy(model);
    data_close(data);
    groups_destroy(&groups);
    MPI_Finalize();
    return differences > 0;
}
