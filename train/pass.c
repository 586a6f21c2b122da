/* Products and communication of a pass. */
#include "pass.h"

#include <cblas.h>

void product(product_kind_t kind, const product_t *p) {
    CBLAS_TRANSPOSE a = kind == PRODUCT_TN ? CblasTrans : CblasNoTrans;
    CBLAS_TRANSPOSE b = kind == PRODUCT_NT ? CblasTrans : CblasNoTrans;
    int lda = kind == PRODUCT_TN ? p->rows : p->inner;
    int ldb = kind == PRODUCT_NT ? p->inner : p->cols;
    cblas_sgemm(CblasRowMajor, a, b, p->rows, p->cols, p->inner,
                p->alpha != 0 ? p->alpha : 1.0f, p->a,
                p->a_stride ? p->a_stride : lda, p->b,
                p->b_stride ? p->b_stride : ldb, p->beta, p->c,
                p->c_stride ? p->c_stride : p->cols);
}

void pass_progress(pass_t *pass) {
    if (pass->model->groups->world > 1 && pass->status == LULL_OK)
        pass->status = lull_comm_progress();
}

void pass_product(pass_t *pass, product_kind_t kind, const product_t *what) {
    product(kind, what);
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
    if (!*request)
        return;
    const char *lane = lull_role_name(lull_comm_role(comm));
    span_begin(pass->model, lane, "wait");
    lull_status_t status = lull_wait(request);
    span_end(pass->model, lane);
    if (pass->status == LULL_OK)
        pass->status = status;
}
