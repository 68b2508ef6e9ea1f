/* Nests sorted intervals: parents, depths, rows and self times, as `intervals.py` defines them; and searches in columns.
 *
 * Every function works on columns that the caller allocated, and returns 0, or -1 where the input is not what it must
 * be: then nothing of the output counts. Nothing outside of the columns is read or written.
 */
#include <stdint.h>
#include <stdlib.h>

#define NONE (-1)

typedef struct {
    int64_t start, end;
    int64_t close;  /* end for nesting: clipped to the parent's, or cut where a longer interval takes over */
    int64_t row;
    int64_t depth;
    int64_t level;  /* row to draw on: the depth, or further down where something else is still open */
} open_interval;

/* Columns that are filled, with an entry for every row; what is not wanted is NULL. */
typedef struct {
    int64_t *parent, *depth, *level, *close, *cut_by;
    int32_t *short_parent;
    int16_t *short_depth, *short_level; /* at most INT16_MAX */
    int64_t *self_time;                 /* comes filled with durations */
    int64_t overlaps;                   /* intervals that start inside another and outlast it */
} nested_columns;

/* The difference of two times of which the first is not the smaller one; it may not fit an int64. */
static uint64_t beyond(int64_t later, int64_t earlier) { return (uint64_t)later - (uint64_t)earlier; }

static int64_t sum(int64_t one, int64_t other) { return (int64_t)((uint64_t)one + (uint64_t)other); }

static void spend(const nested_columns *made, const open_interval *owner, int64_t start, int64_t end) {
    if (made->self_time)
        made->self_time[owner->row] = (int64_t)((uint64_t)made->self_time[owner->row] - beyond(end, start));
}

static void put(const nested_columns *made, const open_interval *mine, int64_t parent) {
    if (made->parent) made->parent[mine->row] = parent;
    if (made->depth) made->depth[mine->row] = mine->depth;
    if (made->level) made->level[mine->row] = mine->level;
    if (made->close) made->close[mine->row] = mine->close;
    if (made->cut_by) made->cut_by[mine->row] = NONE;
    if (made->short_parent) made->short_parent[mine->row] = (int32_t)parent;
    if (made->short_depth) made->short_depth[mine->row] = (int16_t)(mine->depth < INT16_MAX ? mine->depth : INT16_MAX);
    if (made->short_level) made->short_level[mine->row] = (int16_t)(mine->level < INT16_MAX ? mine->level : INT16_MAX);
}

typedef struct {
    open_interval *items;
    size_t room;
} open_stack;

static int has_room(open_stack *stack, size_t height) {
    if (height < stack->room) return 1;
    size_t room = stack->room ? 2 * stack->room : 1024;
    open_interval *items = room > SIZE_MAX / sizeof *items ? 0 : realloc(stack->items, room * sizeof *items);
    if (!items) return 0;
    stack->items = items;
    stack->room = room;
    return 1;
}

/* Nest the rows of one stretch. On the stack every interval lies directly above its parent, if it has one. */
static int32_t nest_stretch(int64_t head, int64_t tail, const int64_t *start, const int64_t *dur, uint64_t tolerance,
                            nested_columns *made, open_stack *opened) {
    size_t height = 0;
    for (int64_t row = head; row < tail; row++) {
        open_interval mine = {start[row], sum(start[row], dur[row]), 0, row, 0, 0};
        int64_t parent = NONE, above = NONE, has_cut = 0;
        if (!has_room(opened, height)) return -1;
        open_interval *stack = opened->items;
        mine.close = mine.end;
        while (height) {
            open_interval *top = &stack[height - 1];
            const open_interval *owner = height > 1 ? top - 1 : 0;
            if (mine.start >= top->close && mine.start != top->start) {
                if (owner) spend(made, owner, top->start, top->close);
                height--;
                continue;
            }
            if (mine.end <= top->close || beyond(mine.end, top->close) <= tolerance) {
                parent = top->row;
                mine.depth = top->depth + 1;
                if (top->level > above) above = top->level;
                if (mine.end > top->close) mine.close = top->close;
                break;
            }
            if (top->level > above) above = top->level;
            /* Parent and child cut by the same newcomer: seen from the parent, the child was never cut. */
            has_cut = 1;
            if (owner) {
                int is_open = mine.start < owner->close || mine.start == owner->start;
                int is_cut = is_open && mine.end > owner->close && beyond(mine.end, owner->close) > tolerance;
                int64_t whole = top->end < owner->end ? top->end : owner->end;
                spend(made, owner, top->start, is_cut ? whole : mine.start);
            }
            if (made->close) made->close[top->row] = mine.start;
            if (made->cut_by) made->cut_by[top->row] = row;
            height--;
        }
        mine.level = above + 1;
        put(made, &mine, parent);
        made->overlaps += has_cut;
        stack[height++] = mine;
    }
    for (; height > 1; height--) {
        const open_interval *top = &opened->items[height - 1];
        spend(made, top - 1, top->start, top->close);
    }
    if (made->self_time)
        for (int64_t row = head; row < tail; row++)
            if (made->self_time[row] < 0) made->self_time[row] = 0;
    return 0;
}

/* Nest stretches [heads[i], tails[i]) of rows, which are sorted by start, longest first. */
static int32_t nest_all(int64_t count, int64_t stretches, const int64_t *heads, const int64_t *tails, const int64_t *start,
                        const int64_t *dur, uint64_t tolerance, nested_columns *made) {
    open_stack opened = {0, 0};
    int32_t failed = 0;
    for (int64_t i = 0; i < stretches && !failed; i++) {
        failed = heads[i] < 0 || heads[i] > tails[i] || tails[i] > count ? -1 : 0;
        if (!failed) failed = nest_stretch(heads[i], tails[i], start, dur, tolerance, made, &opened);
    }
    free(opened.items);
    return failed;
}

int32_t tracetui_nest(int64_t count, int64_t stretches, const int64_t *heads, const int64_t *tails, const int64_t *start,
                      const int64_t *dur, uint64_t tolerance, int64_t *parent, int64_t *depth, int64_t *level,
                      int64_t *close, int64_t *cut_by) {
    nested_columns made = {parent, depth, level, close, cut_by, 0, 0, 0, 0, 0};
    return nest_all(count, stretches, heads, tails, start, dur, tolerance, &made);
}

/* The same with what slices keep of it; `self_time` comes filled with durations. Returns the number of overlaps. */
int64_t tracetui_nest_slices(int64_t count, int64_t stretches, const int64_t *heads, const int64_t *tails,
                             const int64_t *start, const int64_t *dur, uint64_t tolerance, int32_t *parent, int16_t *depth,
                             int16_t *level, int64_t *self_time) {
    nested_columns made = {0, 0, 0, 0, 0, parent, depth, level, self_time, 0};
    if (count > INT32_MAX) return -1;
    return nest_all(count, stretches, heads, tails, start, dur, tolerance, &made) ? -1 : made.overlaps;
}

/* Number of ancestors of every node; parents stand before their children. */
int32_t tracetui_depths(int64_t count, const int64_t *parent, int64_t *depth) {
    for (int64_t node = 0; node < count; node++) {
        if (parent[node] >= node) return -1;
        depth[node] = parent[node] < 0 ? 0 : depth[parent[node]] + 1;
    }
    return 0;
}

/* The closest proper ancestor of every node that is wanted, likewise. */
int32_t tracetui_nearest(int64_t count, const int64_t *parent, const uint8_t *wanted, int64_t *ancestor) {
    for (int64_t node = 0; node < count; node++) {
        int64_t above = parent[node];
        if (above >= node) return -1;
        ancestor[node] = above < 0 ? NONE : wanted[above] ? above : ancestor[above];
    }
    return 0;
}

/* The same with numbers of 32 bits, as slices have them. */
int32_t tracetui_nearest_row(int64_t count, const int32_t *parent, const uint8_t *wanted, int32_t *ancestor) {
    for (int64_t node = 0; node < count; node++) {
        int32_t above = parent[node];
        if (above >= node) return -1;
        ancestor[node] = above < 0 ? NONE : wanted[above] ? above : ancestor[above];
    }
    return 0;
}

/* The forest that some of the rows form among themselves: for each wanted row the number of the closest wanted ancestor,
 * counted among the wanted ones. `near` is room for as many numbers as there are rows. */
int32_t tracetui_forest(int64_t count, const int32_t *parent, const uint8_t *wanted, int32_t *near, int64_t nodes,
                        int64_t *above) {
    int64_t node = 0;
    for (int64_t row = 0; row < count; row++) {
        int32_t outer = parent[row];
        if (outer >= row) return -1;
        int32_t around = outer < 0 ? NONE : near[outer];
        near[row] = around;
        if (!wanted[row]) continue;
        if (node >= nodes || node > INT32_MAX) return -1;
        above[node] = around;
        near[row] = (int32_t)node++;
    }
    return node == nodes ? 0 : -1;
}

/* What is left of the duration of every node without those of its children; parents may stand anywhere. */
int32_t tracetui_self_times(int64_t count, const int64_t *parent, const int64_t *dur, int64_t *own) {
    for (int64_t node = 0; node < count; node++) own[node] = dur[node];
    for (int64_t node = 0; node < count; node++) {
        int64_t outer = parent[node];
        if (outer >= count) return -1;
        if (outer >= 0) own[outer] = (int64_t)((uint64_t)own[outer] - (uint64_t)dur[node]);
    }
    return 0;
}

/* Nodes that are the only child of a node of the same name. `children` comes filled with zeros. */
int32_t tracetui_repeats(int64_t count, const int64_t *parent, const int64_t *name, int32_t *children, uint8_t *repeats) {
    if (count > INT32_MAX) return -1;
    for (int64_t node = 0; node < count; node++) {
        if (parent[node] >= count) return -1;
        if (parent[node] >= 0) children[parent[node]]++;
    }
    for (int64_t node = 0; node < count; node++) {
        int64_t outer = parent[node];
        repeats[node] = outer >= 0 && children[outer] == 1 && name[outer] == name[node];
    }
    return 0;
}

/* For every node the sum of its value and those of all below it, in place. */
int32_t tracetui_subtree_sums(int64_t count, const int64_t *parent, double *total) {
    for (int64_t node = count - 1; node >= 0; node--) {
        if (parent[node] >= node) return -1;
        if (parent[node] >= 0) total[parent[node]] += total[node];
    }
    return 0;
}

/* The index in a column that ascends before which each value is inserted, behind equal ones if `right`. It is sought from
 * that of the previous value on, so that values which mostly ascend, as those of a lane do, are found in a few steps. */
int32_t tracetui_search(int64_t size, const int64_t *column, int64_t count, const int64_t *values, int32_t right,
                        int64_t *index) {
    int64_t at = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t value = values[i], low = 0, high = size, step = 1;
        /* All before `low` lie before the value, and `high` does not. */
        if (at < size && (right ? column[at] <= value : column[at] < value)) {
            low = at + 1;
            while (low + step < size && (right ? column[low + step] <= value : column[low + step] < value)) {
                low += step + 1;
                step *= 2;
            }
            if (low + step < size) high = low + step;
        } else {
            high = at;
            while (high - step >= 0 && !(right ? column[high - step] <= value : column[high - step] < value)) {
                high -= step;
                step *= 2;
            }
            if (high - step >= 0) low = high - step + 1;
        }
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (right ? column[middle] <= value : column[middle] < value) low = middle + 1;
            else high = middle;
        }
        index[i] = at = low;
    }
    return 0;
}

#ifndef SOURCE_CHECKSUM
#define SOURCE_CHECKSUM 0
#endif

/* Of the source that this was compiled of. */
uint32_t tracetui_source(void) { return SOURCE_CHECKSUM; }
