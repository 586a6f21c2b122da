/* The directory that `lull export` makes, and the small files in it. */
#ifndef CLI_EXPORT_H
#define CLI_EXPORT_H

#include "cli.h"

/* Made under a temporary name beside its own. */
typedef struct export_dir {
    char *path, *temp;
    bool made, published;
} export_dir_t;

/* All return an exit status, having said why. */
int export_open(export_dir_t *dir, const char *path);
/* Syncs and gives it its name, never over something. */
int export_publish(export_dir_t *dir);
/* Removes what was not published. */
void export_close(export_dir_t *dir);

/* Path of a file in it, malloc'ed. */
char *export_path(const export_dir_t *dir, const char *name);
/* A text file in it; NULL: failed, and said why. */
FILE *export_begin(const export_dir_t *dir, const char *name);
/* Syncs and closes it. */
int export_end(const export_dir_t *dir, const char *name, FILE *file);

/* config.json of the metadata "model.KEY", if there is any. */
int export_config(const export_dir_t *dir, const lull_ckpt_info_t *info);
/* tokenizer.json and tokenizer_config.json where the vocabulary is the 256
 * bytes. */
int export_tokenizer(const export_dir_t *dir, const lull_ckpt_info_t *info);
int export_readme(const export_dir_t *dir, const lull_ckpt_info_t *info,
                  const char *from);

#endif
