/* Which memory is near a device. Only hints: nothing here fails. */
#ifndef LULL__NUMA_H
#define LULL__NUMA_H

#include <stddef.h>

#define LULL__SYSFS_PCI "/sys/bus/pci/devices"

/* The NUMA node of a PCI device by its bus id ("0000:3B:00.0"), from sysfs;
 * -1: not known, or there is one node. */
int lull__numa_node_of_pci(const char *sysfs, const char *bus_id);

/* Asks for the pages of a mapping, not touched yet, to come from a node; -1:
 * from anywhere. */
void lull__numa_prefer(void *data, size_t bytes, int node);

#endif
