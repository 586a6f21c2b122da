/* The table of devices, and opening one by name. */
#include "device.h"

#include <string.h>

#include "base/error.h"

static const lull__device_row_t table[] = {
    {"host", lull__device_open_host},
};

lull_status_t lull_device_open(const char *name, lull_device_t **out) {
    if (name == NULL || out == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_device_open: %s is NULL",
                          name ? "out" : "name");
    size_t n = strcspn(name, ":");
    const char *rest = name[n] == ':' ? name + n + 1 : name + n;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].name) == n && memcmp(table[i].name, name, n) == 0)
            return table[i].open(rest, out);
    return lull__fail(LULL_ERR_NOT_FOUND, "no device is named '%.40s'", name);
}

void lull_device_destroy(lull_device_t *device) {
    if (device != NULL && device->destroy != NULL)
        device->destroy(device);
}

const char *lull_device_name(const lull_device_t *device) {
    return device ? device->name : "";
}
