/* Settings: built-in defaults, over them the environment, over it the
 * program. */
#include "settings.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static const struct {
    const char *name, *env, *def, *values, *help;
} table[] = {
#define ROW(id, name, env, def, values, help) {name, env, def, values, help},
    LULL__SETTINGS_TABLE(ROW)
#undef ROW
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *by_program[LULL__SETTING_COUNT];
static bool complained[LULL__SETTING_COUNT];
static _Atomic unsigned generation;

unsigned lull__setting_generation(void) {
    return atomic_load_explicit(&generation, memory_order_acquire);
}

static bool allowed(unsigned id, const char *value) {
    const char *words = table[id].values;
    size_t n = strlen(value);
    while (words != NULL) {
        size_t m = strcspn(words, "|");
        if (m == n && memcmp(words, value, n) == 0)
            return true;
        if (words[m] == '\0')
            return false;
        words += m + 1;
    }
    return true;
}

/* With the lock held. */
static const char *from_environment(unsigned id) {
    const char *value = getenv(table[id].env);
    if (value == NULL || value[0] == '\0')
        return NULL;
    if (allowed(id, value))
        return value;
    if (!complained[id]) {
        complained[id] = true;
        lull__log(LULL_LOG_WARN, "%s=%s is not one of %s; ignored",
                  table[id].env, value, table[id].values);
    }
    return NULL;
}

static const char *resolve(unsigned id, const char **source) {
    const char *value = by_program[id];
    *source = "program";
    if (value == NULL) {
        value = from_environment(id);
        *source = "environment";
    }
    if (value == NULL) {
        value = table[id].def;
        *source = "default";
    }
    return value;
}

const char *lull__setting(lull__setting_id_t id) {
    const char *source;
    pthread_mutex_lock(&lock);
    const char *value = resolve(id, &source);
    pthread_mutex_unlock(&lock);
    return value;
}

lull_status_t lull_setting_at(unsigned index, lull_setting_t *out) {
    if (index >= LULL__SETTING_COUNT)
        return lull__fail(LULL_ERR_NOT_FOUND, "there are %d settings",
                          LULL__SETTING_COUNT);
    pthread_mutex_lock(&lock);
    out->name = table[index].name;
    out->env = table[index].env;
    out->default_value = table[index].def;
    out->help = table[index].help;
    out->value = resolve(index, &out->source);
    pthread_mutex_unlock(&lock);
    return LULL_OK;
}

lull_status_t lull_setting_set(const char *name, const char *value) {
    if (name == NULL || value == NULL)
        return lull__fail(LULL_ERR_INVALID, "lull_setting_set: %s is NULL",
                          name ? "value" : "name");
    for (unsigned id = 0; id < LULL__SETTING_COUNT; id++) {
        if (strcmp(table[id].name, name) != 0)
            continue;
        if (!allowed(id, value))
            return lull__fail(LULL_ERR_INVALID,
                              "setting %s: '%.80s' is not one of %s", name,
                              value, table[id].values);
        char *copy = strdup(value);
        if (copy == NULL)
            return lull__fail(LULL_ERR_NO_MEMORY, "setting %s", name);
        pthread_mutex_lock(&lock);
        free(by_program[id]);
        by_program[id] = copy;
        atomic_fetch_add_explicit(&generation, 1, memory_order_release);
        pthread_mutex_unlock(&lock);
        return LULL_OK;
    }
    return lull__fail(LULL_ERR_NOT_FOUND, "no setting is named '%.80s'", name);
}
