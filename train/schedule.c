/* The order of forward and backward over micro-batches: one forward, one
 * backward (Narayanan et al., PipeDream, SOSP 2019). A stage first runs as
 * many forwards as there are stages after it, then alternates. What comes
 * from a neighbour is posted one micro-batch ahead. */
#include <string.h>

#include "pass.h"

enum { TAG_FORWARD, TAG_BACKWARD };

/* One step of one stage. */
typedef struct run {
    pass_t pass;
    model_t *model;
    int64_t step;
    double loss;
    lull_request_t *input, *gradient; /* being received */
} run_t;

static size_t values(const run_t *run) {
    return run->pass.rows * (size_t)run->model->hidden;
}

static void receive(run_t *run, float *to, int from, int tag,
                    lull_request_t **request) {
    pass_t *pass = &run->pass;
    if (pass->status == LULL_OK)
        pass->status = lull_irecv(to, values(run), LULL_F32, from, tag,
                                  pass->links->pp, request);
}

static void send(run_t *run, const float *from, int to, int tag,
                 lull_request_t **request) {
    pass_t *pass = &run->pass;
    if (pass->status == LULL_OK)
        pass->status = lull_isend(from, values(run), LULL_F32, to, tag,
                                  pass->links->pp, request);
}

static float *input_buffer(const run_t *run, int micro) {
    return run->model->inputs[micro % (run->model->slot_count + 1)];
}

/* Posts the receive of a micro-batch's input, if there is one to come. */
static void expect_input(run_t *run, int micro) {
    const model_t *m = run->model;
    if (!m->is_first && micro < m->micro_batches)
        receive(run, input_buffer(run, micro), m->groups->pp_rank - 1,
                TAG_FORWARD, &run->input);
}

static void expect_gradient(run_t *run, int micro) {
    model_t *m = run->model;
    if (m->is_last || micro >= m->micro_batches)
        return;
    int index = micro % GRADIENT_BUFFERS;
    pass_wait(&run->pass, run->pass.links->pp, &m->gradient_sent[index]);
    receive(run, m->gradient[index], m->groups->pp_rank + 1, TAG_BACKWARD,
            &run->gradient);
}

/* The tokens of a micro-batch of this data-parallel rank, where they are
 * needed. */
static void load_tokens(run_t *run, int micro, slot_t *slot) {
    const model_t *m = run->model;
    const config_t *c = m->config;
    size_t seq = (size_t)c->seq;
    if (!m->is_first && !m->is_last)
        return;
    int first =
        (m->groups->dp_rank * m->micro_batches + micro) * c->micro_batch;
    for (int i = 0; i < c->micro_batch && run->pass.status == LULL_OK; i++) {
        uint8_t *window = m->scratch.window;
        run->pass.status =
            data_train_window(m->data, run->step, first + i, window);
        memcpy(slot->inputs + (size_t)i * seq, window, seq);
        memcpy(slot->targets + (size_t)i * seq, window + 1, seq);
    }
}

static void forward(run_t *run, int micro) {
    model_t *m = run->model;
    pass_t *pass = &run->pass;
    slot_t *slot = &m->slots[micro % m->slot_count];
    load_tokens(run, micro, slot);
    pass_wait(pass, pass->links->pp, &run->input);
    pass_wait(pass, pass->links->pp, &slot->sent);
    expect_input(run, micro + 1);
    span_begin(m, "forward", "forward");
    slot->layers[0].x = input_buffer(run, micro);
    if (m->is_first)
        embed_forward(pass, slot);
    for (int i = 0; i < m->layers && pass->status == LULL_OK; i++)
        layer_forward(pass, i, slot);
    if (m->is_last && pass->status == LULL_OK) {
        const config_t *c = m->config;
        logits_forward(pass, slot);
        run->loss += loss_forward(
            pass, slot, (float)(1.0 / ((double)c->global_batch * c->seq)));
    }
    span_end(m, "forward");
    if (!m->is_last)
        send(run, slot->out, m->groups->pp_rank + 1, TAG_FORWARD, &slot->sent);
}

static void backward(run_t *run, int micro) {
    model_t *m = run->model;
    pass_t *pass = &run->pass;
    slot_t *slot = &m->slots[micro % m->slot_count];
    bool final = micro == m->micro_batches - 1;
    int index = micro % GRADIENT_BUFFERS;
    float *grad = m->gradient[index];
    pass_wait(pass, pass->links->pp, &run->gradient);
    expect_gradient(run, micro + 1);
    pass_wait(pass, pass->links->pp, &m->gradient_sent[index]);
    span_begin(m, "backward", "backward");
    if (m->is_last && pass->status == LULL_OK)
        loss_backward(pass, slot, grad);
    if (final)
        reduce_begin(pass, m->layers);
    for (int i = m->layers - 1; i >= 0 && pass->status == LULL_OK; i--) {
        if (micro == 0)
            traffic_before(pass, i, slot, grad);
        layer_backward(pass, i, slot, grad);
        if (micro == 0)
            traffic_after(pass);
        if (final)
            reduce_begin(pass, i);
    }
    if (m->is_first && pass->status == LULL_OK)
        embed_backward(pass, slot, grad);
    if (final)
        reduce_begin(pass, READY_END);
    span_end(m, "backward");
    if (!m->is_first)
        send(run, grad, m->groups->pp_rank - 1, TAG_BACKWARD,
             &m->gradient_sent[index]);
}

static void finish(run_t *run) {
    model_t *m = run->model;
    for (int i = 0; i < m->slot_count; i++)
        pass_wait(&run->pass, run->pass.links->pp, &m->slots[i].sent);
    for (int i = 0; i < GRADIENT_BUFFERS; i++)
        pass_wait(&run->pass, run->pass.links->pp, &m->gradient_sent[i]);
    reduce_wait(&run->pass);
}

lull_status_t schedule_run(model_t *m, int64_t step, double *loss) {
    const config_t *c = m->config;
    run_t run = {.pass = {.model = m,
                          .links = &m->groups->train,
                          .batch = c->micro_batch,
                          .seq = c->seq,
                          .rows = (size_t)c->micro_batch * (size_t)c->seq},
                 .model = m,
                 .step = step};
    int total = m->micro_batches, ahead = m->slot_count - 1;
    memset(m->gradients, 0, m->arena * sizeof *m->gradients);
    expect_input(&run, 0);
    expect_gradient(&run, 0);
    for (int i = 0; i < total + ahead && run.pass.status == LULL_OK; i++) {
        if (i < total)
            forward(&run, i);
        if (i >= ahead && run.pass.status == LULL_OK)
            backward(&run, i - ahead);
    }
    finish(&run);
    *loss = run.loss;
    return run.pass.status;
}
