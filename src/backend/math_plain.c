/* math_plain.c - the functions of math.h in C: the oracle that the others are compared with, and what runs where there
 * are none. Also the choice between them. */
#include "backend/math_body.h"
#include "base/cpu.h"

#include <stdlib.h>
#include <string.h>

/* 16 values of b. */
static void plain_lanes(const icp_product *self, uint32_t slab, uint32_t k, float out[LANES])
{
    if (self->b != NULL) {
        memcpy(out, self->b + slab * self->b_slab + (size_t)k * LANES, LANES * sizeof(*out));
        return;
    }
    uint32_t at = self->b_first + k;
    const uint16_t *halves = self->is_sum ? self->b_runs[at / LANES] + ((size_t)slab * LANES + at % LANES) * LANES
                                          : self->b_runs[slab] + (size_t)k * LANES;
    for (uint32_t i = 0; i < LANES; i++) out[i] = icp_half_to_float(halves[i]);
}

static void plain_product(const icp_product *self)
{
    for (uint32_t r = 0; r < self->row_count; r++) {
        const float *a = self->a + r * self->a_stride;
        for (uint32_t s = 0; s < self->slab_count; s++) {
            float *c = self->c + r * self->c_stride + s * LANES;
            float acc[LANES];
            float factor = self->factors == NULL ? 1.0f : self->factors[r];
            for (uint32_t i = 0; i < LANES; i++) acc[i] = self->is_sum ? c[i] * factor : 0.0f;
            for (uint32_t k = 0; k < self->depth; k++) {
                float b[LANES];
                plain_lanes(self, s, k, b);
                for (uint32_t i = 0; i < LANES; i++) acc[i] = fmaf(a[k], b[i], acc[i]);
            }
            for (uint32_t i = 0; i < LANES; i++) c[i] = acc[i];
        }
    }
}

static void plain_floats_of_halves(float *out, const uint16_t *in, size_t count)
{
    for (size_t i = 0; i < count; i++) out[i] = icp_half_to_float(in[i]);
}

static void plain_floats_of_bytes(float *out, const int8_t *in, const float *scales)
{
    for (uint32_t i = 0; i < LANES; i++) out[i] = (float)in[i] * scales[i];
}

const icp_math icp_math_plain = {
    .name = "plain",
    .product = plain_product,
    .softmax = math_softmax,
    .exponentials = math_exponentials,
    .gate = math_gate,
    .cap = math_cap,
    .floats_of_halves = plain_floats_of_halves,
    .floats_of_bytes = plain_floats_of_bytes,
};

float icp_math_sum(const float lanes[ICP_MATH_LANES])
{
    float sums[LANES / 2];
    for (uint32_t i = 0; i < 8; i++) sums[i] = lanes[i] + lanes[i + 8];
    for (uint32_t i = 0; i < 4; i++) sums[i] = sums[i] + sums[i + 4];
    return (sums[0] + sums[2]) + (sums[1] + sums[3]);
}

const icp_math *icp_math_at(uint32_t index)
{
    const icp_math *found[3]; /* no machine has more */
    uint32_t count = 0;
#if defined(__aarch64__)
    if (icp_cpu_has_fmlal()) found[count++] = &icp_math_fmlal;
    found[count++] = &icp_math_neon;
#elif defined(__x86_64__)
    if (icp_cpu_has_avx512()) found[count++] = &icp_math_avx512;
    if (icp_cpu_has_avx2()) found[count++] = &icp_math_avx2;
#endif
    found[count++] = &icp_math_plain;
    return index < count ? found[index] : NULL;
}

const icp_math *icp_math_choose(void)
{
    const char *name = getenv("INCIPIT_KERNELS");
    return name != NULL && strcmp(name, icp_math_plain.name) == 0 ? &icp_math_plain : icp_math_at(0);
}
