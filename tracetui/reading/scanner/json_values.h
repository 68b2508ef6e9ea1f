/* Reads the values of JSON in a stretch of bytes whose last one is a closing bracket.
 *
 * A function takes the position of what it reads and returns the one behind it, or NULL where that is damaged or read
 * elsewhere; `reason` then says why. What is read stands behind the beginning of an array of objects. A position that is passed or returned lies before `end`: the closing bracket at
 * the end stops blanks, digits and words, texts look at `end`, and so does the one thing that passes a bracket, an
 * array that closes.
 */
#ifndef JSON_VALUES_H
#define JSON_VALUES_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "reasons.h"
#include "words.h"

#define MAX_DEPTH 64
#define NO_NUMBER INT64_MIN

typedef struct {
    const uint8_t *end;
    int reason;
} json;

static const uint8_t *failed(json *j, int reason) {
    j->reason = reason;
    return NULL;
}

/* ---------------------------------------------------------------- texts */

typedef struct {
    const uint8_t *start;  /* behind the opening quote */
    int64_t length;
    int has_escape;
} span;

static inline const uint8_t *skip_blanks(const uint8_t *at) {
    while (*at <= ' ' && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) at++;
    return at;
}

static inline const uint8_t *skip_sign(json *j, const uint8_t *at, uint8_t sign) {
    at = skip_blanks(at);
    return *at == sign ? at + 1 : failed(j, DAMAGED);
}

/* Marks the first of eight bytes that is a quote, a backslash, a control sign or not ASCII; some behind it, too. */
static inline uint64_t marks_of(uint64_t word) {
    uint64_t quotes = word ^ (ONES * '"'), slashes = word ^ (ONES * '\\');
    uint64_t marks = ((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes) | ((word - ONES * 0x20) & ~word) | word;
    return marks & HIGHS;
}

/* Passes plain characters of a text: up to a quote, a backslash, a control sign, what is not ASCII, or the end. */
static inline const uint8_t *skip_plain(const uint8_t *at, const uint8_t *end) {
#if defined(__SSE2__)
    while (end - at >= 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        /* As signed numbers what is not ASCII lies below a blank, too. */
        __m128i marks = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20)),
                                     _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                                  _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'))));
        int mask = _mm_movemask_epi8(marks);
        if (mask) return at + __builtin_ctz((unsigned)mask);
        at += 16;
    }
#elif __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - at >= 8) {
        uint64_t marks = marks_of(eight_bytes(at));
        if (marks) return at + __builtin_ctzll(marks) / 8;
        at += 8;
    }
#endif
    while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') at++;
    return at;
}

static int is_hex(uint8_t sign) {
    return (sign >= '0' && sign <= '9') || (sign >= 'a' && sign <= 'f') || (sign >= 'A' && sign <= 'F');
}

/* Whether the backslash of an escape may be that of a path of Windows without escapes: `mending` in Python decides. */
static int may_be_path(const uint8_t *at) {
    /* A text of an event stands at least three bytes behind the beginning of the block. */
    return at[-1] == ':' && ((at[-2] | 32) >= 'a' && (at[-2] | 32) <= 'z') && strchr("\"';(=,<", at[-3]) && at[-3];
}

/* Passes an escape; halves of pairs are read elsewhere. */
static const uint8_t *skip_escape(json *j, const uint8_t *at) {
    if (j->end - at < 2) return failed(j, DAMAGED);
    switch (at[1]) {
    case '"': case '\\': case '/':
        return at + 2;
    case 'b': case 'f': case 'n': case 'r': case 't':
        return may_be_path(at) ? failed(j, UNEXPECTED) : at + 2;
    case 'u':
        if (j->end - at < 6) return failed(j, DAMAGED);
        for (int i = 2; i < 6; i++)
            if (!is_hex(at[i])) return failed(j, DAMAGED);
        if ((at[2] | 32) == 'd' && at[3] >= '8') return failed(j, UNEXPECTED);
        return at + 6;
    default:
        return failed(j, DAMAGED);
    }
}

/* Passes one character of more than one byte. */
static const uint8_t *skip_wide(json *j, const uint8_t *at) {
    int64_t left = j->end - at;
    uint8_t first = at[0];
    if (first >= 0xC2 && first <= 0xDF) {
        if (left < 2 || (at[1] & 0xC0) != 0x80) return failed(j, UNEXPECTED);
        return at + 2;
    }
    if ((first & 0xF0) == 0xE0) {
        if (left < 3 || (at[1] & 0xC0) != 0x80 || (at[2] & 0xC0) != 0x80) return failed(j, UNEXPECTED);
        if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xED && at[1] > 0x9F)) return failed(j, UNEXPECTED);
        return at + 3;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        if (left < 4 || (at[1] & 0xC0) != 0x80 || (at[2] & 0xC0) != 0x80 || (at[3] & 0xC0) != 0x80) return failed(j, UNEXPECTED);
        if ((first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] > 0x8F)) return failed(j, UNEXPECTED);
        return at + 4;
    }
    return failed(j, UNEXPECTED);
}

/* Passes what follows the plain characters of a text, up to its closing quote. */
static const uint8_t *read_rest_of_text(json *j, const uint8_t *at, span *text) {
    for (;;) {
        if (at >= j->end || *at < 0x20) return failed(j, DAMAGED);
        if (*at == '"') break;
        text->has_escape |= *at == '\\';
        if (!(at = *at == '\\' ? skip_escape(j, at) : skip_wide(j, at))) return NULL;
        at = skip_plain(at, j->end);
    }
    text->length = at - text->start;
    return at + 1;
}

static inline const uint8_t *read_text(json *j, const uint8_t *at, span *text) {
    if (*at != '"') return failed(j, UNEXPECTED);
    text->start = at + 1;
    text->has_escape = 0;
    at = skip_plain(at + 1, j->end);
    if (at >= j->end || *at != '"') return read_rest_of_text(j, at, text);
    text->length = at - text->start;
    return at + 1;
}

/* ---------------------------------------------------------------- numbers */

typedef struct {
    uint64_t digits;   /* all digits as one number */
    int exponent;      /* power of ten to multiply them by */
    int is_negative;
    int is_whole;      /* written without point and exponent */
    int is_long;       /* more digits than 64 bits hold */
} number;

static inline int is_digit(uint8_t sign) { return (uint8_t)(sign - '0') < 10; }

static int starts_number(uint8_t sign) { return sign == '-' || is_digit(sign); }

static void add_digit(number *n, uint8_t digit, int *lost) {
    if (n->digits > (UINT64_MAX - 9) / 10) {
        n->is_long = 1;
        *lost = 1;
    } else {
        n->digits = 10 * n->digits + (uint64_t)(digit - '0');
        *lost = 0;
    }
}

/* Reads a number of any length and with any exponent. */
static const uint8_t *read_long_number(json *j, const uint8_t *at, number *n) {
    int lost;
    *n = (number){0, 0, 0, 1, 0};
    if (*at == '-') {
        n->is_negative = 1;
        at++;
    }
    if (!is_digit(*at) || (*at == '0' && is_digit(at[1]))) return failed(j, DAMAGED);
    while (is_digit(*at)) add_digit(n, *at++, &lost);
    if (*at == '.') {
        n->is_whole = 0;
        at++;
        if (!is_digit(*at)) return failed(j, DAMAGED);
        while (is_digit(*at)) {
            add_digit(n, *at++, &lost);
            if (!lost) n->exponent--;
        }
    }
    if ((*at | 32) == 'e') {
        int sign = 1, power = 0;
        n->is_whole = 0;
        at++;
        if (*at == '+' || *at == '-') sign = *at++ == '-' ? -1 : 1;
        if (!is_digit(*at)) return failed(j, DAMAGED);
        while (is_digit(*at)) {
            power = 10 * power + (*at++ - '0');
            /* What does not fit a double is read elsewhere. */
            if (power > 200) return failed(j, UNEXPECTED);
        }
        n->exponent += sign * power;
    }
    return at;
}

static const uint32_t WHOLE_POWERS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

/* The number that eight digits are, each a byte less '0', the first one lowest. */
static inline uint32_t eight_digits(uint64_t word) {
    word = word * 10 + (word >> 8);
    return (uint32_t)(((word & 0x000000FF000000FFu) * 0x000F424000000064u + ((word >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u) >> 32);
}

/* Adds the digits that follow; what is more than 19 of them does not fit and is read again. */
static inline const uint8_t *add_digits(const uint8_t *at, const uint8_t *end, uint64_t *digits) {
    uint64_t value = *digits;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - at >= 8) {
        uint64_t word = eight_bytes(at) ^ (ONES * '0');
        /* What is no digit has a bit above the lowest four, or has one once six are added; the lowest mark is right. */
        uint64_t marks = (word | (word + ONES * 6)) & (ONES * 0xF0);
        if (marks) {
            int count = __builtin_ctzll(marks) / 8;
            if (!count) break;
            /* Zeros in front make them eight. */
            *digits = value * WHOLE_POWERS[count] + eight_digits(word << (64 - 8 * count));
            return at + count;
        }
        value = value * 100000000 + eight_digits(word);
        at += 8;
    }
#else
    (void)end;
#endif
    while (is_digit(*at)) value = 10 * value + (uint64_t)(*at++ - '0');
    *digits = value;
    return at;
}

static const uint8_t *read_any_number(json *j, const uint8_t *at, number *n) {
    const uint8_t *whole = at + (*at == '-'), *p;
    int64_t count;
    n->digits = 0;
    n->is_negative = *at == '-';
    n->is_whole = 1;
    n->is_long = n->exponent = 0;
    p = add_digits(whole, j->end, &n->digits);
    count = p - whole;
    if (count == 0 || (count > 1 && *whole == '0')) return failed(j, DAMAGED);
    if (*p == '.') {
        const uint8_t *fraction = p + 1;
        p = add_digits(fraction, j->end, &n->digits);
        if (p == fraction) return failed(j, DAMAGED);
        n->is_whole = 0;
        count += p - fraction;
        /* Beyond 19 digits the number is read again. */
        if (count <= 19) n->exponent = -(int)(p - fraction);
    }
    return count > 19 || (*p | 32) == 'e' ? read_long_number(j, at, n) : p;
}

static inline const uint8_t *read_number(json *j, const uint8_t *at, number *n) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    /* Most are whole numbers of a few digits, with another member of the object or its end right behind them. */
    if (j->end - at >= 8) {
        uint64_t word = eight_bytes(at) ^ (ONES * '0'), marks = (word | (word + ONES * 6)) & (ONES * 0xF0);
        int count = marks ? __builtin_ctzll(marks) / 8 : 0;
        if (count && (at[count] == ',' || at[count] == '}') && (*at != '0' || count == 1)) {
            *n = (number){eight_digits(word << (64 - 8 * count)), 0, 0, 1, 0};
            return at + count;
        }
    }
#endif
    return read_any_number(j, at, n);
}

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static uint64_t whole_power(int exponent) {
    uint64_t power = 1;
    while (exponent-- > 0) power *= 10;
    return power;
}

/* The double nearest to a number with a fraction of more digits than a double has. */
static double nearest_double(const number *n) {
    uint64_t power = whole_power(-n->exponent);
    /* 64 more bits than the quotient needs, the last one set where something is left: rounded once, by the cast. */
    unsigned __int128 dividend = (unsigned __int128)n->digits << 64, quotient = dividend / power;
    int shift = -64;
    int sticky = dividend % power != 0;
    while (quotient >> 64) {
        sticky |= (int)(quotient & 1);
        quotient >>= 1;
        shift++;
    }
    return ldexp((double)((uint64_t)quotient | (uint64_t)sticky), shift);
}

/* The double nearest to a number; 0 where that takes more than is done here. */
static inline int to_double(const number *n, double *value) {
    if (n->is_long) return 0;
    if (n->exponent == 0) {
        *value = (double)n->digits;
    } else if (n->digits < (1ull << 53) && n->exponent >= -22 && n->exponent <= 22) {
        *value = n->exponent < 0 ? (double)n->digits / POWERS[-n->exponent] : (double)n->digits * POWERS[n->exponent];
    } else if (n->exponent == -3 && n->digits / 1000 < (1ull << 53)) {
        /* Doubles lie at least 1/512 apart here, and no number of thousandths is closer to the middle between two
         * than the error of the fraction, but for eighths, which have none: rounded once, by the sum. */
        *value = (double)(n->digits / 1000) + (double)(n->digits % 1000) / 1000;
    } else if (n->exponent < 0 && n->exponent >= -19) {
        *value = nearest_double(n);
    } else {
        return 0;
    }
    if (n->is_negative) *value = -*value;
    return 1;
}

/* A number of microseconds in whole nanoseconds, rounded half to even; NO_NUMBER where that does not fit. */
static inline int64_t to_nanoseconds(const number *n) {
    int exponent = n->exponent + 3;
    uint64_t value = n->digits;
    if (n->is_long || exponent > 19 || exponent < -19) return NO_NUMBER;
    if (exponent > 0) {
        uint64_t power = exponent == 3 ? 1000 : whole_power(exponent);
        if (value && power > (uint64_t)INT64_MAX / value) return NO_NUMBER;
        value *= power;
    } else if (exponent < 0) {
        uint64_t power = whole_power(-exponent), left = value % power;
        value /= power;
        if (left > power - left || (left == power - left && (value & 1))) value++;
    }
    if (value > (uint64_t)INT64_MAX) return NO_NUMBER;
    return n->is_negative ? -(int64_t)value : (int64_t)value;
}

/* A whole number, or what is left of a fraction without its decimals, as a cast does it; 0 where it does not fit. */
static inline int to_whole(const number *n, int64_t *value) {
    double real;
    if (n->is_whole) {
        if (n->is_long || n->digits > (uint64_t)INT64_MAX) return 0;
        *value = n->is_negative ? -(int64_t)n->digits : (int64_t)n->digits;
        return 1;
    }
    if (!to_double(n, &real) || !(fabs(real) < 9e18)) return 0;
    *value = (int64_t)real;
    return 1;
}

/* ---------------------------------------------------------------- any value */

static const uint8_t *skip_word(json *j, const uint8_t *at, const char *word, int64_t length) {
    if (j->end - at <= length || memcmp(at, word, (size_t)length)) return failed(j, DAMAGED);
    return at + length;
}

static const uint8_t *skip_value(json *j, const uint8_t *at, int depth);

static const uint8_t *skip_members(json *j, const uint8_t *at, int depth, uint8_t close) {
    span name;
    if (depth > MAX_DEPTH) return failed(j, UNEXPECTED);
    at = skip_blanks(at + 1);
    if (*at != close) {
        for (;;) {
            at = skip_blanks(at);
            if (close == '}' && (!(at = read_text(j, at, &name)) || !(at = skip_sign(j, at, ':')))) return NULL;
            if (!(at = skip_value(j, at, depth))) return NULL;
            at = skip_blanks(at);
            if (*at == close) break;
            if (*at != ',') return failed(j, DAMAGED);
            at++;
        }
    }
    /* It may have been the bracket at the end. */
    return at + 1 < j->end ? at + 1 : failed(j, DAMAGED);
}

static const uint8_t *skip_value(json *j, const uint8_t *at, int depth) {
    span text;
    number n;
    at = skip_blanks(at);
    switch (*at) {
    case '"': return read_text(j, at, &text);
    case '{': return skip_members(j, at, depth + 1, '}');
    case '[': return skip_members(j, at, depth + 1, ']');
    case 't': return skip_word(j, at, "true", 4);
    case 'f': return skip_word(j, at, "false", 5);
    case 'n': return skip_word(j, at, "null", 4);
    default: return read_number(j, at, &n);
    }
}

#endif
