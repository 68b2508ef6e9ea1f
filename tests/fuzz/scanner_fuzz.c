/* Scans mutated blocks of events under AddressSanitizer and UndefinedBehaviorSanitizer: `make fuzz-scanner`.
 *
 * scanner_fuzz SECONDS SEED FILE...   Each file holds a block. A buffer is exactly as long as its block, so that a byte
 * read beyond it ends the run. Columns are short, so that blocks with too many events occur.
 */
#include <stdio.h>
#include <time.h>

#include "../../tracetui/reading/scanner/scanner.c"

#define CAPACITY 64
#define BLOCKS 4

static uint64_t state;
static uint8_t **blocks;
static int64_t *sizes;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t limit) { return limit ? next_random() % limit : 0; }

static void *exactly(size_t size) {
    void *made = malloc(size);
    if (!made) abort();
    return made;
}

static columns *made_columns(void) {
    static uint8_t class_of_letter[256];
    columns *c = exactly(sizeof *c);
    memset(c, 0, sizeof *c);
    c->capacity = CAPACITY;
    c->block_capacity = BLOCKS;
    int32_t **short_ones[] = {&c->name, &c->key, &c->event, &c->argument, &c->other_name, &c->other_key, &c->other_event,
                              &c->other_argument, &c->other_begin, &c->other_end};
    for (size_t i = 0; i < sizeof short_ones / sizeof *short_ones; i++) *short_ones[i] = exactly(CAPACITY * 4);
    int64_t **long_ones[] = {&c->start, &c->dur, &c->correlation, &c->external, &c->other_time, &c->other_id};
    for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) *long_ones[i] = exactly(CAPACITY * 8);
    uint8_t **bytes[] = {&c->other_class, &c->other_id_kind, &c->other_scope};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) *bytes[i] = exactly(CAPACITY);
    int64_t **ends[] = {&c->block_events, &c->block_slices, &c->block_others};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) *ends[i] = exactly(BLOCKS * 8);
    for (int i = 0; i < ARGUMENT_NUMBERS; i++) c->argument_numbers[i] = exactly((CAPACITY + 1) * 8);
    for (int i = 0; i < ARGUMENT_TEXTS; i++) c->argument_texts[i] = exactly((CAPACITY + 1) * 4);
    memset(class_of_letter, 8, sizeof class_of_letter);
    class_of_letter['X'] = SLICE;
    class_of_letter['i'] = INSTANT;
    c->class_of_letter = class_of_letter;
    c->default_id = -1;
    c->null_number = NO_NUMBER;
    return c;
}

/* Ends the run where a row of the columns is not possible. */
static void check(const scanner *made, const columns *c, int64_t length) {
    static int64_t lengths[1 << 20];
    int64_t names = tracetui_count(made, NAMES), keys = tracetui_count(made, KEYS);
    if (c->events != c->slices + c->others || c->events > 2 * CAPACITY || c->arguments > CAPACITY + 1) abort();
    for (int64_t row = 0; row < c->slices; row++) {
        if (c->name[row] < 0 || c->name[row] >= names || c->key[row] < 0 || c->key[row] >= keys) abort();
        if (c->start[row] == NO_TIME || c->dur[row] < NEGATIVE_DURATION) abort();
        if (c->argument[row] < 0 || c->argument[row] >= c->arguments) abort();
    }
    for (int64_t row = 0; row < c->others; row++) {
        if (c->other_begin[row] < 0 || c->other_end[row] > length || c->other_begin[row] >= c->other_end[row]) abort();
        if (c->other_name[row] < 0 || c->other_name[row] >= names || c->other_key[row] < 0 || c->other_key[row] >= keys) abort();
        if (c->other_argument[row] < 0 || c->other_argument[row] >= c->arguments) abort();
    }
    if (names && names < 1 << 20) tracetui_texts(made, NAMES, 0, lengths);
}

/* Scans a block as it is, or as several between some of its commas; returns how many were scanned. */
static int64_t scanned(scanner *made, uint8_t *block, int64_t length, columns *c) {
    int64_t bounds[BLOCKS + 2] = {0}, count = 0;
    c->events = c->slices = c->others = c->arguments = c->blocks = 0;
    if (length < 2 || below(2)) return tracetui_scan(made, block, length, c) == 0;
    for (int64_t at = 1; at < length - 1 && count < BLOCKS; at++)
        if (block[at] == ',' && block[at - 1] == '}' && below(6) == 0) bounds[++count] = at;
    bounds[++count] = length - 1;
    return tracetui_scan_all(made, block, bounds, count, c);
}

static const char *const PIECES[] = {"\"", "\\", "\\u", "{", "}", "[", "]", ",", ":", "-", "1e300", "0.5", "9999999999999999999",
                                     "null", "true", "\xff", "\xf0\x9f\x98\x80", "\"ts\":", "\"args\":{", "\"grid\":[1,2]", " "};

static uint8_t *mutated(const uint8_t *block, int64_t size, int64_t *length) {
    int64_t first = 0, last = size;
    if (below(3) == 0) first = (int64_t)below((uint64_t)size);
    if (below(2) == 0) last = first + (int64_t)below((uint64_t)(size - first) + 1);
    uint8_t *made = exactly((size_t)(last - first) + 1024);
    int64_t filled = last - first;
    memcpy(made, block + first, (size_t)filled);
    for (uint64_t changes = below(6); changes; changes--) {
        int64_t at = (int64_t)below((uint64_t)filled + 1);
        const char *piece = PIECES[below(sizeof PIECES / sizeof *PIECES)];
        int64_t size_of_piece = (int64_t)strlen(piece);
        if (below(2) && at < filled) {
            made[at] = (uint8_t)next_random();
        } else if (size_of_piece < 1024 && filled + size_of_piece < last - first + 1024) {
            memmove(made + at + size_of_piece, made + at, (size_t)(filled - at));
            memcpy(made + at, piece, (size_t)size_of_piece);
            filled += size_of_piece;
        }
    }
    uint8_t *exact = exactly((size_t)filled);
    memcpy(exact, made, (size_t)filled);
    free(made);
    *length = filled;
    return exact;
}

static uint8_t *contents(const char *path, int64_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) exit(2);
    fseek(file, 0, SEEK_END);
    *size = ftell(file);
    rewind(file);
    uint8_t *block = exactly((size_t)*size);
    if (fread(block, 1, (size_t)*size, file) != (size_t)*size) exit(2);
    fclose(file);
    return block;
}

int main(int count, char **given) {
    if (count < 4) return 2;
    double seconds = atof(given[1]);
    state = strtoull(given[2], NULL, 10) | 1;
    int files = count - 3;
    blocks = exactly((size_t)files * sizeof *blocks);
    sizes = exactly((size_t)files * sizeof *sizes);
    for (int i = 0; i < files; i++) blocks[i] = contents(given[3 + i], &sizes[i]);
    scanner *made = tracetui_scanner(state);
    static columns *c;
    c = made_columns();
    uint64_t runs = 0, scanned_blocks = 0;
    while ((double)clock() / CLOCKS_PER_SEC < seconds) {
        int which = (int)below((uint64_t)files);
        int64_t length;
        uint8_t *block = mutated(blocks[which], sizes[which], &length);
        scanned_blocks += (uint64_t)scanned(made, block, length, c);
        check(made, c, length);
        free(block);
        if (++runs % 100000 == 0) {
            tracetui_free(made);
            made = tracetui_scanner(next_random());
        }
    }
    tracetui_free(made);
    printf("%llu blocks, %llu of them scanned whole, nothing found\n", (unsigned long long)runs,
           (unsigned long long)scanned_blocks);
    return 0;
}
