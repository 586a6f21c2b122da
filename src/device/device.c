/* The table of devices, and opening one by name. */
#include "device.h"

#include <string.h>

#include "base/error.h"

static const lull__device_row_t table[] = {
    {"host", lull__device_open_host, lull__device_list_host},
    {"cuda", lull__device_open_cuda, lull__device_list_cuda},
    {"sim", lull__device_open_sim, lull__device_list_sim},
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

lull_status_t lull_device_at(unsigned index, lull_device_info_t *out) {
    if (out == NULL || out->size < sizeof *out)
        return lull__fail(LULL_ERR_INVALID, "lull_device_at: out is %s",
                          out ? "of another size" : "NULL");
    unsigned before = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lull_device_info_t info = {.size = out->size};
        unsigned count = 0;
        lull_status_t status;
        while ((status = table[i].list(count, &info)) == LULL_OK) {
            if (before + count++ == index) {
                *out = info;
                return LULL_OK;
            }
            info = (lull_device_info_t){.size = out->size};
        }
        if (status != LULL_ERR_NOT_FOUND)
            return status;
        before += count;
    }
    return lull__fail(LULL_ERR_NOT_FOUND, "there is no device %u", index);
}
