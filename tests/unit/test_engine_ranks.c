/* Engines of several ranks in one directory: commit, abort, loss of a rank,
 * stale files, agreement on a run id, and any layout to any other. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"
#include "ckpt.h"
#include "ckpt/engine.h"
#include "clock.h"
#include "faultio.h"
#include "grid.h"
#include "support.h"
#include "test.h"

/* With time enough for what comes; the others more than rank 0, so that it is
 * rank 0 that gives up a rank that does not. */
static void open_ranks(lull_ckpt_t **ranks, uint32_t world) {
    for (uint32_t r = 0; r < world; r++) {
        lull_ckpt_options_t options = test_options(ckpt_room, r, world);
        options.commit_timeout_s = (r == 0 ? 1 : 1000) * TEST_CLOCK_TIMEOUT;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
}

/* Of a rank's save, for which another one is waited for in vain. */
static void assert_given_up(lull_ckpt_t *ckpt, const char *word) {
    test_clock_speed(TEST_CLOCK_HURRY);
    lull_status_t status = lull_ckpt_wait_committed(ckpt, NULL, LULL_FOREVER);
    test_clock_speed(1);
    assert_fails(status, LULL_ERR_ABORTED, word);
}

/* Rank r's quarter (or so) of one tensor of 64 rows. */
static uint32_t rows[64];

static lull_status_t save_part(lull_ckpt_t *ckpt, uint64_t step, uint32_t rank,
                               uint32_t world) {
    uint64_t begin = 64 * rank / world, end = 64 * (rank + 1) / world;
    lull_ckpt_tensor_t tensor =
        test_tensor("rows", LULL_U32, end - begin, rows + begin);
    tensor.global_shape[0] = 64;
    tensor.offset[0] = begin;
    lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
    save.step = step;
    save.tensors = &tensor;
    save.tensor_count = 1;
    return lull_ckpt_save(ckpt, &save, NULL);
}

static void assert_loads(uint64_t step) {
    lull_ckpt_id_t id;
    lull_ckpt_info_t *info;
    uint32_t back[64] = {0};
    lull_ckpt_find_options_t find = LULL_CKPT_FIND_OPTIONS_INIT;
    assert_ok(lull_ckpt_find(ckpt_room, &find, &id));
    assert_int_equal(id.step, step);
    assert_ok(lull_ckpt_info_open(ckpt_room, id, &info));
    assert_ok(lull_ckpt_verify(info, NULL, NULL));
    lull_ckpt_slice_t slice = LULL_CKPT_SLICE_INIT;
    slice.name = "rows";
    slice.dtype = LULL_U32;
    slice.ndim = 1;
    slice.global_shape[0] = slice.shape[0] = 64;
    slice.data = back;
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    assert_ok(lull_ckpt_load(info, &slice, 1, &load));
    lull_ckpt_info_destroy(info);
    assert_memory_equal(back, rows, sizeof rows);
}

static void close_ranks(lull_ckpt_t **ranks, uint32_t world) {
    for (uint32_t r = 0; r < world; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
}

static void all_commit_or_none(void **state) {
    (void)state;
    lull_ckpt_t *ranks[4];
    open_ranks(ranks, 4);
    for (uint64_t step = 1; step < 200; step++) {
        test_fill(rows, sizeof rows, step);
        for (uint32_t r = 4; r-- > 0;)
            assert_ok(save_part(ranks[r], step, r, 4));
        for (uint32_t r = 0; r < 4; r++)
            assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
        if (step % 50 == 1)
            assert_loads(step);
    }
    char path[300];
    snprintf(path, sizeof path, "%s/.lull", ckpt_room);
    assert_true(test_count(path, "") < 80); /* verdicts are forgotten */
    close_ranks(ranks, 4);
    assert_loads(199);
}

static void a_bad_descriptor_aborts_for_all(void **state) {
    (void)state;
    lull_ckpt_t *ranks[3];
    open_ranks(ranks, 3);
    for (uint32_t bad = 0; bad < 3; bad++) {
        for (uint32_t r = 0; r < 3; r++) {
            if (r == bad) {
                lull_ckpt_tensor_t tensor =
                    test_tensor("hole", LULL_U32, 3, NULL);
                lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
                save.step = bad;
                save.tensors = &tensor;
                save.tensor_count = 1;
                assert_fails(lull_ckpt_save(ranks[r], &save, NULL),
                             LULL_ERR_INVALID, "hole");
            } else {
                assert_ok(save_part(ranks[r], bad, r, 3));
            }
        }
        for (uint32_t r = 0; r < 3; r++)
            if (r != bad)
                assert_fails(
                    lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                    LULL_ERR_ABORTED, "hole");
            else /* reported by save itself */
                assert_ok(
                    lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
    }
    assert_int_equal(test_count(ckpt_room, "step-"), 0);
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(save_part(ranks[r], 9, r, 3));
    close_ranks(ranks, 3);
    assert_loads(9);
    assert_int_equal(test_count(ckpt_room, "."), 1);
}

static void tensors_that_are_not_whole_are_named(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    open_ranks(ranks, 2);
    /* Both save the first half; then each a different global shape. */
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(save_part(ranks[r], 1, 0, 2));
    for (uint32_t r = 0; r < 2; r++)
        assert_fails(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                     r ? LULL_ERR_ABORTED : LULL_ERR_MISMATCH, "'rows'");
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_tensor_t tensor = test_tensor("odd", LULL_U32, 4 + r, rows);
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.step = 2;
        save.tensors = &tensor;
        save.tensor_count = 1;
        assert_ok(lull_ckpt_save(ranks[r], &save, NULL));
    }
    for (uint32_t r = 0; r < 2; r++)
        assert_fails(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER),
                     r ? LULL_ERR_ABORTED : LULL_ERR_MISMATCH, "'odd'");
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(save_part(ranks[r], 3, r, 2));
    close_ranks(ranks, 2);
    assert_loads(3);
}

/* Nobody waits for notes in a directory that was deleted. */
static void a_deleted_directory_hangs_nobody(void **state) {
    (void)state;
    lull_ckpt_t *ranks[3];
    open_ranks(ranks, 3);
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(save_part(ranks[r], 1, r, 3));
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
    for (uint64_t step = 2; step < 5; step++) {
        if (step == 2)
            test_dir_drop(ckpt_room);
        for (uint32_t r = 3; r-- > 0;)
            assert_ok(save_part(ranks[r], step, r, 3));
        for (uint32_t r = 0; r < 3; r++) {
            lull_status_t status =
                lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER);
            assert_int_not_equal(status, LULL_OK);
        }
    }
    for (uint32_t r = 0; r < 3; r++) {
        assert_ok(lull_ckpt_close(ranks[r]));
        lull_ckpt_destroy(ranks[r]);
    }
    test_dir_make(ckpt_room); /* another of that kind, to be torn down */
}

static void a_rank_that_never_votes_hangs_nobody(void **state) {
    (void)state;
    lull_ckpt_t *ranks[3];
    open_ranks(ranks, 3);
    assert_ok(save_part(ranks[0], 1, 0, 3));
    assert_ok(save_part(ranks[1], 1, 1, 3));
    assert_ok(lull_ckpt_wait_durable(ranks[1], NULL, LULL_FOREVER));
    assert_given_up(ranks[0], "step 1: 1 of 3 ranks did not vote");
    assert_fails(lull_ckpt_wait_committed(ranks[1], NULL, LULL_FOREVER),
                 LULL_ERR_ABORTED, "rank 2");
    /* In rank 0's words; the step is named once. */
    assert_ptr_equal(strstr(lull_last_error(), "step 1: 1 of 3 ranks"),
                     lull_last_error());
    /* It comes late: its save is lost, the next is not. */
    assert_ok(save_part(ranks[2], 1, 2, 3));
    assert_fails(lull_ckpt_wait_committed(ranks[2], NULL, LULL_FOREVER),
                 LULL_ERR_ABORTED, "rank 2");
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(save_part(ranks[r], 2, r, 3));
    close_ranks(ranks, 3);
    assert_loads(2);
}

/* While rank 0 looks for votes the last one comes, and its time is over. */
static void vote_meanwhile(faultio_t *fault, fault_op_t op) {
    lull_ckpt_t *other = fault->hook_ctx;
    (void)op;
    assert_ok(save_part(other, 1, 1, 2));
    assert_ok(lull_ckpt_wait_durable(other, NULL, LULL_FOREVER));
    test_clock_speed(1e7);
    lull__sleep(0.001);
    test_clock_speed(1);
}

static void a_rank_that_was_stopped_looks_before_it_gives_up(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    faultio_t fault;
    faultio_init(&fault);
    fault.ops = FAULT_LIST;
    fault.hook = vote_meanwhile;
    lull__io_set_default(&fault.io);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 2);
    assert_ok(lull_ckpt_open(&options, &ranks[0]));
    lull__io_set_default(NULL);
    options.rank = 1;
    options.commit_timeout_s = 9e8;
    assert_ok(lull_ckpt_open(&options, &ranks[1]));
    fault.hook_ctx = ranks[1];
    /* It looks for votes, then for notes of who has failed. */
    faultio_arm(&fault, 2, 0);
    test_fill(rows, sizeof rows, 1);
    assert_ok(save_part(ranks[0], 1, 0, 2));
    assert_ok(lull_ckpt_wait_committed(ranks[0], NULL, LULL_FOREVER));
    assert_true(faultio_hit(&fault));
    close_ranks(ranks, 2);
    assert_loads(1);
}

static void rank_0_that_never_decides_leaves_the_outcome_unknown(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_options_t options = test_options(ckpt_room, r, 2);
        options.commit_timeout_s = 0.2;
        assert_ok(lull_ckpt_open(&options, &ranks[r]));
    }
    /* No directory ever: a plain failure. */
    assert_ok(save_part(ranks[1], 1, 1, 2));
    assert_fails(lull_ckpt_wait_committed(ranks[1], NULL, LULL_FOREVER),
                 LULL_ERR_TIMEOUT, "rank 0");
    /* A directory and no verdict: nobody here can know. */
    char path[300];
    snprintf(path, sizeof path, "mkdir '%s/.step-00000002.partial-run-1'",
             ckpt_room);
    assert_int_equal(system(path), 0);
    assert_ok(save_part(ranks[1], 2, 1, 2));
    assert_ok(lull_ckpt_wait_durable(ranks[1], NULL, LULL_FOREVER));
    assert_fails(lull_ckpt_wait_committed(ranks[1], NULL, LULL_FOREVER),
                 LULL_ERR_OUTCOME_UNKNOWN, "verdict");
    lull_ckpt_destroy(ranks[1]);
    lull_ckpt_destroy(ranks[0]);
}

static void until_destroyed(faultio_t *fault, fault_op_t op) {
    lull_ckpt_t *ckpt = fault->hook_ctx;
    (void)op;
    for (bool cancelled = false; !cancelled; lull__sleep(0.001)) {
        pthread_mutex_lock(&ckpt->lock);
        cancelled = ckpt->cancel;
        pthread_mutex_unlock(&ckpt->lock);
    }
}

static void destroying_tells_the_others(void **state) {
    (void)state;
    for (uint32_t gone = 0; gone < 2; gone++) {
        lull_ckpt_t *ranks[2];
        faultio_t fault;
        faultio_init(&fault);
        fault.ops = FAULT_WRITE;
        fault.hook = until_destroyed;
        for (uint32_t r = 0; r < 2; r++) {
            lull__io_set_default(r == gone ? &fault.io : NULL);
            lull_ckpt_options_t options = test_options(ckpt_room, r, 2);
            assert_ok(lull_ckpt_open(&options, &ranks[r]));
        }
        lull__io_set_default(NULL);
        fault.hook_ctx = ranks[gone];
        faultio_arm(&fault, 1, 0);
        for (uint32_t r = 0; r < 2; r++)
            assert_ok(save_part(ranks[r], 1, r, 2));
        lull_ckpt_destroy(ranks[gone]);
        lull_status_t status =
            lull_ckpt_wait_committed(ranks[1 - gone], NULL, LULL_FOREVER);
        assert_int_equal(status, LULL_ERR_ABORTED);
        lull_ckpt_destroy(ranks[1 - gone]);
        assert_int_equal(test_count(ckpt_room, "step-"), 0);
    }
}

/* Save `number` of step 1, of which only rank 0 takes part: rank 1's vote for
 * step 1 as it is there lies where its new one is awaited. */
static void offer_old_vote(lull_ckpt_t *ckpt, const char *run,
                           unsigned number) {
    char command[900];
    assert_ok(save_part(ckpt, 1, 0, 2));
    assert_ok(lull_ckpt_wait_durable(ckpt, NULL, LULL_FOREVER));
    snprintf(command, sizeof command,
             "cd '%s' && cp step-00000001/rank-00001.* . && "
             "mv rank-00001.safetensors rank-00001.json "
             ".step-00000001.partial-%s-%u/",
             ckpt_room, run, number);
    assert_int_equal(system(command), 0);
    assert_given_up(ckpt, "rank 1");
}

static void votes_of_other_saves_are_ignored(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    open_ranks(ranks, 2);
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(save_part(ranks[r], 1, r, 2));
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
    offer_old_vote(ranks[0], "run", 1);
    lull_ckpt_destroy(ranks[1]);
    lull_ckpt_destroy(ranks[0]);
    assert_loads(1);
}

/* The same save of the same step by the same ranks, but of an earlier run. */
static void votes_of_other_runs_are_ignored(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    open_ranks(ranks, 2);
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(save_part(ranks[r], 1, r, 2));
    close_ranks(ranks, 2);
    lull_ckpt_options_t options = test_options(ckpt_room, 0, 2);
    options.run_id = "later";
    options.commit_timeout_s = TEST_CLOCK_TIMEOUT;
    assert_ok(lull_ckpt_open(&options, &ranks[0]));
    offer_old_vote(ranks[0], "later", 0);
    lull_ckpt_destroy(ranks[0]);
    assert_loads(1);
}

/* Save `number` of step 1, of which ranks 0 and 2 take part: rank 1's vote of
 * save 0, made one of this save and edited by `how`, comes in its place. */
static void offer_vote(lull_ckpt_t **ranks, unsigned number, const char *how) {
    char command[1200];
    for (uint32_t r = 0; r < 3; r += 2) {
        assert_ok(save_part(ranks[r], 1, r, 3));
        assert_ok(lull_ckpt_wait_durable(ranks[r], NULL, LULL_FOREVER));
    }
    snprintf(command, sizeof command,
             "cd '%s' && cp step-00000001/rank-0000* . && "
             "sed -i 's/\"save\":0/\"save\":%u/' *.json && %s && "
             "mv rank-00001.safetensors rank-00001.json "
             ".step-00000001.partial-run-%u/ && rm rank-0000*",
             ckpt_room, number, how, number);
    assert_int_equal(system(command), 0);
}

#define EDIT(what) "sed -i '" what "' rank-00001.json"

static void votes_that_are_not_of_this_save_are_ignored(void **state) {
    (void)state;
    static const char *const edits[] = {
        EDIT("s/\"run\":\"run\"/\"run\":\"ran\"/"),
        EDIT("s/\"save\":[0-9]*/\"save\":0/"),
        EDIT("s/\"step\":1/\"step\":2/"),
        EDIT("s/\"world\":3/\"world\":2/"),
        EDIT("s/\"world\":3/\"world\":4/"),
        /* That of rank 0 once more. */
        "cp rank-00000.json rank-00001.json",
        /* One for ranks 1 and 2, as merged files have. */
        EDIT("s/\"rank\":1/&,\"ranks\":2/; "
             "s/\"times_us\":\\({[^}]*}\\)/\"times_us\":[\\1,\\1]/"),
    };
    const unsigned count = sizeof edits / sizeof *edits;
    lull_ckpt_t *ranks[3];
    open_ranks(ranks, 3);
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(save_part(ranks[r], 1, r, 3));
    for (uint32_t r = 0; r < 3; r++)
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
    lull_ckpt_destroy(ranks[1]);
    for (unsigned i = 0; i < count; i++) {
        offer_vote(ranks, i + 1, edits[i]);
        assert_given_up(ranks[0], "1 of 3 ranks did not vote");
        assert_fails(lull_ckpt_wait_committed(ranks[2], NULL, LULL_FOREVER),
                     LULL_ERR_ABORTED, "the first is rank 1");
        assert_loads(1);
    }
    /* What no rank of this world can have written ends it at once. */
    offer_vote(ranks, count + 1, EDIT("s/\"rank\":1/\"rank\":3/"));
    assert_fails(lull_ckpt_wait_committed(ranks[0], NULL, LULL_FOREVER),
                 LULL_ERR_CORRUPT, "rank-00001.json: vote: a bad rank");
    assert_fails(lull_ckpt_wait_committed(ranks[2], NULL, LULL_FOREVER),
                 LULL_ERR_ABORTED, "a bad rank");
    /* The right one counts, also beside one of a rank that there is not. */
    offer_vote(ranks, count + 2,
               "for dir in .step-00000001.partial-*; do "
               "cp rank-00001.json $dir/rank-00007.json; done");
    for (uint32_t r = 0; r < 3; r += 2) {
        assert_ok(lull_ckpt_wait_committed(ranks[r], NULL, LULL_FOREVER));
        lull_ckpt_destroy(ranks[r]);
    }
    assert_loads(1);
}

/* Rank 0 has looked for votes since. */
static void await_look(faultio_t *fault) {
    uint64_t seen = __atomic_load_n(&fault->calls, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&fault->calls, __ATOMIC_SEQ_CST) < seen + 4)
        lull__sleep(0.001);
}

/* It is there again, as it was, after rank 0 has seen it. */
static void a_vote_that_comes_twice_counts_once(void **state) {
    (void)state;
    lull_ckpt_t *ranks[3];
    char command[900];
    faultio_t fault;
    faultio_init(&fault);
    fault.ops = FAULT_LIST;
    lull__io_set_default(&fault.io);
    open_ranks(ranks, 3);
    lull__io_set_default(NULL);
    for (uint32_t r = 0; r < 2; r++)
        assert_ok(save_part(ranks[r], 1, r, 3));
    assert_ok(lull_ckpt_wait_durable(ranks[1], NULL, LULL_FOREVER));
    await_look(&fault);
    snprintf(command, sizeof command,
             "cd '%s'/.step-00000001.partial-run-0 && "
             "cp rank-00001.json again && mv again rank-00001.json",
             ckpt_room);
    assert_int_equal(system(command), 0);
    await_look(&fault);
    assert_ok(save_part(ranks[2], 1, 2, 3));
    close_ranks(ranks, 3);
    assert_loads(1);
}

typedef struct opener {
    uint32_t rank, world;
    lull_ckpt_t *ckpt;
    lull_status_t status;
    pthread_t thread;
} opener_t;

static void *open_without_id(void *arg) {
    opener_t *opener = arg;
    lull_ckpt_options_t options =
        test_options(ckpt_room, opener->rank, opener->world);
    options.run_id = NULL;
    if (opener->rank == 0)
        lull__sleep(0.01);
    opener->status = lull_ckpt_open(&options, &opener->ckpt);
    return NULL;
}

static void ranks_agree_on_a_run_id(void **state) {
    (void)state;
    enum { WORLD = 5 };
    char path[300];
    /* What a launch that crashed while it agreed has left. */
    snprintf(path, sizeof path, "%s/.lull", ckpt_room);
    char command[1600];
    snprintf(command, sizeof command,
             "mkdir '%s'; touch '%s/hello-1-0123456789abcdef' "
             "'%s/joined-old-1' '%s/hello-9-0123456789abcdef'",
             path, path, path, path);
    assert_int_equal(system(command), 0);
    for (int again = 0; again < 2; again++) {
        opener_t openers[WORLD];
        for (uint32_t r = 0; r < WORLD; r++) {
            openers[r] = (opener_t){.rank = r, .world = WORLD};
            pthread_create(&openers[r].thread, NULL, open_without_id,
                           &openers[r]);
        }
        lull_ckpt_t *ranks[WORLD];
        for (uint32_t r = 0; r < WORLD; r++) {
            pthread_join(openers[r].thread, NULL);
            assert_int_equal(openers[r].status, LULL_OK);
            ranks[r] = openers[r].ckpt;
        }
        test_fill(rows, sizeof rows, 3);
        for (uint32_t r = 0; r < WORLD; r++)
            assert_ok(save_part(ranks[r], 3, r, WORLD));
        close_ranks(ranks, WORLD);
        assert_loads(3);
        assert_int_equal(test_count(path, "hello"), 0);
        assert_int_equal(test_count(path, "reply"), 0);
        assert_int_equal(test_count(path, "joined"), 0);
    }
}

static void no_agreement_times_out(void **state) {
    (void)state;
    lull_ckpt_t *ckpt;
    for (uint32_t r = 0; r < 2; r++) {
        lull_ckpt_options_t options = test_options(ckpt_room, 1 - r, 2);
        options.run_id = NULL;
        options.commit_timeout_s = 0.1;
        assert_fails(lull_ckpt_open(&options, &ckpt), LULL_ERR_TIMEOUT,
                     r ? "rank 1" : "rank 0");
    }
}

/* A killed run leaves its spare files. */
static void spares_of_other_runs_go(void **state) {
    (void)state;
    lull_ckpt_t *ranks[2];
    char path[300];
    open_ranks(ranks, 2);
    snprintf(path, sizeof path, "%s/.lull/spare-killed-run-3", ckpt_room);
    test_spit(path, "0", 1);
    snprintf(path, sizeof path, "%s/.lull", ckpt_room);
    unsigned own = test_count(path, "spare-") - 1;
    close_ranks(ranks, 2);
    open_ranks(ranks, 2);
    assert_int_equal(test_count(path, "spare-killed"), 0);
    assert_int_equal(test_count(path, "spare-"), own);
    close_ranks(ranks, 2);
    assert_int_equal(test_count(path, "spare-"), 0);
}

/* Replicas: every element is written once, by whom all agree, and the load is
 * even. */
static void replicas_share_the_writing(void **state) {
    (void)state;
    enum { WORLD = 3, SMALL = 40 };
    static float big[700][333];
    static float small[SMALL][10];
    lull_ckpt_t *ranks[WORLD];
    test_fill(big, sizeof big, 1);
    test_fill(small, sizeof small, 2);
    open_ranks(ranks, WORLD);
    char names[SMALL][16];
    for (uint32_t r = 0; r < WORLD; r++) {
        lull_ckpt_tensor_t tensors[SMALL + 2];
        tensors[0] = test_tensor("big", LULL_F32, 700, big);
        tensors[0].ndim = 2;
        tensors[0].global_shape[1] = tensors[0].shape[1] = 333;
        tensors[SMALL + 1] = test_tensor("tied", LULL_F32, 0, NULL);
        tensors[SMALL + 1].alias_of = "big";
        for (int i = 0; i < SMALL; i++) {
            sprintf(names[i], "small.%d", i);
            tensors[i + 1] = test_tensor(names[i], LULL_F32, 10, small[i]);
        }
        for (int i = 0; i < SMALL + 2; i++) {
            tensors[i].replica = r;
            tensors[i].replicas = WORLD;
        }
        lull_ckpt_save_t save = LULL_CKPT_SAVE_INIT;
        save.tensors = tensors;
        save.tensor_count = SMALL + 2;
        assert_ok(lull_ckpt_save(ranks[r], &save, NULL));
    }
    close_ranks(ranks, WORLD);
    lull_ckpt_info_t *info;
    assert_ok(lull_ckpt_info_open(ckpt_room,
                                  (lull_ckpt_id_t){LULL_LATEST, 0, 0}, &info));
    lull_ckpt_file_info_t file;
    for (size_t i = 0; lull_ckpt_info_file_at(info, i, &file); i++)
        assert_in_range(file.bytes, sizeof big / WORLD,
                        sizeof big / WORLD + 16384);
    static float back[700][333], back_small[SMALL][10];
    lull_ckpt_slice_t slices[SMALL + 1];
    for (int i = 0; i < SMALL + 1; i++) {
        slices[i] = (lull_ckpt_slice_t)LULL_CKPT_SLICE_INIT;
        slices[i].name = i ? names[i - 1] : "tied";
        slices[i].dtype = LULL_F32;
        slices[i].ndim = i ? 1 : 2;
        slices[i].global_shape[0] = slices[i].shape[0] = i ? 10 : 700;
        slices[i].global_shape[1] = slices[i].shape[1] = i ? 0 : 333;
        slices[i].data = i ? (void *)back_small[i - 1] : (void *)back;
    }
    lull_ckpt_load_options_t load = LULL_CKPT_LOAD_OPTIONS_INIT;
    assert_ok(lull_ckpt_load(info, slices, SMALL + 1, &load));
    assert_memory_equal(back, big, sizeof big);
    assert_memory_equal(back_small, small, sizeof small);
    lull_ckpt_info_destroy(info);
}

static void any_layout_to_any_layout(void **state) {
    (void)state;
    uint64_t random = test_seed();
    for (int round = 0; round < 25; round++) {
        grid_t grid, other;
        uint16_t *whole = grid_random(&grid, &other, &random);
        lull_ckpt_t *ranks[4];
        uint32_t world = 1 + (uint32_t)(test_random(&random) % 4);
        open_ranks(ranks, world);
        grid_save(&grid, whole, ranks, world);
        close_ranks(ranks, world);
        grid_load(&other, whole, ckpt_room);
        free(whole);
    }
}

int main(void) {
#define TEST(name) \
    cmocka_unit_test_setup_teardown(name, ckpt_room_make, ckpt_room_drop)
    const struct CMUnitTest tests[] = {
        TEST(all_commit_or_none),
        TEST(a_bad_descriptor_aborts_for_all),
        TEST(tensors_that_are_not_whole_are_named),
        TEST(a_deleted_directory_hangs_nobody),
        TEST(a_rank_that_never_votes_hangs_nobody),
        TEST(a_rank_that_was_stopped_looks_before_it_gives_up),
        TEST(rank_0_that_never_decides_leaves_the_outcome_unknown),
        TEST(destroying_tells_the_others),
        TEST(votes_of_other_saves_are_ignored),
        TEST(votes_of_other_runs_are_ignored),
        TEST(votes_that_are_not_of_this_save_are_ignored),
        TEST(a_vote_that_comes_twice_counts_once),
        TEST(ranks_agree_on_a_run_id),
        TEST(no_agreement_times_out),
        TEST(spares_of_other_runs_go),
        TEST(replicas_share_the_writing),
        TEST(any_layout_to_any_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
