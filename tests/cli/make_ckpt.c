/* make_ckpt DIR SEQ STEP [PARENT]: a small checkpoint of two ranks, the same
 * bytes for the same arguments, to try `lull` on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt_writer.h"

enum { HIDDEN = 4, VOCABULARY = 256 };

static const lull_ckpt_meta_t meta[] = {
    {"model.architectures", "GPTNeoXForCausalLM"},
    {"model.model_type", "gpt_neox"},
    {"model.hidden_size", "4"},
    {"model.num_hidden_layers", "0"},
    {"model.num_attention_heads", "1"},
    {"model.vocab_size", "256"},
    {"model.rotary_pct", "0.25"},
    {"model.layer_norm_eps", "1e-05"},
    {"model.use_parallel_residual", "true"},
    {"model.torch_dtype", "float32"},
    {"run.program", "make_ckpt"},
};

/* Values that depend on the step and on the global index only. */
static const float *values(uint64_t step, uint64_t first, uint64_t n) {
    float *data = malloc(n * sizeof *data);
    for (uint64_t i = 0; i < n; i++)
        data[i] = (float)(first + i) / 8 + (float)step / 1000;
    return data;
}

static test_shard_t shard(uint32_t rank, const char *name, uint64_t rows,
                          uint64_t begin, uint64_t end) {
    test_shard_t s = {.rank = rank,
                      .name = name,
                      .dtype = LULL_F32,
                      .ndim = 2,
                      .global = {rows, HIDDEN},
                      .box = {{begin, 0}, {end - begin, HIDDEN}}};
    return s;
}

static test_shard_t state(uint32_t rank, const char *name, const char *text,
                          lull__shard_kind_t kind) {
    test_shard_t s = {.rank = rank,
                      .name = name,
                      .kind = kind,
                      .dtype = LULL_U8,
                      .ndim = 1,
                      .global = {strlen(text)},
                      .data = text};
    s.box = test_whole(1, s.global);
    return s;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: make_ckpt DIR SEQ STEP [PARENT]\n");
        return 2;
    }
    uint64_t seq = strtoull(argv[2], NULL, 10);
    uint64_t step = strtoull(argv[3], NULL, 10);
    test_shard_t shards[] = {
        shard(0, "gpt_neox.embed_in.weight", VOCABULARY, 0, 128),
        shard(0, "optimizer.exp_avg.gpt_neox.embed_in.weight", VOCABULARY, 0,
              128),
        state(0, "loader", "position 7", LULL__SHARD_STATE),
        state(0, "rng", "seed 0", LULL__SHARD_STATE_RANK),
        shard(1, "gpt_neox.embed_in.weight", VOCABULARY, 128, 256),
        shard(1, "optimizer.exp_avg.gpt_neox.embed_in.weight", VOCABULARY, 128,
              256),
        shard(1, "gpt_neox.final_layer_norm.weight", 1, 0, 1),
        state(1, "rng", "seed 1", LULL__SHARD_STATE_RANK),
    };
    const lull_ckpt_meta_t aliases[] = {
        {"embed_out.weight", "gpt_neox.embed_in.weight"}};
    size_t n = sizeof shards / sizeof *shards;
    for (size_t i = 0; i < n; i++)
        if (shards[i].data == NULL)
            shards[i].data =
                values(step, shards[i].box.offset[0] * HIDDEN,
                       shards[i].box.shape[0] * shards[i].box.shape[1]);
    mkdir(argv[1], 0777);
    test_ckpt_write(&(test_ckpt_t){
        .dir = argv[1],
        .seq = seq,
        .step = step,
        .parent = argc > 4 ? strtoull(argv[4], NULL, 10) : seq - 1,
        .world = 2,
        .shards = shards,
        .count = n,
        .meta = meta,
        .meta_count = sizeof meta / sizeof *meta,
        .aliases = aliases,
        .alias_count = 1});
    for (size_t i = 0; i < n; i++)
        if (shards[i].kind == LULL__SHARD_TENSOR)
            free((void *)shards[i].data);
    return 0;
}
