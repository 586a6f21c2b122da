/* What makes a run the run it is, as a checkpoint's metadata: "model.KEY" as
 * Hugging Face's config.json has KEY, "run.OPTION" for each option that
 * resuming looks at, and which text was learnt. */
#ifndef TRAIN_IDENTITY_H
#define TRAIN_IDENTITY_H

#include <lull/ckpt.h>

#include "data.h"
#include "groups.h"
#include "options.h"

typedef struct identity {
    lull_ckpt_meta_t *meta; /* keys and values are owned */
    size_t count;
} identity_t;

/* `asked`: options as given or adopted, before anything was chosen for the
 * user, so that a resumed run chooses anew for its layout. */
lull_status_t identity_make(const options_t *asked, const groups_t *groups,
                            const data_t *data, identity_t *out);
void identity_free(identity_t *identity);

/* Sets the options that were not given from a checkpoint's metadata, and
 * refuses, by name, those given that it does not allow. `where` names the
 * checkpoint in messages. LULL_ERR_MISMATCH. */
lull_status_t identity_adopt(const lull_ckpt_info_t *info, const char *where,
                             int world, options_t *options);

/* Refuses a text that is not the one the checkpoint learnt. */
lull_status_t identity_check_data(const lull_ckpt_info_t *info,
                                  const char *where, const options_t *options);

#endif
