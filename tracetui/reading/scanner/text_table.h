/* Texts that repeat, each kept once under the number in whose order it turned up. */
#ifndef TEXT_TABLE_H
#define TEXT_TABLE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "reasons.h"
#include "words.h"

typedef struct {
    uint64_t hash;
    int64_t start;  /* in `bytes` */
    int64_t length;
} text;

typedef struct {
    uint64_t seed;
    uint8_t *bytes;
    int64_t filled, room;
    text *texts;
    int64_t count, text_room;
    int32_t *slots;  /* index of a text plus one, 0 for a free slot */
    int64_t slot_count;
} text_table;

static uint64_t mixed(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* All bytes of less than eight. */
static inline uint64_t few_bytes(const uint8_t *at, int64_t length) {
    uint32_t first, last;
    if (length >= 4) {
        memcpy(&first, at, 4);
        memcpy(&last, at + length - 4, 4);
        return (uint64_t)last << 32 | first;
    }
    return length ? (uint64_t)at[0] | (uint64_t)at[length / 2] << 8 | (uint64_t)at[length - 1] << 16 : 0;
}

static uint64_t hash_of(const uint8_t *bytes, int64_t length, uint64_t seed) {
    uint64_t hash = seed ^ (uint64_t)length * 0x9E3779B97F4A7C15u, other = seed;
    const uint8_t *end = bytes + length;
    uint64_t word = length < 8 ? few_bytes(bytes, length) : eight_bytes(end - 8);
    /* Two at a time, so that one multiplication need not wait for another. */
    for (; end - bytes > 16; bytes += 16) {
        hash = mixed(hash ^ eight_bytes(bytes), 0xA0761D6478BD642Fu);
        other = mixed(other ^ eight_bytes(bytes + 8), 0x8EBC6AF09C88C6E3u);
    }
    if (end - bytes > 8) hash = mixed(hash ^ eight_bytes(bytes), 0xA0761D6478BD642Fu);
    return mixed(hash ^ other ^ word, 0xE7037ED1A0B428DBu ^ seed);
}

static inline int is_same(const uint8_t *a, const uint8_t *b, int64_t length) {
    if (length < 8) return few_bytes(a, length) == few_bytes(b, length);
    for (int64_t at = 0; at < length - 8; at += 8)
        if (eight_bytes(a + at) != eight_bytes(b + at)) return 0;
    return eight_bytes(a + length - 8) == eight_bytes(b + length - 8);
}

static void fill_slots(const text_table *table, int32_t *slots, int64_t slot_count) {
    for (int64_t index = 0; index < table->count; index++) {
        uint64_t slot = table->texts[index].hash & (uint64_t)(slot_count - 1);
        while (slots[slot]) slot = (slot + 1) & (uint64_t)(slot_count - 1);
        slots[slot] = (int32_t)index + 1;
    }
}

static int grow_slots(text_table *table) {
    int64_t slot_count = table->slot_count ? 2 * table->slot_count : 1024;
    int32_t *slots = calloc((size_t)slot_count, sizeof *slots);
    if (!slots) return NO_MEMORY;
    fill_slots(table, slots, slot_count);
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    return 0;
}

/* The number of a text, which is added where it is new; a reason where that fails. */
static int32_t number_of(text_table *table, const uint8_t *bytes, int64_t length) {
    if (2 * (table->count + 1) > table->slot_count && grow_slots(table) < 0) return NO_MEMORY;
    uint64_t hash = hash_of(bytes, length, table->seed);
    uint64_t slot = hash & (uint64_t)(table->slot_count - 1);
    while (table->slots[slot]) {
        const text *known = &table->texts[table->slots[slot] - 1];
        if (known->hash == hash && known->length == length && is_same(table->bytes + known->start, bytes, length))
            return table->slots[slot] - 1;
        slot = (slot + 1) & (uint64_t)(table->slot_count - 1);
    }
    if (table->count == INT32_MAX - 1) return NO_MEMORY;
    if (table->count == table->text_room) {
        int64_t room = table->text_room ? 2 * table->text_room : 512;
        text *texts = realloc(table->texts, (size_t)room * sizeof *texts);
        if (!texts) return NO_MEMORY;
        table->texts = texts;
        table->text_room = room;
    }
    if (table->filled + length > table->room) {
        int64_t room = 2 * (table->room + length) + 4096;
        uint8_t *moved = realloc(table->bytes, (size_t)room);
        if (!moved) return NO_MEMORY;
        table->bytes = moved;
        table->room = room;
    }
    memcpy(table->bytes + table->filled, bytes, (size_t)length);
    table->texts[table->count] = (text){hash, table->filled, length};
    table->filled += length;
    table->slots[slot] = (int32_t)++table->count;
    return (int32_t)(table->count - 1);
}

/* Takes out the texts that were added since a table had `count` of them. */
static void forget_texts(text_table *table, int64_t count) {
    if (table->count == count) return;
    table->filled = table->texts[count].start;
    table->count = count;
    memset(table->slots, 0, (size_t)table->slot_count * sizeof *table->slots);
    fill_slots(table, table->slots, table->slot_count);
}

#endif
