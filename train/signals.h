/* SIGTERM and SIGUSR1: finish the step, checkpoint, exit 0. */
#ifndef TRAIN_SIGNALS_H
#define TRAIN_SIGNALS_H

/* Takes both signals; call it after MPI_Init, which may set its own. */
void signals_catch(void);

/* The first signal that came to this rank, 0: none yet. */
int signals_caught(void);

#endif
