/* matrix_arm_unpack_body.h - packed panels unpacked into what tiles read, for the sets of kernels with whole-number
 * products.
 *
 * Included by matrix_arm_dotprod.c and matrix_arm_i8mm.c after they have said how eight columns' numbers lie in the
 * lanes of their vectors: the types lane_floats and lane_numbers, and put_floats and put_numbers, which fill them. */
#ifndef ICP_BACKEND_MATRIX_ARM_UNPACK_BODY_H
#define ICP_BACKEND_MATRIX_ARM_UNPACK_BODY_H

/* A group of a K type. */
typedef struct super_group {
    lane_floats d;
    lane_floats m;
    int8_t minima[64];
    lane_numbers scales[ICP_GROUP_BLOCKS][2];
} super_group;

/* Blocks of another type; start is -1.5 * 2^23 * d, an exact number as d was a half. */
typedef struct block_scales {
    lane_floats d[ICP_CHUNK_BLOCKS];
    union {
        lane_floats m[ICP_CHUNK_BLOCKS];
        lane_floats start[ICP_CHUNK_BLOCKS];
    } with;
} block_scales;

typedef struct chunk_scratch {
    int8_t quants[ICP_CHUNK_BLOCKS][ICP_BLOCK_VALUES * ARM_COLUMNS];
    union {
        super_group groups[ICP_CHUNK_BLOCKS / ICP_GROUP_BLOCKS];
        block_scales blocks;
    } scales;
} chunk_scratch;

static void unpack_super(const icp_format *format, icp_weight_type type, const uint8_t *packed, uint32_t block_count,
                         chunk_scratch *out)
{
    for (uint32_t b = 0; b < block_count; b++) {
        super_group *group = &out->scales.groups[b / ICP_GROUP_BLOCKS];
        if (b % ICP_GROUP_BLOCKS == 0) {
            put_floats(&group->d, arm_halves(packed), 1 / arm_unit(type));
            if (format->has_minima) {
                put_floats(&group->m, arm_halves(packed + 16), -1);
                memcpy(group->minima, packed + 32, 64);
            }
            packed += format->head * ARM_COLUMNS;
        }
        icp_arm_expand_block(type, packed, out->quants[b]);
        packed += (format->low + format->high) * ARM_COLUMNS;
        for (uint32_t i = 0; i < format->scale_count; i++, packed += ARM_COLUMNS) {
            put_numbers(&group->scales[b % ICP_GROUP_BLOCKS][i], arm_scales(packed));
        }
    }
}

static void unpack(icp_weight_type type, const uint8_t *packed, uint32_t block_count, uint8_t *scratch,
                   icp_chunk *chunk)
{
    const icp_format *format = icp_format_of(type);
    chunk_scratch *out = (chunk_scratch *)(void *)scratch;
    *chunk = (icp_chunk){.quants = out->quants[0], .quants_stride = sizeof(out->quants[0]), .scales = &out->scales};
    if (format->is_super) {
        unpack_super(format, type, packed, block_count, out);
        return;
    }
    size_t block_bytes = icp_format_group_bytes(format, 1, ARM_COLUMNS);
    if (type == ICP_WEIGHT_Q8_0) { /* quants are as the tile wants them */
        chunk->quants = (const int8_t *)packed;
        chunk->quants_stride = block_bytes;
    }
    for (uint32_t b = 0; b < block_count; b++, packed += block_bytes) {
        const uint8_t *scales = packed + (format->low + format->high) * ARM_COLUMNS;
        if (type != ICP_WEIGHT_Q8_0) icp_arm_expand_block(type, packed, out->quants[b]);
        put_floats(&out->scales.blocks.d[b], arm_halves(scales), 1 / arm_unit(type));
        if (format->has_minima) put_floats(&out->scales.blocks.with.m[b], arm_halves(scales + 16), 1);
        if (!format->has_minima)
            put_floats(&out->scales.blocks.with.start[b], arm_halves(scales), -ARM_BIAS / arm_unit(type));
    }
}

#endif
