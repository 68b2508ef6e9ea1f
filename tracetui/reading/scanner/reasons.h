/* Why a block is not scanned. */
#ifndef REASONS_H
#define REASONS_H

enum reason {
    NOT_AN_ARRAY = -1,   /* no array of objects, or something behind it */
    DAMAGED = -2,        /* not valid JSON */
    UNEXPECTED = -3,     /* valid, as far as was read, but of a type or size that is read elsewhere */
    TOO_MANY = -4,       /* more events than the columns hold */
    NO_MEMORY = -5,
};

#endif
