/* ZFP's transforms of a block of four, for integers and for vectors of them. */
#ifndef LULL__ZFP_LIFT_H
#define LULL__ZFP_LIFT_H

#define MASK64 0xaaaaaaaaaaaaaaaau /* of negabinary */

/* Shifts are arithmetic; sums wrap, as libzfp's do. */
#define FORWARD_LIFT(type, utype, x, y, z, w)   \
    do {                                        \
        x = (type)((utype)x + (utype)w) >> 1;   \
        w = (type)((utype)w - (utype)x);        \
        z = (type)((utype)z + (utype)y) >> 1;   \
        y = (type)((utype)y - (utype)z);        \
        x = (type)((utype)x + (utype)z) >> 1;   \
        z = (type)((utype)z - (utype)x);        \
        w = (type)((utype)w + (utype)y) >> 1;   \
        y = (type)((utype)y - (utype)w);        \
        w = (type)((utype)w + (utype)(y >> 1)); \
        y = (type)((utype)y - (utype)(w >> 1)); \
    } while (0)

#define INVERSE_LIFT(type, utype, x, y, z, w)       \
    do {                                            \
        y = (type)((utype)y + (utype)(w >> 1));     \
        w = (type)((utype)w - (utype)(y >> 1));     \
        y = (type)((utype)y + (utype)w);            \
        w = (type)((utype)w + (utype)w - (utype)y); \
        z = (type)((utype)z + (utype)x);            \
        x = (type)((utype)x + (utype)x - (utype)z); \
        y = (type)((utype)y + (utype)z);            \
        z = (type)((utype)z + (utype)z - (utype)y); \
        w = (type)((utype)w + (utype)x);            \
        x = (type)((utype)x + (utype)x - (utype)w); \
    } while (0)

#endif
