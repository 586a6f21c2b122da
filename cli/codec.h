/* What the parts of `lull codec` share. */
#ifndef CLI_CODEC_H
#define CLI_CODEC_H

#include "cli.h"

/* Options of the command line; NULL or 0 where not given. */
typedef struct codec_options {
    const char *codec, *dtype, *tensor;
    uint64_t count;
    bool bare, truncate, force, no_checksum, json;
} codec_options_t;

/* The three actions; each returns an exit status, having said why. */
int codec_encode(const codec_options_t *options, const char *in,
                 const char *out);
int codec_decode(const codec_options_t *options, const char *in,
                 const char *out);
int codec_compare(const codec_options_t *options, int count, char **files);

/* A file that is read or written; messages name it. */
typedef struct file {
    const char *path;
    FILE *stream;
    char *temp;     /* the name until file_finish(); NULL: written in place */
    uint64_t bytes; /* of a file that is read */
} file_t;

/* Exit statuses, having said why. A file opened for reading must be a regular
 * one; one that is written has another name until file_finish(), or is
 * written in place where it is a device or a pipe; never the one at `in`. */
int file_read(const char *path, file_t *out);
int file_create(const char *path, const char *in, file_t *out);
int file_get(file_t *file, void *data, size_t bytes);
int file_put(file_t *file, const void *data, size_t bytes);
/* Gives a written file its name if all went well (`code` is CLI_OK), else
 * removes it; returns the status to go on with. */
int file_finish(file_t *file, int code);
void file_close(file_t *file);

#endif
