/* Nests random intervals and searches random columns under AddressSanitizer and UndefinedBehaviorSanitizer.
 *
 * nesting_fuzz SECONDS SEED   Columns are exactly as long as they must be, so that an entry beyond them ends the run.
 * Some stretches and parents are wrong on purpose: these are refused.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../../tracetui/model/nesting.c"

#define MAX_ROWS 300

static uint64_t state;

static uint64_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint64_t below(uint64_t limit) { return limit ? next_random() % limit : 0; }

static void *exactly(int64_t count, size_t size) {
    void *made = malloc((size_t)count * size + !count);
    if (!made) abort();
    memset(made, 0, (size_t)count * size);
    return made;
}

static int by_value(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

/* Small, huge and extreme numbers. */
static int64_t number(void) {
    switch (below(8)) {
        case 0: return (int64_t)next_random();
        case 1: return below(2) ? INT64_MIN : INT64_MAX;
        default: return (int64_t)below(60) - 5;
    }
}

static void nest_some(int64_t count) {
    int64_t *start = exactly(count, 8), *dur = exactly(count, 8), *columns[5], *self_time = exactly(count, 8);
    int32_t *parent = exactly(count, 4);
    int16_t *depth = exactly(count, 2), *level = exactly(count, 2);
    for (int i = 0; i < 5; i++) columns[i] = exactly(count, 8);
    for (int64_t row = 0; row < count; row++) {
        start[row] = number();
        dur[row] = below(9) ? (int64_t)below(30) : number();
    }
    if (below(4)) qsort(start, (size_t)count, 8, by_value);
    memcpy(self_time, dur, (size_t)count * 8);
    int64_t middle = (int64_t)below((uint64_t)count + 1);
    int64_t heads[] = {0, middle}, tails[] = {middle, count};
    int64_t is_wrong = !below(8);
    if (is_wrong) tails[below(2)] = number();
    uint64_t tolerance = below(2) ? below(9) : next_random();
    int32_t failed = tracetui_nest(count, 2, heads, tails, start, dur, tolerance, columns[0], columns[1], columns[2], columns[3],
                                   columns[4]);
    int64_t overlaps = tracetui_nest_slices(count, 2, heads, tails, start, dur, tolerance, parent, depth, level, self_time);
    if (failed != (overlaps < 0 ? -1 : 0)) abort();
    for (int64_t row = 0; !is_wrong && row < count; row++) {
        if (failed || columns[0][row] >= row || columns[2][row] < columns[1][row] || parent[row] != columns[0][row]) abort();
        if (depth[row] != columns[1][row] || level[row] != columns[2][row] || self_time[row] < 0) abort();
    }
    for (int i = 0; i < 5; i++) free(columns[i]);
    free(start), free(dur), free(self_time), free(parent), free(depth), free(level);
}

static void climb_some(int64_t count) {
    int64_t *parent = exactly(count, 8), *made = exactly(count, 8);
    uint8_t *wanted = exactly(count, 1);
    double *total = exactly(count, 8);
    for (int64_t row = 0; row < count; row++) {
        parent[row] = below(40) ? (int64_t)below((uint64_t)row + 1) - 1 : number();
        wanted[row] = below(2) != 0;
        total[row] = (double)below(9);
    }
    tracetui_depths(count, parent, made);
    tracetui_nearest(count, parent, wanted, made);
    tracetui_subtree_sums(count, parent, total);
    int32_t *short_parent = exactly(count, 4), *ancestor = exactly(count, 4);
    for (int64_t row = 0; row < count; row++) short_parent[row] = (int32_t)parent[row];
    tracetui_nearest_row(count, short_parent, wanted, ancestor);
    int64_t nodes = 0, *names = exactly(count, 8), *own = exactly(count, 8);
    int32_t *children = exactly(count, 4);
    uint8_t *repeats = exactly(count, 1);
    for (int64_t row = 0; row < count; row++) {
        nodes += wanted[row];
        names[row] = (int64_t)below(3);
    }
    if (!below(8)) nodes = (int64_t)below((uint64_t)count + 1);
    int64_t *above = exactly(nodes, 8);
    int32_t failed = tracetui_forest(count, short_parent, wanted, ancestor, nodes, above);
    for (int64_t node = 0; !failed && node < nodes; node++)
        if (above[node] >= node) abort();
    tracetui_self_times(count, parent, made, own);
    tracetui_repeats(count, parent, names, children, repeats);
    free(parent), free(made), free(wanted), free(total), free(short_parent), free(ancestor);
    free(names), free(own), free(children), free(repeats), free(above);
}

static void search_some(int64_t size, int64_t count) {
    int64_t *column = exactly(size, 8), *values = exactly(count, 8), *index = exactly(count, 8);
    for (int64_t i = 0; i < size; i++) column[i] = number();
    for (int64_t i = 0; i < count; i++) values[i] = number();
    qsort(column, (size_t)size, 8, by_value);
    if (below(2)) qsort(values, (size_t)count, 8, by_value);
    int32_t right = below(2) != 0;
    tracetui_search(size, column, count, values, right, index);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = index[i];
        if (at < 0 || at > size) abort();
        if (at && !(right ? column[at - 1] <= values[i] : column[at - 1] < values[i])) abort();
        if (at < size && (right ? column[at] <= values[i] : column[at] < values[i])) abort();
    }
    free(column), free(values), free(index);
}

int main(int count, char **given) {
    if (count != 3) return 2;
    double seconds = atof(given[1]);
    state = strtoull(given[2], NULL, 10) | 1;
    uint64_t runs = 0;
    for (; (double)clock() / CLOCKS_PER_SEC < seconds; runs++) {
        nest_some((int64_t)below(MAX_ROWS));
        climb_some((int64_t)below(MAX_ROWS));
        search_some((int64_t)below(MAX_ROWS), (int64_t)below(MAX_ROWS));
    }
    printf("%llu columns, nothing found\n", (unsigned long long)runs);
    return 0;
}
