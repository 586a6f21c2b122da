/* Names of roles. */
#include <lull/comm.h>

const char lull__in_place = 0;

const char *lull_role_name(lull_role_t role) {
    switch (role) {
#define ROW(name, value, text) \
    case LULL_ROLE_##name:     \
        return text;
        LULL_ROLE_TABLE(ROW)
#undef ROW
    case LULL_ROLE_COUNT:
        break;
    }
    return NULL;
}
