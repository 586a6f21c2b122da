/* Arrays that grow. */
#include "grow.h"

#include <stdlib.h>

#include "base/error.h"

lull_status_t lull__grow(void **array, size_t count, size_t *room,
                         size_t size) {
    if (count < *room)
        return LULL_OK;
    size_t wanted = *room < 8 ? 8 : *room + *room / 2;
    void *grown = reallocarray(*array, wanted, size);
    if (grown == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "an array of %zu elements",
                          wanted);
    *array = grown;
    *room = wanted;
    return LULL_OK;
}
