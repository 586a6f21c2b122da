/* NUMA nodes from sysfs, and a preference for one by mbind(2), without
 * libnuma. */
#include "numa.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

#define NODES_MAX 1024
#define MPOL_PREFERRED_ 1 /* <numaif.h> comes with libnuma */

int lull__numa_node_of_pci(const char *sysfs, const char *bus_id) {
    char id[32], path[4096];
    size_t n = strnlen(bus_id, sizeof id);
    if (n == sizeof id || strchr(bus_id, '/') != NULL)
        return -1;
    for (size_t i = 0; i <= n; i++)
        id[i] = (char)tolower((unsigned char)bus_id[i]);
    if ((size_t)snprintf(path, sizeof path, "%s/%s/numa_node", sysfs, id) >=
        sizeof path)
        return -1;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    int node = -1;
    if (fscanf(file, "%d", &node) != 1 || node < 0 || node >= NODES_MAX)
        node = -1;
    fclose(file);
    return node;
}

void lull__numa_prefer(void *data, size_t bytes, int node) {
    enum { WORD = 8 * sizeof(unsigned long) };
    unsigned long nodes[NODES_MAX / WORD] = {0};
    if (node < 0 || node >= NODES_MAX)
        return;
    nodes[node / WORD] = 1ul << (node % WORD);
    if (syscall(SYS_mbind, data, bytes, MPOL_PREFERRED_, nodes,
                (unsigned long)NODES_MAX, 0u) != 0)
        lull__log(LULL_LOG_DEBUG, "staging memory of NUMA node %d refused",
                  node);
}
