/* Lets go of tables that `arrow.py` lent through the Arrow C interface.
 *
 * Whoever took a table may drop it in any thread, without the GIL, while an exception is on its way, or while Python
 * shuts down: code in Python would lose the exception, or crash. Python itself is reached through pointers that it gave.
 */
#include <stdint.h>

/* The layouts of https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html. */
struct schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct schema **children, *dictionary;
    void (*release)(struct schema *);
    void *owner; /* the Python object that keeps the memory, with a reference of its own */
};

struct array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct array **children, *dictionary;
    void (*release)(struct array *);
    void *owner;
};

struct stream {
    void *get_schema, *get_next, *get_last_error;
    void (*release)(struct stream *);
    void *owner;
};

static struct {
    int (*is_initialized)(void);
    int (*take_gil)(void);
    void (*give_gil)(int);
    void (*drop)(void *);
    void *(*pointer)(void *, const char *);
    void *(*context)(void *);
} python;

/* Functions of Python's C API, in the order of the fields. */
void tracetui_python(void *const *functions) {
    void **field = (void **)&python;
    for (unsigned i = 0; i < sizeof python / sizeof *field; i++) field[i] = functions[i];
}

static void drop(void *object) {
    /* At the end of the process all memory goes. */
    if (!python.is_initialized()) return;
    int state = python.take_gil();
    python.drop(object);
    python.give_gil(state);
}

/* A child that was moved elsewhere is released there. */
#define RELEASE(KIND)                                                                                                 \
    void tracetui_release_##KIND(struct KIND *it) {                                                                   \
        for (int64_t i = 0; i < it->n_children; i++)                                                                  \
            if (it->children[i]->release) it->children[i]->release(it->children[i]);                                  \
        if (it->dictionary && it->dictionary->release) it->dictionary->release(it->dictionary);                       \
        it->release = 0;                                                                                              \
        drop(it->owner);                                                                                              \
    }
RELEASE(schema)
RELEASE(array)

void tracetui_release_stream(struct stream *it) {
    it->release = 0;
    drop(it->owner);
}

/* Ends the capsule of a stream: one that nobody took is released, and the memory of the structure goes. */
void tracetui_end_stream(void *capsule) {
    struct stream *it = python.pointer(capsule, "arrow_array_stream");
    if (it->release) it->release(it);
    drop(python.context(capsule));
}

#ifndef SOURCE_CHECKSUM
#define SOURCE_CHECKSUM 0
#endif

/* Of the source that this was compiled of. */
uint32_t tracetui_source(void) { return SOURCE_CHECKSUM; }
