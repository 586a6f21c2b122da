/* What lull-train says of its own options, on stdout. */
#ifndef TRAIN_MANUAL_H
#define TRAIN_MANUAL_H

/* --help. */
void manual_help(void);

/* --table, for the build: lines of fields with tabs between them. */
void manual_table(void);

#endif
