/* Turns blocks of events, `[{...},{...}]`, into columns.
 *
 * Reads a strict subset of JSON: whatever is damaged, rare or of an unexpected type ends the scan of a block with a
 * reason, and the caller reads that block another way. Nothing is read beyond a block or written beyond
 * `columns->capacity`. Texts are interned as they stand between their quotes, escapes and all, in tables that live as
 * long as the scanner. Slices have columns of their own; all other events share the columns named `other`.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json_values.h"
#include "reasons.h"
#include "text_table.h"
#include "words.h"

#define NO_TEXT (-1)
#define NO_TIME INT64_MIN
#define NO_DURATION (-1)       /* the slice has none */
#define NEGATIVE_DURATION (-2) /* it has one below 0 */
#define MAX_TIME_US 3e15       /* a time or a duration beyond it is none */
#define FAR_US 9e12            /* from here on a double of microseconds does not tell nanoseconds apart */
#define NEAR_US (1ll << 43)    /* below it every thousandth of a microsecond has a double closest to it */

/* ---------------------------------------------------------------- what the caller gives and gets */

enum table { NAMES, KEYS, OP_TEXTS, WORK_TEXTS, TABLES };

/* A time whose nanoseconds by its digits are not those by its double. */
typedef struct {
    int64_t *time;
    int64_t by_digits;
} doubtful_time;

#define SHAPES 1024 /* a power of two */
#define MAX_KEYS 256

typedef struct {
    text_table tables[TABLES];
    uint64_t seed;
    uint64_t shapes[SHAPES];    /* the keys of objects, in their order, that were found to have none twice */
    doubtful_time *doubtful;
    int64_t doubtful_count, doubtful_room;
} scanner;

/* Classes of phases that are told apart here; `phases` in Python has all. */
enum phase_class { SLICE = 0, INSTANT = 2 };

enum id_kind { NO_ID, WHOLE_NUMBER, OTHER_ID };

/* Fields of arguments, in the order of the columns; `scanned_columns` in Python has the same. */
enum argument_number {
    SEQUENCE, FORWARD_THREAD, REGISTERS, SHARED, OCCUPANCY, BYTES, ADDRESS, ALLOCATED, TOTAL_ALLOCATED, TOTAL_RESERVED,
    DEVICE_TYPE, DEVICE, ARGUMENT_NUMBERS
};
enum argument_text { DIMS, OLD_DIMS, TYPES, GRID, BLOCK, ARGUMENT_TEXTS };

typedef struct {
    int64_t capacity;           /* rows of slices, of other events, and of arguments less one */
    int64_t block_capacity;     /* blocks whose ends fit below */
    const uint8_t *class_of_letter;  /* class of each phase, by its first letter */
    int64_t default_id;         /* stands for a correlation or external id that is not there */
    int64_t null_number;        /* stands for an argument that is not there */
    /* How much is filled; a scan goes on behind it. */
    int64_t events, slices, others, arguments, blocks;
    /* Slices. */
    int64_t *start, *dur;       /* ns */
    int64_t *correlation, *external;
    int32_t *name;              /* number in NAMES */
    int32_t *key;               /* number in KEYS of phase, category, process and thread */
    int32_t *event;             /* number of the event */
    int32_t *argument;          /* row of its arguments, 0 for none */
    /* Other events, among them slices without a time. */
    int64_t *other_time;        /* ns, NO_TIME for none */
    int64_t *other_id;          /* `id` where it is a whole number, NO_NUMBER otherwise */
    int32_t *other_name, *other_key, *other_event, *other_argument;
    int32_t *other_begin, *other_end;  /* where the event stands in the data */
    uint8_t *other_class, *other_id_kind;
    uint8_t *other_scope;       /* first letter of `s`, 0 for none */
    /* Arguments: a row for each event that has one of these, behind a first row of none. */
    int64_t *argument_numbers[ARGUMENT_NUMBERS];
    int32_t *argument_texts[ARGUMENT_TEXTS];
    /* How much was filled behind each block. */
    int64_t *block_events, *block_slices, *block_others;
} columns;

/* The fields of one event. */
typedef struct {
    const uint8_t *begin;
    span phase, category;
    const uint8_t *process, *thread;  /* as they stand in the file */
    int64_t process_length, thread_length;
    number time, duration;
    int has_time, has_duration, has_arguments;
    int64_t id, correlation, external;
    int32_t name;
    int32_t argument;           /* row of its arguments, 0 while it has none */
    uint8_t id_kind, scope;
    uint64_t shape;             /* its keys in their order */
} event;

typedef struct {
    json json;
    const uint8_t *data;
    scanner *scanner;
    columns *columns;
    int is_far;                 /* whether a time of the block was met that a double does not tell */
} scan;

static const uint8_t *unexpected(scan *s) { return failed(&s->json, UNEXPECTED); }

/* ---------------------------------------------------------------- keys */

/* The shape of an object with one more key, by the first and the last bytes and the length of that. */
static inline uint64_t with_key(uint64_t shape, uint64_t first, uint64_t last, int64_t length) {
    return mixed(shape ^ first ^ (uint64_t)length << 56, 0xA0761D6478BD642Fu ^ last);
}

static inline uint64_t with_name(uint64_t shape, const span *name) {
    const uint8_t *start = name->start;
    int64_t length = name->length;
    if (length < 8) return with_key(shape, few_bytes(start, length), 0, length);
    return with_key(shape, eight_bytes(start), eight_bytes(start + length - 8), length);
}

/* Whether an object that was read without a fault has a key twice, or more keys than are compared. */
static int has_repeated_key(json *j, const uint8_t *at) {
    span keys[MAX_KEYS];
    int count = 0;
    for (;;) {
        if (count == MAX_KEYS || !(at = read_text(j, skip_blanks(at + 1), &keys[count]))) return 1;
        for (int i = 0; i < count; i++)
            if (keys[i].length == keys[count].length && !memcmp(keys[i].start, keys[count].start, (size_t)keys[i].length))
                return 1;
        count++;
        if (!(at = skip_sign(j, at, ':')) || !(at = skip_value(j, at, 0))) return 1;
        at = skip_blanks(at);
        if (*at != ',') return 0;
    }
}

/* Whether no key of an object stands in it twice; objects of a trace have few shapes, so that most were seen before. */
static inline int has_distinct_keys(scan *s, const uint8_t *object, uint64_t shape) {
    uint64_t *known = &s->scanner->shapes[shape >> 54 & (SHAPES - 1)];
    if (*known == shape) return 1;
    if (has_repeated_key(&s->json, object)) return 0;
    *known = shape;
    return 1;
}

/* ---------------------------------------------------------------- arguments */

#define IS(literal) (length == sizeof literal - 1 && !memcmp(name, literal, sizeof literal - 1))

static void empty_arguments(columns *c, int64_t row) {
    for (int i = 0; i < ARGUMENT_NUMBERS; i++) c->argument_numbers[i][row] = c->null_number;
    for (int i = 0; i < ARGUMENT_TEXTS; i++) c->argument_texts[i][row] = NO_TEXT;
}

static int64_t argument_row(scan *s, event *e) {
    if (!e->argument) {
        e->argument = (int32_t)s->columns->arguments++;
        empty_arguments(s->columns, e->argument);
    }
    return e->argument;
}

static const uint8_t *read_whole(scan *s, const uint8_t *at, int64_t *value) {
    number n;
    at = skip_blanks(at);
    if (!starts_number(*at)) return unexpected(s);
    if (!(at = read_number(&s->json, at, &n))) return NULL;
    return to_whole(&n, value) ? at : unexpected(s);
}

static int argument_number_of(const uint8_t *name, int64_t length) {
    switch (length) {
    case 4: return IS("Addr") ? ADDRESS : -1;
    case 5: return IS("bytes") ? BYTES : IS("Bytes") ? ALLOCATED : -1;
    case 9: return IS("Device Id") ? DEVICE : -1;
    case 11: return IS("Device Type") ? DEVICE_TYPE : -1;
    case 13: return IS("Fwd thread id") ? FORWARD_THREAD : IS("shared memory") ? SHARED : -1;
    case 14: return IS("Total Reserved") ? TOTAL_RESERVED : -1;
    case 15: return IS("Sequence number") ? SEQUENCE : IS("Total Allocated") ? TOTAL_ALLOCATED : -1;
    case 20: return IS("registers per thread") ? REGISTERS : -1;
    case 25: return IS("est. achieved occupancy %") ? OCCUPANCY : -1;
    default: return -1;
    }
}

static int argument_text_of(const uint8_t *name, int64_t length) {
    switch (length) {
    case 4: return IS("grid") ? GRID : -1;
    case 5: return IS("block") ? BLOCK : -1;
    case 10: return IS("Input Dims") ? DIMS : IS("Input dims") ? OLD_DIMS : IS("Input type") ? TYPES : -1;
    default: return -1;
    }
}

static const uint8_t *read_argument(scan *s, const uint8_t *at, event *e, const uint8_t *name, int64_t length) {
    int which;
    if (IS("correlation")) return read_whole(s, at, &e->correlation);
    if (IS("External id")) return read_whole(s, at, &e->external);
    if ((which = argument_number_of(name, length)) >= 0)
        return read_whole(s, at, &s->columns->argument_numbers[which][argument_row(s, e)]);
    if ((which = argument_text_of(name, length)) >= 0) {
        const uint8_t *start = skip_blanks(at);
        if (!(at = skip_value(&s->json, start, 2))) return NULL;
        int32_t number = number_of(&s->scanner->tables[which < GRID ? OP_TEXTS : WORK_TEXTS], start, at - start);
        if (number < 0) return failed(&s->json, number);
        s->columns->argument_texts[which][argument_row(s, e)] = number;
        return at;
    }
    return skip_value(&s->json, at, 2);
}

static const uint8_t *read_arguments(scan *s, const uint8_t *at, event *e) {
    span name;
    uint64_t shape = s->scanner->seed;
    const uint8_t *begin = at = skip_blanks(at);
    /* Of arguments that an event has twice the later ones alone count. */
    if (*at != '{' || e->has_arguments) return unexpected(s);
    e->has_arguments = 1;
    at = skip_blanks(at + 1);
    if (*at == '}') return at + 1;
    for (;;) {
        at = skip_blanks(at);
        if (!(at = read_text(&s->json, at, &name)) || !(at = skip_sign(&s->json, at, ':'))) return NULL;
        if (name.has_escape) return unexpected(s);
        shape = with_name(shape, &name);
        if (!(at = read_argument(s, at, e, name.start, name.length))) return NULL;
        at = skip_blanks(at);
        if (*at == '}') return has_distinct_keys(s, begin, shape) ? at + 1 : unexpected(s);
        if (*at != ',') return failed(&s->json, DAMAGED);
        at++;
    }
}

/* ---------------------------------------------------------------- fields of events */

static const uint8_t *read_time(scan *s, const uint8_t *at, number *time, int *has_time) {
    at = skip_blanks(at);
    if (!starts_number(*at)) return unexpected(s);
    *has_time = 1;
    return read_number(&s->json, at, time);
}

/* A process or thread, as it stands in the file: a number, a text with its quotes, or null. */
static const uint8_t *read_token(scan *s, const uint8_t *at, const uint8_t **start, int64_t *length) {
    number n;
    span text;
    *start = at = skip_blanks(at);
    if (starts_number(*at)) {
        if (!(at = read_number(&s->json, at, &n))) return NULL;
        if (n.is_long) return unexpected(s);
    } else if (*at == '"') {
        if (!(at = read_text(&s->json, at, &text))) return NULL;
    } else if (*at == 'n') {
        if (!(at = skip_word(&s->json, at, "null", 4))) return NULL;
    } else {
        return unexpected(s);
    }
    *length = at - *start;
    return at;
}

static const uint8_t *read_id(scan *s, const uint8_t *at, event *e) {
    number n;
    at = skip_blanks(at);
    e->id = NO_NUMBER;
    e->id_kind = *at == 'n' ? NO_ID : OTHER_ID;
    if (*at == '"' || *at == 'n') return skip_value(&s->json, at, 1);
    if (!starts_number(*at)) return unexpected(s);
    if (!(at = read_number(&s->json, at, &n))) return NULL;
    if (n.is_whole && !n.is_long && n.digits <= (uint64_t)INT64_MAX) {
        e->id = n.is_negative ? -(int64_t)n.digits : (int64_t)n.digits;
        e->id_kind = WHOLE_NUMBER;
    }
    return at;
}

static const uint8_t *read_scope(scan *s, const uint8_t *at, event *e) {
    span text;
    if (!(at = read_text(&s->json, skip_blanks(at), &text))) return NULL;
    if (text.length > 1 && *text.start == '\\') return unexpected(s);
    /* A scope of one letter is one; of any other text nothing is known. */
    e->scope = text.length == 1 ? *text.start : 0;
    return at;
}

static const uint8_t *read_name(scan *s, const uint8_t *at, event *e) {
    span text;
    if (!(at = read_text(&s->json, skip_blanks(at), &text))) return NULL;
    e->name = number_of(&s->scanner->tables[NAMES], text.start, text.length);
    return e->name >= 0 ? at : failed(&s->json, e->name);
}

/* Names of fields as the bytes of a number, the first one lowest. */
#define NAME2(a, b) ((uint64_t)(a) | (uint64_t)(b) << 8)
#define NAME3(a, b, c) (NAME2(a, b) | (uint64_t)(c) << 16)
#define NAME4(a, b, c, d) (NAME3(a, b, c) | (uint64_t)(d) << 24)

static uint64_t short_name(const uint8_t *name, int64_t length) {
    uint64_t word = 0;
    for (int64_t i = 0; i < length; i++) word |= (uint64_t)name[i] << 8 * i;
    return word;
}

/* Passes the name of a field and its colon; the bytes of a name of up to four, 0 for a longer one. */
static const uint8_t *read_field_name(scan *s, const uint8_t *at, event *e, uint64_t *word) {
    span name;
    if (!(at = read_text(&s->json, at, &name)) || !(at = skip_sign(&s->json, at, ':'))) return NULL;
    if (name.has_escape) return unexpected(s);
    e->shape = with_name(e->shape, &name);
    *word = name.length <= 4 ? short_name(name.start, name.length) : 0;
    return at;
}

/* Reads the value of a field by its name; `*is_known` says whether it is one of those that are looked for. */
static inline const uint8_t *read_known_field(scan *s, const uint8_t *at, event *e, uint64_t name, int *is_known) {
    *is_known = 1;
    switch (name) {
    case NAME2('t', 's'): return read_time(s, at, &e->time, &e->has_time);
    case NAME2('p', 'h'): return read_text(&s->json, skip_blanks(at), &e->phase);
    case NAME2('i', 'd'): return read_id(s, at, e);
    case NAME3('d', 'u', 'r'): return read_time(s, at, &e->duration, &e->has_duration);
    case NAME3('p', 'i', 'd'): return read_token(s, at, &e->process, &e->process_length);
    case NAME3('t', 'i', 'd'): return read_token(s, at, &e->thread, &e->thread_length);
    case NAME3('c', 'a', 't'): return read_text(&s->json, skip_blanks(at), &e->category);
    case NAME4('n', 'a', 'm', 'e'): return read_name(s, at, e);
    case NAME4('a', 'r', 'g', 's'): return read_arguments(s, at, e);
    case 's': return read_scope(s, at, e);
    default: *is_known = 0; return at;
    }
}

/* Reads a field of an event, its name and its value. */
static const uint8_t *read_field(scan *s, const uint8_t *at, event *e) {
    uint64_t word;
    int is_known;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    /* The usual names at once: no more than four bytes, and the colon right behind them. */
    if (s->json.end - at > 8 && *at == '"') {
        uint64_t bytes = eight_bytes(at + 1), quotes = bytes ^ (ONES * '"');
        uint64_t marks = (quotes - ONES) & ~quotes & (HIGHS >> 24);
        int length = marks ? __builtin_ctzll(marks) / 8 : 0;
        if (length && at[length + 2] == ':') {
            uint64_t name = bytes & ((1ull << 8 * length) - 1);
            const uint8_t *behind = read_known_field(s, at + length + 3, e, name, &is_known);
            if (is_known) {
                e->shape = with_key(e->shape, name, 0, 0);
                return behind;
            }
        }
    }
#endif
    if (!(at = read_field_name(s, at, e, &word))) return NULL;
    at = read_known_field(s, at, e, word, &is_known);
    return is_known ? at : skip_value(&s->json, at, 1);
}

/* ---------------------------------------------------------------- events to rows */

#define SHORT_KEY 512
#define STEP 16

/* Puts a stretch of bytes and a zero behind it; returns what is behind both. */
static inline uint8_t *put(const scan *s, uint8_t *to, const uint8_t *from, int64_t length) {
    /* Without a call where that is all it takes; what is too much is written over. */
    if (length <= STEP && s->json.end - from >= STEP)
        memcpy(to, from, STEP);
    else
        memcpy(to, from, (size_t)length);
    to[length] = 0;
    return to + length + 1;
}

/* What an event is: phase, category, process and thread, with zero bytes between, as none of them can hold one. */
static int32_t key_number(scan *s, const event *e) {
    uint8_t small[SHORT_KEY + STEP], *key = small;
    int64_t length = e->phase.length + e->category.length + e->process_length + e->thread_length + 3;
    if (length >= SHORT_KEY && !(key = malloc((size_t)length + 1 + STEP))) return NO_MEMORY;
    uint8_t *at = put(s, key, e->phase.start, e->phase.length);
    at = put(s, at, e->category.start, e->category.length);
    at = put(s, at, e->process, e->process_length);
    put(s, at, e->thread, e->thread_length);
    int32_t number = number_of(&s->scanner->tables[KEYS], key, length);
    if (key != small) free(key);
    return number;
}

static int is_text(const span *text, const char *literal, int64_t length) {
    return text->length == length && !memcmp(text->start, literal, (size_t)length);
}

static uint8_t class_of(const scan *s, const event *e) {
    uint8_t class = s->columns->class_of_letter[e->phase.length ? *e->phase.start : 0];
    /* torch 2.14 writes some instants as slices until the end of the recording. */
    return class == SLICE && is_text(&e->category, "cpu_instant_event", 17) ? INSTANT : class;
}

/* Keeps the other reading of a time, in case a later one of the block shows that digits count; 0 for no memory. */
static int doubt(scan *s, int64_t *time, int64_t by_digits) {
    scanner *own = s->scanner;
    if (own->doubtful_count == own->doubtful_room) {
        int64_t room = 2 * own->doubtful_room + 256;
        doubtful_time *moved = realloc(own->doubtful, (size_t)room * sizeof *moved);
        if (!moved) return 0;
        own->doubtful = moved;
        own->doubtful_room = room;
    }
    own->doubtful[own->doubtful_count++] = (doubtful_time){time, by_digits};
    return 1;
}

/* Whether a number of microseconds has one reading in ns, by its digits and by its double. */
static inline int is_plain(const number *n) {
    if (n->is_long || n->exponent > 0 || n->exponent < -3) return 0;
    return n->digits < (uint64_t)NEAR_US || (n->exponent == 0 && n->digits < (1ull << 53));
}

/* A time in ns as Python makes it of doubles: of the digits where one of the block needs them, else of the double. */
static int put_time(scan *s, const number *n, double micros, int64_t *time) {
    int64_t by_digits = to_nanoseconds(n), whole = (int64_t)micros;
    if (fabs(micros) >= FAR_US && micros != (double)whole) s->is_far = 1;
    *time = by_digits;
    if (s->is_far || is_plain(n)) return 0;
    whole -= micros < (double)whole;
    *time = whole * 1000 + (int64_t)rint((micros - (double)whole) * 1000);
    return *time == by_digits || doubt(s, time, by_digits) ? 0 : NO_MEMORY;
}

/* A duration in ns; 0 for one that is read elsewhere. */
static int put_duration(const event *e, int64_t *dur) {
    const number *n = &e->duration;
    double micros;
    *dur = NO_DURATION;
    if (!e->has_duration) return 1;
    if (is_plain(n) && n->digits < (uint64_t)NEAR_US) {
        *dur = to_nanoseconds(n);
    } else {
        if (!to_double(n, &micros)) return 0;
        *dur = (int64_t)rint(fmax(-MAX_TIME_US, fmin(micros, MAX_TIME_US)) * 1000);
    }
    if (*dur < 0) *dur = NEGATIVE_DURATION;
    return 1;
}

/* Adds a slice, whose start has been put. */
static int put_slice(scan *s, const event *e, int32_t key) {
    columns *c = s->columns;
    int64_t row = c->slices;
    if (!put_duration(e, &c->dur[row])) return UNEXPECTED;
    c->correlation[row] = e->correlation;
    c->external[row] = e->external;
    c->name[row] = e->name;
    c->key[row] = key;
    c->event[row] = (int32_t)c->events;
    c->argument[row] = e->argument;
    c->slices++;
    return 0;
}

static void put_other(scan *s, const event *e, const uint8_t *end, int32_t key, uint8_t class) {
    columns *c = s->columns;
    int64_t row = c->others++;
    c->other_id[row] = e->id;
    c->other_name[row] = e->name;
    c->other_key[row] = key;
    c->other_event[row] = (int32_t)c->events;
    c->other_argument[row] = e->argument;
    c->other_begin[row] = (int32_t)(e->begin - s->data);
    c->other_end[row] = (int32_t)(end - s->data);
    c->other_class[row] = class;
    c->other_id_kind[row] = e->id_kind;
    c->other_scope[row] = e->scope;
}

/* Adds an event that ends before `end`; a reason where it is read elsewhere. */
static int put_event(scan *s, const event *e, const uint8_t *end) {
    columns *c = s->columns;
    double micros = NAN, ignored;
    int reason;
    if (e->name < 0 || (e->has_time && !to_double(&e->time, &micros))) return UNEXPECTED;
    /* The category could be that of instants once it is decoded. */
    if (e->phase.has_escape || (e->category.has_escape && e->phase.length && *e->phase.start == 'X')) return UNEXPECTED;
    int32_t key = key_number(s, e);
    if (key < 0) return key;
    uint8_t class = class_of(s, e);
    int is_timed = fabs(micros) < MAX_TIME_US, is_slice = class == SLICE && is_timed;
    int64_t *time = is_slice ? &c->start[c->slices] : &c->other_time[c->others];
    *time = NO_TIME;
    if (is_timed && (reason = put_time(s, &e->time, micros, time)) < 0) return reason;
    if (is_slice) return put_slice(s, e, key);
    /* What is not a slice needs no duration, but one that cannot be read may be damage. */
    if (e->has_duration && !to_double(&e->duration, &ignored)) return UNEXPECTED;
    put_other(s, e, end, key, class);
    return 0;
}

static const uint8_t *read_event(scan *s, const uint8_t *at) {
    columns *c = s->columns;
    event e;
    int reason;
    if (c->slices >= c->capacity || c->others >= c->capacity || c->arguments > c->capacity) return failed(&s->json, TOO_MANY);
    e.begin = at;
    e.phase = e.category = (span){at, 0, 0};
    e.process = e.thread = at;
    e.process_length = e.thread_length = 0;
    e.has_time = e.has_duration = e.has_arguments = 0;
    e.id = NO_NUMBER;
    e.correlation = e.external = c->default_id;
    e.name = NO_TEXT;
    e.argument = 0;
    e.id_kind = NO_ID;
    e.scope = 0;
    e.shape = ~s->scanner->seed;
    at = skip_blanks(at + 1);
    if (*at == '}') return unexpected(s);
    for (;;) {
        at = skip_blanks(at);
        if (!(at = read_field(s, at, &e))) return NULL;
        at = skip_blanks(at);
        if (*at == '}') break;
        if (*at != ',') return failed(&s->json, DAMAGED);
        at++;
    }
    if (!has_distinct_keys(s, e.begin, e.shape)) return unexpected(s);
    if ((reason = put_event(s, &e, at + 1)) < 0) return failed(&s->json, reason);
    c->events++;
    return at + 1;
}

/* ---------------------------------------------------------------- blocks */

/* Reads a block that begins and ends with a bracket; a reason below 0 where that fails. */
static int read_block(scan *s, const uint8_t *at) {
    for (;;) {
        at = skip_blanks(at + 1);
        if (*at != '{') return NOT_AN_ARRAY;
        if (!(at = read_event(s, at))) return s->json.reason;
        at = skip_blanks(at);
        if (*at == ']') return at + 1 == s->json.end ? 0 : NOT_AN_ARRAY;
        if (*at != ',') return DAMAGED;
    }
}

/* Fills the columns with one block; where that fails they stay as they were. */
static int scan_block(scanner *scanner, const uint8_t *data, int64_t begin, int64_t end, columns *c) {
    scan s = {.json = {.end = data + end}, .data = data, .scanner = scanner, .columns = c};
    int64_t counts[TABLES], events = c->events, slices = c->slices, others = c->others, arguments = c->arguments;
    if (end - begin < 2 || end > INT32_MAX || data[begin] != '[' || data[end - 1] != ']') return NOT_AN_ARRAY;
    if (c->blocks >= c->block_capacity) return TOO_MANY;
    for (int i = 0; i < TABLES; i++) counts[i] = scanner->tables[i].count;
    scanner->doubtful_count = 0;
    if (!arguments) empty_arguments(c, c->arguments++);
    int reason = read_block(&s, data + begin);
    if (reason < 0) {
        for (int i = 0; i < TABLES; i++) forget_texts(&scanner->tables[i], counts[i]);
        c->events = events;
        c->slices = slices;
        c->others = others;
        c->arguments = arguments;
        return reason;
    }
    if (s.is_far)
        for (int64_t i = 0; i < scanner->doubtful_count; i++) *scanner->doubtful[i].time = scanner->doubtful[i].by_digits;
    c->block_events[c->blocks] = c->events;
    c->block_slices[c->blocks] = c->slices;
    c->block_others[c->blocks++] = c->others;
    return 0;
}

/* ---------------------------------------------------------------- the interface */

scanner *tracetui_scanner(uint64_t seed) {
    scanner *made = calloc(1, sizeof *made);
    if (made) {
        made->seed = seed;
        for (int i = 0; i < TABLES; i++) made->tables[i].seed = seed;
    }
    return made;
}

void tracetui_free(scanner *made) {
    if (!made) return;
    for (int i = 0; i < TABLES; i++) {
        free(made->tables[i].bytes);
        free(made->tables[i].texts);
        free(made->tables[i].slots);
    }
    free(made->doubtful);
    free(made);
}

/* Adds a block to the columns, `[{...},{...}]`; returns 0, or the reason why it is to be read another way. */
int32_t tracetui_scan(scanner *scanner, const uint8_t *data, int64_t size, columns *columns) {
    return scan_block(scanner, data, 0, size, columns);
}

/* The same for blocks that lie one behind the other: block `i` is `data[bounds[i]..bounds[i + 1]]`, and each bound is a
 * comma that is both the closing bracket of one block and the opening one of the next. Stops at the first block that is
 * to be read another way, and returns how many were added. */
int64_t tracetui_scan_all(scanner *scanner, uint8_t *data, const int64_t *bounds, int64_t count, columns *columns) {
    for (int64_t i = 0; i < count; i++) {
        uint8_t first = data[bounds[i]], last = data[bounds[i + 1]];
        data[bounds[i]] = '[';
        data[bounds[i + 1]] = ']';
        int reason = scan_block(scanner, data, bounds[i], bounds[i + 1] + 1, columns);
        data[bounds[i]] = first;
        data[bounds[i + 1]] = last;
        if (reason) return i;
    }
    return count;
}

/* How many texts a table has. */
int64_t tracetui_count(const scanner *scanner, int32_t table) { return scanner->tables[table].count; }

/* The texts of a table from one on, one behind the other until the next scan; fills in the length of each. */
const uint8_t *tracetui_texts(const scanner *scanner, int32_t table, int64_t first, int64_t *lengths) {
    const text_table *own = &scanner->tables[table];
    for (int64_t i = first; i < own->count; i++) lengths[i - first] = own->texts[i].length;
    return own->bytes + own->texts[first].start;
}

#ifndef SOURCE_CHECKSUM
#define SOURCE_CHECKSUM 0
#endif

/* Checksum of the sources, so that a library of older ones is told from that of these. */
uint32_t tracetui_source(void) { return SOURCE_CHECKSUM; }
