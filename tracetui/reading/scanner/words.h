/* Eight bytes at a time, as one number. */
#ifndef WORDS_H
#define WORDS_H

#include <stdint.h>
#include <string.h>

#define ONES 0x0101010101010101u
#define HIGHS 0x8080808080808080u

static inline uint64_t eight_bytes(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

#endif
