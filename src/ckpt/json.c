/* The pull parser of JSON. */
#include "json.h"

#include <string.h>

#include "base/error.h"

#define DEPTH_MAX 32 /* of values that are skipped */

void lull__json_begin(lull__json_t *json, char *text, size_t n) {
    *json = (lull__json_t){.begin = text, .at = text, .end = text + n};
}

bool lull__json_fail(lull__json_t *json, const char *error) {
    if (json->error == NULL)
        json->error = error;
    return false;
}

static void white(lull__json_t *json) {
    while (json->at < json->end && (*json->at == ' ' || *json->at == '\n' ||
                                    *json->at == '\r' || *json->at == '\t'))
        json->at++;
}

/* The next byte that is no white space, -1 at the end. */
static int peek(lull__json_t *json) {
    white(json);
    return json->at < json->end ? (unsigned char)*json->at : -1;
}

static bool open_container(lull__json_t *json, char c, const char *error) {
    if (json->error != NULL)
        return false;
    if (peek(json) != c)
        return lull__json_fail(json, error);
    json->at++;
    json->first = true;
    return true;
}

bool lull__json_object(lull__json_t *json) {
    return open_container(json, '{', "not an object");
}

bool lull__json_array(lull__json_t *json) {
    return open_container(json, '[', "not an array");
}

/* Before the next member of a container that ends with `close`: false when it
 * has ended. */
static bool member(lull__json_t *json, char close) {
    if (json->error != NULL)
        return false;
    int c = peek(json);
    if (c == close) {
        json->at++;
        json->first = false;
        return false;
    }
    if (!json->first) {
        if (c != ',')
            return lull__json_fail(json, "neither a comma nor the end");
        json->at++;
        if (peek(json) == close)
            return lull__json_fail(json, "a comma before the end");
    }
    json->first = false;
    return true;
}

bool lull__json_item(lull__json_t *json) {
    return member(json, ']');
}

bool lull__json_key(lull__json_t *json, lull__text_t *key) {
    if (!member(json, '}') || !lull__json_string(json, key))
        return false;
    if (peek(json) != ':')
        return lull__json_fail(json, "no colon after a name");
    json->at++;
    return true;
}

/* Bytes of the UTF-8 sequence at s, 0 if it is none. RFC 3629's table. */
static size_t utf8_length(const unsigned char *s, size_t n) {
    unsigned char low = 0x80, high = 0xbf;
    size_t length;
    if (s[0] < 0x80)
        return 1;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        length = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        length = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        length = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    if (s[0] == 0xed)
        high = 0x9f;
    if (s[0] == 0xf0)
        low = 0x90;
    if (s[0] == 0xf4)
        high = 0x8f;
    if (n < length || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Bytes at s that stand for themselves in a string and are no more than ASCII,
 * eight at a time: of a byte that is not such one, the top bit is set here, and
 * where it is the first of the eight, nothing below it has borrowed. */
static size_t plain_bytes(const char *s, size_t n) {
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian");
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t x;
        memcpy(&x, s + i, sizeof x);
        uint64_t quote = x ^ EACH('"'), slash = x ^ EACH('\\');
        uint64_t other =
            (x | (x - EACH(0x20)) | (quote - EACH(1)) | (slash - EACH(1))) &
            EACH(0x80);
        if (other != 0)
            return i + (size_t)__builtin_ctzll(other) / 8;
    }
    while (i < n && s[i] >= 0x20 && s[i] < 0x7f && s[i] != '"' && s[i] != '\\')
        i++;
    return i;
}

bool lull__utf8_valid(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    while (n > 0) {
        size_t length = plain_bytes((const char *)s, n);
        if (length == 0)
            length = *s == 0 ? 0 : utf8_length(s, n);
        if (length == 0)
            return false;
        s += length;
        n -= length;
    }
    return true;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Four hexadecimal digits. */
static bool hex4(lull__json_t *json, uint32_t *out) {
    if (json->end - json->at < 4)
        return lull__json_fail(json, "a string does not end");
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(*json->at++);
        if (digit < 0)
            return lull__json_fail(json, "a bad \\u escape");
        *out = *out << 4 | (uint32_t)digit;
    }
    return true;
}

static char *put_utf8(char *to, uint32_t c) {
    if (c < 0x80) {
        *to++ = (char)c;
        return to;
    }
    if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *to++ = (char)(0xe0 | c >> 12);
        } else {
            *to++ = (char)(0xf0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 63));
        }
        *to++ = (char)(0x80 | (c >> 6 & 63));
    }
    *to++ = (char)(0x80 | (c & 63));
    return to;
}

static bool unicode_escape(lull__json_t *json, char **to) {
    uint32_t c, low;
    if (!hex4(json, &c))
        return false;
    if (c == 0)
        return lull__json_fail(json, "a NUL in a string");
    if (c >= 0xd800 && c <= 0xdbff) {
        if (json->end - json->at < 6 || json->at[0] != '\\' ||
            json->at[1] != 'u')
            return lull__json_fail(json, "half a surrogate pair");
        json->at += 2;
        if (!hex4(json, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return lull__json_fail(json, "half a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c <= 0xdfff) {
        return lull__json_fail(json, "half a surrogate pair");
    }
    *to = put_utf8(*to, c);
    return true;
}

/* After a backslash. */
static bool simple_escape(lull__json_t *json, char **to) {
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    if (json->at == json->end)
        return lull__json_fail(json, "a string does not end");
    char c = *json->at++;
    if (c == 'u')
        return unicode_escape(json, to);
    const char *found = c == '\0' ? NULL : strchr(from, c);
    if (found == NULL)
        return lull__json_fail(json, "an unknown escape");
    *(*to)++ = into[found - from];
    return true;
}

bool lull__json_string(lull__json_t *json, lull__text_t *out) {
    if (json->error != NULL)
        return false;
    if (peek(json) != '"')
        return lull__json_fail(json, "not a string");
    char *start = ++json->at, *to = start;
    while (json->at < json->end) {
        size_t n = plain_bytes(json->at, (size_t)(json->end - json->at));
        if (to != json->at)
            memmove(to, json->at, n);
        to += n;
        json->at += n;
        if (json->at == json->end)
            break;
        unsigned char c = (unsigned char)*json->at;
        if (c == '"') {
            json->at++;
            *to = '\0';
            *out = (lull__text_t){start, (size_t)(to - start)};
            return true;
        }
        if (c < 0x20)
            return lull__json_fail(json, "a control character in a string");
        if (c == '\\') {
            json->at++;
            if (!simple_escape(json, &to))
                return false;
            continue;
        }
        n = utf8_length((const unsigned char *)json->at,
                        (size_t)(json->end - json->at));
        if (n == 0)
            return lull__json_fail(json, "not UTF-8");
        for (size_t i = 0; i < n; i++)
            *to++ = *json->at++;
    }
    return lull__json_fail(json, "a string does not end");
}

static bool is_digit(const lull__json_t *json) {
    return json->at < json->end && *json->at >= '0' && *json->at <= '9';
}

bool lull__json_u64(lull__json_t *json, uint64_t *out) {
    if (json->error != NULL)
        return false;
    white(json);
    if (!is_digit(json))
        return lull__json_fail(json, "not a whole number");
    const char *start = json->at;
    uint64_t value = 0;
    for (; is_digit(json); json->at++) {
        unsigned digit = (unsigned)(*json->at - '0');
        if (value >= UINT64_MAX / 10 &&
            (value > UINT64_MAX / 10 || digit > UINT64_MAX % 10))
            return lull__json_fail(json, "a number over 2^64 - 1");
        value = value * 10 + digit;
    }
    if (*start == '0' && json->at - start > 1)
        return lull__json_fail(json, "a number begins with 0");
    if (json->at < json->end &&
        (*json->at == '.' || *json->at == 'e' || *json->at == 'E'))
        return lull__json_fail(json, "not a whole number");
    *out = value;
    return true;
}

bool lull__json_u32(lull__json_t *json, uint32_t *out) {
    uint64_t value;
    if (!lull__json_u64(json, &value))
        return false;
    if (value > UINT32_MAX)
        return lull__json_fail(json, "a number over 2^32 - 1");
    *out = (uint32_t)value;
    return true;
}

bool lull__json_hash(lull__json_t *json, uint64_t *out) {
    lull__text_t text;
    if (!lull__json_string(json, &text))
        return false;
    if (text.bytes != 16)
        return lull__json_fail(json, "a hash is not 16 digits");
    uint64_t value = 0;
    for (int i = 0; i < 16; i++) {
        int digit = hex_digit(text.data[i]);
        if (digit < 0 || (text.data[i] >= 'A' && text.data[i] <= 'F'))
            return lull__json_fail(json, "a hash is not hexadecimal");
        value = value << 4 | (unsigned)digit;
    }
    *out = value;
    return true;
}

bool lull__json_list(lull__json_t *json, uint64_t *out, uint32_t max,
                     uint32_t *n) {
    uint32_t count = 0;
    if (!lull__json_array(json))
        return false;
    while (lull__json_item(json)) {
        if (count == max)
            return lull__json_fail(json, LULL__JSON_TOO_LONG);
        lull__json_u64(json, &out[count++]);
    }
    *n = count;
    return json->error == NULL;
}

static bool skip_number(lull__json_t *json) {
    if (json->at < json->end && *json->at == '-')
        json->at++;
    if (!is_digit(json))
        return lull__json_fail(json, "not a value");
    bool zero = *json->at++ == '0';
    if (zero && is_digit(json))
        return lull__json_fail(json, "a number begins with 0");
    while (is_digit(json))
        json->at++;
    if (json->at < json->end && *json->at == '.') {
        json->at++;
        if (!is_digit(json))
            return lull__json_fail(json, "no digit after a point");
        while (is_digit(json))
            json->at++;
    }
    if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
        json->at++;
        if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
            json->at++;
        if (!is_digit(json))
            return lull__json_fail(json, "no digit in an exponent");
        while (is_digit(json))
            json->at++;
    }
    return true;
}

static bool skip_word(lull__json_t *json) {
    static const char *const words[] = {"true", "false", "null"};
    size_t left = (size_t)(json->end - json->at);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if (left >= n && memcmp(json->at, words[i], n) == 0) {
            json->at += n;
            return true;
        }
    }
    return skip_number(json);
}

static bool skip(lull__json_t *json, unsigned depth) {
    lull__text_t text;
    if (json->error != NULL)
        return false;
    if (depth == DEPTH_MAX)
        return lull__json_fail(json, "nested too deep");
    switch (peek(json)) {
    case '{':
        lull__json_object(json);
        while (lull__json_key(json, &text))
            skip(json, depth + 1);
        break;
    case '[':
        lull__json_array(json);
        while (lull__json_item(json))
            skip(json, depth + 1);
        break;
    case '"':
        lull__json_string(json, &text);
        break;
    default:
        skip_word(json);
    }
    return json->error == NULL;
}

bool lull__json_skip(lull__json_t *json) {
    return skip(json, 0);
}

lull_status_t lull__json_done(lull__json_t *json, const char *what) {
    if (json->error == NULL && peek(json) != -1)
        json->error = "more text after the end";
    if (json->error == NULL)
        return LULL_OK;
    return lull__fail(LULL_ERR_CORRUPT, "%s: byte %zu of its JSON: %s", what,
                      (size_t)(json->at - json->begin), json->error);
}
