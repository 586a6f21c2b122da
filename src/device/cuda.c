/* CUDA devices: finding them, opening one, and calling into its context. */
#include "cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "numa.h"

bool lull__cuda_forked(const lull__cuda_device_t *device) {
    return device->pid != getpid();
}

lull_status_t lull__cuda_enter(lull__cuda_device_t *device,
                               lull__cuda_call_t *call) {
    if (lull__cuda_forked(device))
        return lull__fail(LULL_ERR_FORKED, "%s: opened before fork",
                          device->name);
    lull__cu_enum_t result = device->cu->cuCtxPushCurrent_v2(device->context);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(device->cu, result, "%s: entering its context",
                               device->name);
    /* Without this, a wait here would break a capture somewhere else. */
    call->capture_mode = LULL__CU_CAPTURE_RELAXED;
    call->exchanged = device->cu->cuThreadExchangeStreamCaptureMode(
                          &call->capture_mode) == LULL__CU_SUCCESS;
    return LULL_OK;
}

void lull__cuda_leave(lull__cuda_device_t *device, lull__cuda_call_t *call) {
    lull__cu_context_t popped;
    if (call->exchanged)
        (void)device->cu->cuThreadExchangeStreamCaptureMode(
            &call->capture_mode);
    (void)device->cu->cuCtxPopCurrent_v2(&popped);
}

static void cuda_destroy(lull_device_t *base) {
    lull__cuda_device_t *device = (lull__cuda_device_t *)base;
    lull__cuda_call_t call;
    if (!lull__cuda_forked(device)) {
        if (device->spare_count > 0 &&
            lull__cuda_enter(device, &call) == LULL_OK) {
            while (device->spare_count > 0)
                (void)device->cu->cuEventDestroy_v2(
                    device->spare[--device->spare_count]);
            lull__cuda_leave(device, &call);
        }
        (void)device->cu->cuDevicePrimaryCtxRelease_v2(device->id);
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
}

/* "": the device whose context is current, as frameworks mean it, else 0. */
static lull_status_t current_ordinal(const lull__cuda_t *cu, int count,
                                     int *out) {
    lull__cu_device_t current, id;
    *out = 0;
    if (cu->cuCtxGetDevice(&current) == LULL__CU_SUCCESS)
        for (int i = 0; i < count; i++)
            if (cu->cuDeviceGet(&id, i) == LULL__CU_SUCCESS && id == current)
                *out = i;
    return LULL_OK;
}

static lull_status_t parse_ordinal(const lull__cuda_t *cu, const char *rest,
                                   int *out) {
    int count = 0;
    lull__cu_enum_t result = cu->cuDeviceGetCount(&count);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(cu, result, "counting CUDA devices");
    if (count <= 0)
        return lull__fail(LULL_ERR_UNSUPPORTED,
                          "the CUDA driver sees no device");
    if (rest[0] == '\0')
        return current_ordinal(cu, count, out);
    size_t digits = strspn(rest, "0123456789");
    if (digits == 0 || digits > 6 || rest[digits] != '\0')
        return lull__fail(LULL_ERR_NOT_FOUND, "cuda:%.40s: a device is cuda:N",
                          rest);
    int ordinal = atoi(rest);
    if (ordinal >= count)
        return lull__fail(LULL_ERR_NOT_FOUND,
                          "there is no cuda:%d, the driver sees %d device%s",
                          ordinal, count, count == 1 ? "" : "s");
    *out = ordinal;
    return LULL_OK;
}

static int node_of(const lull__cuda_t *cu, lull__cu_device_t id) {
    char bus_id[32] = "";
    if (cu->cuDeviceGetPCIBusId(bus_id, sizeof bus_id - 1, id) !=
        LULL__CU_SUCCESS)
        return -1;
    return lull__numa_node_of_pci(LULL__SYSFS_PCI, bus_id);
}

/* What can fail in opening, into a device that is zeros. */
static lull_status_t retain(lull__cuda_device_t *device) {
    const lull__cuda_t *cu = device->cu;
    lull__cu_enum_t result = cu->cuDeviceGet(&device->id, device->ordinal);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(cu, result, "%s: opening", device->name);
    result = cu->cuDevicePrimaryCtxRetain(&device->context, device->id);
    if (result != LULL__CU_SUCCESS)
        return lull__cuda_fail(cu, result, "%s: its primary context",
                               device->name);
    lull__cuda_call_t call;
    lull_status_t status = lull__cuda_enter(device, &call);
    if (status != LULL_OK)
        goto release;
    while (device->spare_count < LULL__CUDA_SPARE && result == 0) {
        result = cu->cuEventCreate(&device->spare[device->spare_count],
                                   LULL__CU_EVENT_BLOCKING_NO_TIMING);
        device->spare_count += result == 0;
    }
    if (result != 0)
        status =
            lull__cuda_fail(cu, result, "%s: creating an event", device->name);
    while (status != LULL_OK && device->spare_count > 0)
        (void)cu->cuEventDestroy_v2(device->spare[--device->spare_count]);
    lull__cuda_leave(device, &call);
    if (status == LULL_OK)
        return LULL_OK;
release:
    (void)cu->cuDevicePrimaryCtxRelease_v2(device->id);
    return status;
}

lull_status_t lull__device_open_cuda(const char *rest, lull_device_t **out) {
    const lull__cuda_t *cu;
    int ordinal = 0;
    lull_status_t status = lull__cuda_load(&cu);
    if (status == LULL_OK)
        status = parse_ordinal(cu, rest, &ordinal);
    if (status != LULL_OK)
        return status;
    lull__cuda_device_t *device = calloc(1, sizeof *device);
    if (device == NULL)
        return lull__fail(LULL_ERR_NO_MEMORY, "opening cuda:%d", ordinal);
    snprintf(device->name, sizeof device->name, "cuda:%d", ordinal);
    device->base = (lull_device_t){device->name, &lull__cuda_memory,
                                   &lull__cuda_exec, cuda_destroy, device};
    device->cu = cu;
    device->pid = getpid();
    device->ordinal = ordinal;
    status = retain(device);
    if (status != LULL_OK) {
        free(device);
        return status;
    }
    device->node = node_of(cu, device->id);
    pthread_mutex_init(&device->lock, NULL);
    *out = &device->base;
    return LULL_OK;
}

static void describe(const lull__cuda_t *cu, int ordinal,
                     lull_device_info_t *out) {
    lull__cu_device_t id;
    char name[128] = "a device without a name", bus_id[32] = "";
    size_t bytes = 0;
    int version = 0;
    snprintf(out->name, sizeof out->name, "cuda:%d", ordinal);
    lull__cu_enum_t result = cu->cuDeviceGet(&id, ordinal);
    if (result != LULL__CU_SUCCESS) {
        out->status = lull__cuda_fail(cu, result, "cuda:%d", ordinal);
        snprintf(out->text, sizeof out->text, "%s", lull_last_error());
        return;
    }
    (void)cu->cuDeviceGetName(name, sizeof name - 1, id);
    (void)cu->cuDeviceTotalMem_v2(&bytes, id);
    (void)cu->cuDeviceGetPCIBusId(bus_id, sizeof bus_id - 1, id);
    (void)cu->cuDriverGetVersion(&version);
    snprintf(out->text, sizeof out->text, "%s, %.1f GiB, PCI %s, CUDA %d.%d",
             name, (double)bytes / (1 << 30), bus_id, version / 1000,
             version % 1000 / 10);
    int node = lull__numa_node_of_pci(LULL__SYSFS_PCI, bus_id);
    size_t end = strlen(out->text);
    if (node >= 0)
        snprintf(out->text + end, sizeof out->text - end, ", NUMA node %d",
                 node);
}

lull_status_t lull__device_list_cuda(unsigned index, lull_device_info_t *out) {
    const lull__cuda_t *cu;
    int count = 0;
    lull_status_t status = lull__cuda_load(&cu);
    if (status == LULL_OK) {
        lull__cu_enum_t result = cu->cuDeviceGetCount(&count);
        if (result != LULL__CU_SUCCESS)
            status = lull__cuda_fail(cu, result, "counting CUDA devices");
        else if (count <= 0)
            status = lull__fail(LULL_ERR_UNSUPPORTED,
                                "the CUDA driver sees no device");
    }
    if (index >= (status == LULL_OK ? (unsigned)count : 1u))
        return lull__fail(LULL_ERR_NOT_FOUND, "no CUDA device %u", index);
    out->status = status;
    if (status == LULL_OK) {
        describe(cu, (int)index, out);
    } else {
        snprintf(out->name, sizeof out->name, "cuda");
        snprintf(out->text, sizeof out->text, "%s", lull_last_error());
    }
    return LULL_OK;
}
