/* lull diff: two sets of tensors, value by value. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"
#include "values.h"

static bool json, common;
static uint64_t step_a = LULL_LATEST, step_b = LULL_LATEST;

/* What was found about one name. */
typedef struct result {
    const char *name;
    const char *verdict; /* "equal", "differs", "only in A", ... */
    bool has_numbers;
    compare_t numbers;
} result_t;

typedef struct diff {
    source_t a, b;
    char *data_a, *data_b;
    uint64_t room;
    uint64_t equal, different, damaged;
    bool first;
} diff_t;

static void print_number(double value) {
    if (isfinite(value))
        printf("%.9g", value);
    else
        printf("\"%s\"", isnan(value) ? "nan" : "inf");
}

static void report(diff_t *diff, const result_t *r) {
    bool equal = strcmp(r->verdict, "equal") == 0;
    diff->damaged += strncmp(r->verdict, "damaged", 7) == 0;
    *(equal ? &diff->equal : &diff->different) += 1;
    if (!json) {
        printf("%-16s ", r->verdict);
        if (r->has_numbers)
            printf("max %-10.3g rel %-10.3g ", r->numbers.max_abs,
                   r->numbers.rel_l2);
        cli_print_name(stdout, r->name);
        putchar('\n');
        return;
    }
    fputs(diff->first ? "\n{\"name\":" : ",\n{\"name\":", stdout);
    diff->first = false;
    cli_json_string(stdout, r->name);
    printf(",\"verdict\":\"%s\"", r->verdict);
    if (r->has_numbers) {
        fputs(",\"max_abs\":", stdout);
        print_number(r->numbers.max_abs);
        fputs(",\"rel_l2\":", stdout);
        print_number(r->numbers.rel_l2);
        printf(",\"different\":%" PRIu64, r->numbers.different);
    }
    putchar('}');
}

static lull_status_t room_for(diff_t *diff, uint64_t bytes) {
    if (bytes <= diff->room)
        return LULL_OK;
    free(diff->data_a);
    free(diff->data_b);
    diff->data_a = malloc(bytes);
    diff->data_b = malloc(bytes);
    diff->room = bytes;
    return diff->data_a != NULL && diff->data_b != NULL ? LULL_OK
                                                        : LULL_ERR_NO_MEMORY;
}

/* One tensor that cannot be read is told, and the next one is looked at. */
static lull_status_t pass_over(lull_status_t status, const char *verdict,
                               result_t *out) {
    if (status != LULL_ERR_CORRUPT && status != LULL_ERR_IO)
        return status;
    cli_say("%s", lull_last_error());
    out->verdict = verdict;
    return LULL_OK;
}

static lull_status_t compare(diff_t *diff, const tensor_t *a, const tensor_t *b,
                             result_t *out) {
    cut_t cut;
    source_cut(a, &cut);
    compare_begin(&out->numbers);
    lull_status_t status = room_for(diff, cut.piece_bytes);
    for (uint64_t i = 0; status == LULL_OK && i < cut.pieces; i++) {
        uint64_t bytes;
        status = source_read(&diff->a, a, i, diff->data_a, &bytes);
        if (status != LULL_OK)
            return pass_over(status, "damaged in A", out);
        status = source_read(&diff->b, b, i, diff->data_b, &bytes);
        if (status != LULL_OK)
            return pass_over(status, "damaged in B", out);
        if (status == LULL_OK)
            compare_add(&out->numbers, a->dtype, diff->data_a, diff->data_b,
                        bytes);
    }
    compare_end(&out->numbers);
    out->verdict = out->numbers.different == 0 ? "equal" : "differs";
    out->has_numbers = out->numbers.different > 0 && value_known(a->dtype);
    return status;
}

static lull_status_t one_name(diff_t *diff, const tensor_t *a) {
    tensor_t b;
    result_t result = {.name = a->name};
    lull_status_t status = LULL_OK;
    if (!source_find(&diff->b, a->name, &b)) {
        if (common)
            return LULL_OK;
        result.verdict = "only in A";
    } else if (a->dtype != b.dtype) {
        result.verdict = "dtype differs";
    } else if (a->ndim != b.ndim ||
               memcmp(a->shape, b.shape, a->ndim * sizeof *a->shape) != 0) {
        result.verdict = "shape differs";
    } else {
        status = compare(diff, a, &b, &result);
    }
    if (status == LULL_OK)
        report(diff, &result);
    return status;
}

static lull_status_t all_names(diff_t *diff) {
    tensor_t tensor, other;
    progress_t progress;
    lull_status_t status = LULL_OK;
    size_t count = source_count(&diff->a);
    cli_progress_begin(&progress, "comparing");
    for (size_t i = 0; status == LULL_OK && source_at(&diff->a, i, &tensor);
         i++) {
        status = one_name(diff, &tensor);
        progress.terminal = progress.terminal && json;
        cli_progress(&progress, i, count);
    }
    cli_progress_end(&progress);
    for (size_t i = 0; status == LULL_OK && source_at(&diff->b, i, &tensor);
         i++)
        if (!common && !source_find(&diff->a, tensor.name, &other))
            report(diff,
                   &(result_t){.name = tensor.name, .verdict = "only in B"});
    return status;
}

static int run(int count, char **args) {
    diff_t diff = {.first = true};
    (void)count;
    int code = source_open(args[0], step_a, &diff.a);
    if (code == CLI_OK)
        code = source_open(args[1], step_b, &diff.b);
    if (code == CLI_OK) {
        if (json)
            putchar('[');
        lull_status_t status = all_names(&diff);
        if (json)
            puts("]");
        if (status != LULL_OK)
            code = cli_fail(status);
        else if (diff.equal + diff.different == 0)
            cli_say("%s and %s have no tensor in common", args[0], args[1]);
        else if (!json)
            printf("%" PRIu64 " equal, %" PRIu64 " not\n", diff.equal,
                   diff.different);
        if (code == CLI_OK && diff.damaged > 0)
            code = CLI_CORRUPT;
        else if (code == CLI_OK && (diff.different > 0 || diff.equal == 0))
            code = CLI_FAILED;
    }
    free(diff.data_a);
    free(diff.data_b);
    source_close(&diff.a);
    source_close(&diff.b);
    return code;
}

static const option_t options[] = {
    {"--common", OPTION_FLAG, &common, NULL, "only names that both have"},
    {"--step-a", OPTION_NUMBER, &step_a, "N", "step of checkpoint A"},
    {"--step-b", OPTION_NUMBER, &step_b, "N", "step of checkpoint B"},
    {"--json", OPTION_FLAG, &json, NULL, "an array of objects"},
    {0},
};

const command_t command_diff = {
    .name = "diff",
    .arguments = "A B",
    .summary = "Compare two checkpoints or models, tensor by tensor",
    .help =
        "A and B: a checkpoint (DIR or DIR/STEP), a safetensors file, or a\n"
        "directory with model.safetensors. For each tensor: equal (the same\n"
        "bits), or the largest absolute difference and the relative error\n"
        "|A - B| / |A| in the L2 norm. Damaged ones are named, the\n"
        "others still compared. Exit status 0 if all are equal, 1 if not, 3 "
        "if\n"
        "one is damaged.",
    .options = options,
    .least = 2,
    .most = 2,
    .run = run,
};
