/* SIGTERM and SIGUSR1: finish the step, checkpoint, exit 0. */
#ifndef TRAIN_SIGNALS_H
#define TRAIN_SIGNALS_H

/* Holds both signals back, in this thread and in those it starts later: call
 * it before MPI is initialised. Nothing is ever interrupted by them: the loop
 * asks. (A handler's frame would be written below the stack pointer of
 * whatever runs, and generated code of matrix products does not always leave
 * that place free.) */
void signals_hold(void);

/* The first signal that came to this rank, 0: none yet. */
int signals_caught(void);

#endif
