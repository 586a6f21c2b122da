/* Compressed MPI communication: a codec for each parallel role.
 *
 * Source of the method: Xu et al., "Accelerating Large Language Model Training
 * with Hybrid GPU-based Compression", CCGRID 2024. This is the only public
 * header that includes <mpi.h>; it belongs to liblull_mpi.
 *
 * All calls except send, recv, sendrecv and their nonblocking forms are
 * collective over the communicator and must be made in the same order by all
 * its ranks. Counts are elements (size_t, beyond 2^31 is fine). Buffers are
 * host memory, need no alignment beyond one byte, and must not overlap.
 * A zero count may come with NULL buffers. Every call needs MPI to be
 * initialised and not finalised. Threads: as MPI's own thread level allows;
 * one communicator from one thread at a time. */
#ifndef LULL_COMM_H
#define LULL_COMM_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dtype.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lull_comm lull_comm_t;
typedef struct lull_request lull_request_t;

/* What a communicator carries. X(name, value, text) */
#define LULL_ROLE_TABLE(X)                                                \
    X(DP, 0, "dp")       /* gradients over data-parallel replicas */      \
    X(TP, 1, "tp")       /* activations and their gradients in a layer */ \
    X(PP, 2, "pp")       /* the same between pipeline stages */           \
    X(PARAM, 3, "param") /* parameters of a sharded optimizer */          \
    X(OTHER, 4, "other") /* loss, norms, flags: never compressed */

typedef enum lull_role {
#define LULL_ROLE_ENUM_(name, value, text) LULL_ROLE_##name = (value),
    LULL_ROLE_TABLE(LULL_ROLE_ENUM_)
#undef LULL_ROLE_ENUM_
        LULL_ROLE_COUNT = 5
} lull_role_t;

/* "dp", "tp", "pp", "param", "other"; NULL for a value that is none. */
LULL_API const char *lull_role_name(lull_role_t role);

typedef enum lull_op {
    LULL_SUM = 0,
    LULL_AVG = 1, /* the sum divided by the number of ranks; floats only */
    LULL_MIN = 2,
    LULL_MAX = 3
} lull_op_t;

/* As `send`: the data are in `recv` already (for allgather and
 * reduce_scatter as MPI_IN_PLACE has it). */
LULL_API extern const char lull__in_place;
#define LULL_IN_PLACE ((const void *)&lull__in_place)

/* Most bytes of a canonical policy string with its NUL. */
#define LULL_POLICY_MAX 4096

/* Checks a policy string without a communicator, for command lines.
 * LULL_ERR_INVALID: the sentence shows the string and points at the
 * character. */
LULL_API lull_status_t lull_policy_check(const char *policy);

/* A policy is "none" (MPI's own calls), a codec for all roles ("mpc",
 * "zfp:8", "bf16", "mxint8", "expo", "raw"; parameters then travel raw if it is
 * lossy), a preset ("mzhybrid[:R]": dp zfp:R (8), else mpc;
 * "zhybrid[:RM[,RD]]": tp and pp zfp:RM (16), dp zfp:RD (8), param raw;
 * "mxhybrid": dp mxint8, tp and pp bf16, param raw), or
 * keys: "dp=zfp:8;tp=mpc;pp=mpc;param=mpc". Further keys: min=BYTES (default
 * 16384: smaller collectives go to MPI's own call, smaller messages raw). Keys
 * may follow a codec or preset: "mpc;min=0". A zfp rate at or above a type's
 * bits means raw. What a codec does not carry goes to MPI, or raw. Lossy codecs
 * carry sums, averages and messages between two ranks, nothing else.
 *
 * By size and dtype: "dp=none,64KiB:mpc,1MiB/bf16:expo": entries
 * [BYTES[/DTYPE]:]CODEC, of which the last that fits a message decides, none
 * if none does. The size is that of the whole vector: count values, of a
 * reduce-scatter or all-gather size · count.
 *
 * "auto[:CODEC,...]", for all roles or as in "dp=auto:zfp:8": measured when a
 * communicator is made; see lull_comm_policy(). Candidates are MPI's own call,
 * lossless codecs, and what is listed; only those lose anything.
 *
 * hier=1: all-reduces of f32 and f64 sum raw inside a host and are coded
 * between hosts only; other calls and dtypes stay flat, which is counted
 * (LULL_BYPASS_HIER). check=1: each collective first compares what the ranks
 * called and names those that differ; also a nonblocking one then waits until
 * all have begun it. For finding faults: it costs a round of messages. */

/* Is the policy of this role to be measured (false where it is malformed)? */
LULL_API bool lull_policy_is_auto(const char *policy, lull_role_t role);

/* The canonical string of a policy with other rules for one role, as in
 * "none,65536:zfp:8", into out[capacity]; LULL_POLICY_MAX bytes suffice. What
 * was measured on one communicator becomes the policy of all so. LULL_ERR_
 * INVALID, as lull_policy_check() or an argument; LULL_ERR_CAPACITY. */
LULL_API lull_status_t lull_policy_replace(const char *policy, lull_role_t role,
                                           const char *rules, char *out,
                                           size_t capacity);

/* Wraps a private duplicate of `comm` (intracommunicators only) for one role
 * under a policy; collective, also when one rank's string is malformed. The
 * policy is copied; NULL is "none". The ranks compare version and policy once,
 * whatever its spelling (zfp:8.0 is zfp:8).
 * LULL_ERR_INVALID: malformed, here or on a named rank. LULL_ERR_MISMATCH:
 * the ranks differ, which is named. LULL_ERR_UNSUPPORTED: an
 * intercommunicator, or a codec or key that this build does not have.
 * LULL_ERR_MPI, LULL_ERR_NO_MEMORY, LULL_ERR_STATE (MPI is not up). */
LULL_API lull_status_t lull_comm_create(MPI_Comm comm, lull_role_t role,
                                        const char *policy, lull_comm_t **out);

/* Completes what is outstanding on it (the requests can still be waited for),
 * then frees it and its duplicate; collective: with a codec or check=1 it waits
 * for the other ranks, up to 10 s (what ranks tell each other may be on its
 * way; after that a duplicate is left to MPI). NULL is harmless, and so is one
 * that was destroyed before. MPI_Finalize frees the duplicates of those that
 * were forgotten: destroy them afterwards or not. */
LULL_API void lull_comm_destroy(lull_comm_t *comm);

LULL_API int lull_comm_rank(const lull_comm_t *comm);
LULL_API int lull_comm_size(const lull_comm_t *comm);
LULL_API lull_role_t lull_comm_role(const lull_comm_t *comm);
/* The resolved policy of this role, as in "zfp:8", "none" or
 * "none,65536/f32:mpc"; owned by comm. Of "auto" it is what was measured here,
 * with the calls that such a role makes: all-reduce and reduce-scatter (dp),
 * all-reduce (tp), messages both ways (pp), all-gather (param), of f32 and
 * bf16; other dtypes travel as under none. Communicators that must agree, as
 * those of replicas over tensor-parallel ranks, should not measure each for
 * itself: measure on one, then give all the same string (lull_policy_replace).
 */
LULL_API const char *lull_comm_policy(const lull_comm_t *comm);

/* dtypes of all calls: F32, F64, F16, BF16, I32, I64, U8. 16-bit floats are
 * summed in float32. Sums go in rank order: the result is the same bits on
 * every rank, whatever the timing. (Under `none` MPI's own call decides the
 * order; 16-bit floats, which MPI does not have, go through lull.)
 * AVG is finite where the true average is: values are scaled by a power of two
 * before the sum.
 * Errors of every call: LULL_ERR_INVALID: an argument, named; LULL_ERR_
 * UNSUPPORTED: dtype or op; LULL_ERR_MISMATCH: ranks' arguments differ;
 * LULL_ERR_PEER: a rank failed, named; LULL_ERR_MPI; LULL_ERR_NO_MEMORY;
 * LULL_ERR_STATE: the communicator was destroyed or is of no use any more, or
 * MPI finalised. After an error the receive buffer holds nothing of use. An
 * error of MPI is a status as well: error handlers of the user's communicator
 * are not called, so one that aborts does not.
 *
 * A failure is told to the peers with the messages that the call still owes
 * them. What a rank finds in the last messages that it receives of a call (of
 * an all-reduce: results that arrive damaged) it alone returns: to tell it
 * would cost every call one more round.
 *
 * Ranks that call different collectives, or one with other arguments, are
 * found from the messages at once where lull's own algorithm runs on both
 * sides. Where it does not (one's size is below min=, a bcast has two roots or
 * meets another call) a rank that has waited for 10 s (setting doubt-ms) tells
 * the others what it waits in, and all that learn of the difference return
 * LULL_ERR_MISMATCH. Nobody gives up for waiting long alone. After that the
 * communicator is of no use; MPI may still write to buffers of calls that were
 * under way on it.
 *
 * Not found so, but with check=1: what MPI carries on both sides and ends with
 * nobody waiting, as small bcasts of two roots, or small reductions of two
 * counts or ops; ranks that are more than 256 collectives apart; and anything
 * under a policy that is none for every role, where MPI alone decides. */

/* recv[i] = op over ranks of send[i]; count elements each. */
LULL_API lull_status_t lull_allreduce(const void *send, void *recv,
                                      size_t count, lull_dtype_t dtype,
                                      lull_op_t op, lull_comm_t *comm);
/* send: size · count elements, recv: count, the part of this rank. In place:
 * the whole input is in recv, the result is at its start. */
LULL_API lull_status_t lull_reduce_scatter_block(const void *send, void *recv,
                                                 size_t count,
                                                 lull_dtype_t dtype,
                                                 lull_op_t op,
                                                 lull_comm_t *comm);
/* send: count elements, recv: size · count in rank order. In place: the
 * input is at recv + rank · count. */
LULL_API lull_status_t lull_allgather(const void *send, void *recv,
                                      size_t count, lull_dtype_t dtype,
                                      lull_comm_t *comm);
LULL_API lull_status_t lull_bcast(void *buffer, size_t count,
                                  lull_dtype_t dtype, int root,
                                  lull_comm_t *comm);
LULL_API lull_status_t lull_barrier(lull_comm_t *comm);

/* Point to point: messages between two ranks of one communicator with one tag
 * arrive in the order sent. Counts of both sides must agree. MPI_ANY_SOURCE
 * and MPI_ANY_TAG are refused; MPI_PROC_NULL is allowed. tag: 0 to 32767. */
LULL_API lull_status_t lull_send(const void *buffer, size_t count,
                                 lull_dtype_t dtype, int dest, int tag,
                                 lull_comm_t *comm);
LULL_API lull_status_t lull_recv(void *buffer, size_t count, lull_dtype_t dtype,
                                 int source, int tag, lull_comm_t *comm);

/* One side of a sendrecv. */
typedef struct lull_message {
    void *buffer; /* read only where it is sent */
    size_t count;
    lull_dtype_t dtype;
    int peer, tag;
} lull_message_t;
LULL_API lull_status_t lull_sendrecv(const lull_message_t *send,
                                     const lull_message_t *recv,
                                     lull_comm_t *comm);

/* Nonblocking forms: buffers belong to the library until wait or test
 * completes the request. Progress is made by every lull call that waits and by
 * lull_comm_progress(); there is no progress thread. One exception: a blocking
 * collective on a communicator whose policy is none for every role is MPI's
 * own blocking call, which moves nothing of lull on. Give all communicators of
 * a program the same policy string. */
LULL_API lull_status_t lull_iallreduce(const void *send, void *recv,
                                       size_t count, lull_dtype_t dtype,
                                       lull_op_t op, lull_comm_t *comm,
                                       lull_request_t **request);
LULL_API lull_status_t lull_ireduce_scatter_block(
    const void *send, void *recv, size_t count, lull_dtype_t dtype,
    lull_op_t op, lull_comm_t *comm, lull_request_t **request);
LULL_API lull_status_t lull_iallgather(const void *send, void *recv,
                                       size_t count, lull_dtype_t dtype,
                                       lull_comm_t *comm,
                                       lull_request_t **request);
LULL_API lull_status_t lull_isend(const void *buffer, size_t count,
                                  lull_dtype_t dtype, int dest, int tag,
                                  lull_comm_t *comm, lull_request_t **request);
LULL_API lull_status_t lull_irecv(void *buffer, size_t count,
                                  lull_dtype_t dtype, int source, int tag,
                                  lull_comm_t *comm, lull_request_t **request);

/* Completes a request, frees it and sets *request to NULL; NULL requests are
 * complete. The status is the operation's own. */
LULL_API lull_status_t lull_wait(lull_request_t **request);
LULL_API lull_status_t lull_waitall(size_t count, lull_request_t **requests);
/* *done tells whether it was complete; then as lull_wait. */
LULL_API lull_status_t lull_test(lull_request_t **request, int *done);

/* Moves every outstanding lull request of the process on, for at most about a
 * millisecond. Call it between pieces of computation. */
LULL_API lull_status_t lull_comm_progress(void);

/* Why a call went to MPI's own. X(name, text) */
#define LULL_BYPASS_TABLE(X)                                          \
    X(POLICY, "policy") /* none, or role other */                     \
    X(SMALL, "small")   /* below min= */                              \
    X(DTYPE, "dtype")   /* the codec cannot carry it */               \
    X(OP, "op")         /* MIN, MAX, or a lossy codec on a non-sum */ \
    X(SINGLE, "single") /* one rank */                                \
    X(HIER, "hier")     /* coded, but flat in spite of hier=1 */

enum {
#define LULL_BYPASS_ENUM_(name, text) LULL_BYPASS_##name,
    LULL_BYPASS_TABLE(LULL_BYPASS_ENUM_)
#undef LULL_BYPASS_ENUM_
        LULL_BYPASS_COUNT
};

/* Counters of this rank since creation. For collectives `bytes` are what a
 * rank hands to a bandwidth-optimal algorithm without compression and
 * `wire_bytes` what it sent instead: all-reduce 2 (P-1)/P n, reduce-scatter
 * and all-gather (P-1)/P of the whole n, bcast n at the root, sends n. */
typedef struct lull_comm_stats {
    size_t size; /* sizeof, set by the caller */
    uint64_t calls, bytes, wire_bytes;
    double total_s;                    /* inside lull's calls and waits */
    double encode_s, wait_s, decode_s; /* of it */
    double rel_l2; /* sampled relative error of lossy coding; 0: none */
    uint64_t bypasses[LULL_BYPASS_COUNT];
} lull_comm_stats_t;

LULL_API lull_status_t lull_comm_stats(const lull_comm_t *comm,
                                       lull_comm_stats_t *out);
/* The same as one JSON object, NUL-terminated, into text[capacity]; *needed
 * (may be NULL) is its length with the NUL. LULL_ERR_CAPACITY: too small,
 * *needed is set. */
LULL_API lull_status_t lull_comm_stats_json(const lull_comm_t *comm, char *text,
                                            size_t capacity, size_t *needed);

/* ---- Checkpoints on disks of nodes -------------------------------------- */

/* Messages of the `agree` callback of lull_ckpt_open() (agree.h) over MPI:
 *
 *     lull_peers_create(MPI_COMM_WORLD, &peers);
 *     options.agree = lull_peers_agree;
 *     options.agree_ctx = peers;
 *
 * For one engine of each rank of `comm`, with its rank and size. Waits sleep
 * between looks. Destroy it after the engine; both create and destroy are
 * collective and wait for all ranks, whatever became of their saves. */
struct lull_ckpt_agree;
typedef struct lull_peers lull_peers_t;

/* Works on a private duplicate. LULL_ERR_UNSUPPORTED: MPI was not initialised
 * with MPI_THREAD_MULTIPLE. LULL_ERR_INVALID, LULL_ERR_MPI,
 * LULL_ERR_NO_MEMORY, LULL_ERR_STATE. */
LULL_API lull_status_t lull_peers_create(MPI_Comm comm, lull_peers_t **out);
/* The callback; ctx: the peers. */
LULL_API lull_status_t lull_peers_agree(void *ctx,
                                        const struct lull_ckpt_agree *call);
/* NULL is harmless. */
LULL_API void lull_peers_destroy(lull_peers_t *peers);

#ifdef __cplusplus
}
#endif

#endif
