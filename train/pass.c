/* Products and communication of a pass. */
#include "pass.h"

void pass_progress(pass_t *pass) {
    if (pass->model->groups->world > 1 && pass->status == LULL_OK)
        pass->status = lull_comm_progress();
}

void pass_small_product(pass_t *pass, product_kind_t kind,
                        const product_t *what) {
    if (pass->status == LULL_OK)
        pass->status = product(kind, what);
}

void pass_product(pass_t *pass, product_kind_t kind, const product_t *what) {
    pass_small_product(pass, kind, what);
    pass_progress(pass);
}

void span_begin(const model_t *model, const char *lane, const char *name) {
    const hooks_t *hooks = model->hooks;
    if (hooks && hooks->span_begin)
        hooks->span_begin(hooks->ctx, lane, name);
}

void span_end(const model_t *model, const char *lane) {
    const hooks_t *hooks = model->hooks;
    if (hooks && hooks->span_end)
        hooks->span_end(hooks->ctx, lane);
}

/* An all-reduce in place, traced in the lane of the communicator's role. */
static void combine(pass_t *pass, float *values, size_t count, lull_op_t op,
                    lull_comm_t *comm) {
    if (pass->status != LULL_OK || lull_comm_size(comm) == 1)
        return;
    const char *lane = lull_role_name(lull_comm_role(comm));
    span_begin(pass->model, lane, "all-reduce");
    pass->status =
        lull_allreduce(LULL_IN_PLACE, values, count, LULL_F32, op, comm);
    span_end(pass->model, lane);
}

void pass_sum(pass_t *pass, float *values, size_t count) {
    combine(pass, values, count, LULL_SUM, pass->links->tp);
}

void pass_loss_combine(pass_t *pass, float *values, size_t count,
                       lull_op_t op) {
    combine(pass, values, count, op, pass->model->groups->plain.tp);
}

void pass_sum_begin(pass_t *pass, float *values, size_t count,
                    lull_request_t **request) {
    lull_comm_t *comm = pass->links->tp;
    *request = NULL;
    if (pass->status == LULL_OK && lull_comm_size(comm) > 1)
        pass->status = lull_iallreduce(LULL_IN_PLACE, values, count, LULL_F32,
                                       LULL_SUM, comm, request);
}

void pass_wait(pass_t *pass, const lull_comm_t *comm,
               lull_request_t **request) {
    /* After a failure the other side may never come. */
    if (!*request || pass->status != LULL_OK)
        return;
    const char *lane = lull_role_name(lull_comm_role(comm));
    span_begin(pass->model, lane, "wait");
    pass->status = lull_wait(request);
    span_end(pass->model, lane);
}
