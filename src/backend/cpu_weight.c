/* cpu_weight.c - weights as the kernels like them, and linear: one region for all the matrices that share an input.
 *
 * A weight that is a matrix is repacked into panels at open, on all threads, and the file's own pages are given
 * back to the system as they are read (is_mapped), so that a model takes its size in memory once. A table stays in the
 * file: embed reads one row of it for each token.
 *
 * Linear quantises the rows of its input once for each kind that its weights want, then cuts the panels of all
 * outputs, laid end to end, into runs which threads take as they come. */
#include "backend/cpu.h"

#include "base/arena.h"
#include "base/assert.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PANEL_ALIGN 64u

static size_t align_up(size_t bytes)
{
    return (bytes + PANEL_ALIGN - 1) & ~(size_t)(PANEL_ALIGN - 1);
}

/* ---- Weights -------------------------------------------------------------------------------------------- */

typedef struct pack_work {
    const icp_weight *weight;
    const icp_weight_source *source;
    uint32_t run; /* panels of one item */
} pack_work;

static void pack_panels(void *context, uint32_t item, uint32_t worker)
{
    (void)worker;
    const pack_work *work = context;
    const icp_matrix *matrix = &work->weight->matrix;
    uint32_t first = item * work->run;
    uint32_t left = matrix->panel_count - first;
    icp_matrix_pack(matrix, work->source, first, left < work->run ? left : work->run);
}

/* Only whole pages of the weight itself: a page at its edge may hold another's. */
static void give_pages_back(const icp_weight_source *source, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)source->data + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)source->data + bytes) & ~(page - 1);
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED); /* a wish */
}

static icp_status refuse(const icp_weight_source *source, const char *why, icp_error *error)
{
    const char *name = icp_weight_name(source->type);
    if (error != NULL)
        snprintf(error->text, sizeof(error->text), "a weight of %u x %u, type %s: %s", source->rows, source->columns,
                 name == NULL ? "unknown" : name, why);
    return ICP_BAD_ARGUMENT;
}

static icp_status plan(icp_weight *weight, const icp_cpu *cpu, const icp_weight_source *source, icp_error *error)
{
    uint32_t block = icp_weight_block_values(source->type);
    if (block == 0) return refuse(source, "the type is not supported", error);
    if (source->rows == 0 || source->columns == 0 || source->columns % block != 0)
        return refuse(source, "the shape is not whole blocks", error);

    *weight = (icp_weight){.type = source->type, .rows = source->rows, .columns = source->columns};
    weight->table_row_bytes = (size_t)(source->columns / block) * icp_weight_block_bytes(source->type);
    if (source->is_table) weight->table = source->data;
    if (!source->is_matrix) return ICP_OK;
    if (icp_matrix_plan(&weight->matrix, cpu->kernels, source) != ICP_OK)
        return refuse(source, "the kernels do not multiply it", error);
    weight->panel_bytes = weight->matrix.panel_count * weight->matrix.panel_bytes;
    return ICP_OK;
}

icp_status icp_cpu_weight_open(icp_backend *backend, const icp_weight_source *source, icp_weight **out,
                               icp_error *error)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    icp_weight planned;
    icp_status status = plan(&planned, cpu, source, error);
    if (status != ICP_OK) return status;

    size_t head = align_up(sizeof(planned));
    icp_weight *weight = icp_cpu_link_open(&cpu->weights, head + planned.panel_bytes);
    uint32_t columns_max = cpu->columns_max;
    if (weight == NULL) goto no_memory;
    planned.link = weight->link;
    *weight = planned;
    if (source->is_matrix) {
        if (source->columns > cpu->columns_max) cpu->columns_max = source->columns;
        if (!icp_cpu_linear_reserve(cpu)) goto no_memory;
        weight->matrix.panels = (uint8_t *)weight + head;
        pack_work work = {weight, source, weight->matrix.panel_count / (cpu->thread_count * 16) + 1};
        uint32_t items = (weight->matrix.panel_count + work.run - 1) / work.run;
        icp_cpu_run(cpu, pack_panels, &work, items, (size_t)source->rows * source->columns);
        if (source->is_mapped) give_pages_back(source, source->rows * weight->table_row_bytes);
    }
    *out = weight;
    return ICP_OK;

no_memory:
    cpu->columns_max = columns_max;
    if (weight != NULL) icp_cpu_link_close(&weight->link);
    if (error != NULL)
        snprintf(error->text, sizeof(error->text), "no memory for a weight of %zu MiB", planned.panel_bytes >> 20);
    return ICP_NO_MEMORY;
}

void icp_cpu_weight_close(icp_backend *backend, icp_weight *weight)
{
    (void)backend;
    if (weight != NULL) icp_cpu_link_close(&weight->link);
}

size_t icp_cpu_weight_bytes(const icp_backend *backend, const icp_weight *weight)
{
    (void)backend;
    return weight->panel_bytes;
}

/* ---- Linear --------------------------------------------------------------------------------------------- */

bool icp_cpu_linear_reserve(icp_cpu *cpu)
{
    if (cpu->columns_max == 0 || cpu->row_count_max == 0) return true;
    cpu->multiply_bytes = align_up(icp_multiply_scratch_bytes(cpu->kernels, cpu->columns_max));
    size_t rows_bytes = icp_rows_bytes(cpu->kernels, cpu->row_count_max, cpu->columns_max);
    return icp_cpu_room_grow(&cpu->rows[ICP_ROWS_BLOCKS], rows_bytes) &&
           icp_cpu_room_grow(&cpu->rows[ICP_ROWS_GROUPS], rows_bytes) &&
           icp_cpu_room_grow(&cpu->multiply_scratch, cpu->multiply_bytes * cpu->thread_count);
}

static void quantise_part(void *context, uint32_t part, uint32_t worker)
{
    (void)worker;
    icp_rows_quantise(context, part);
}

typedef struct linear_work {
    icp_cpu *cpu;
    uint32_t output_count;
    icp_multiply multiplies[ICP_LINEAR_OUTPUTS_MAX];
    uint32_t runs[ICP_LINEAR_OUTPUTS_MAX];   /* panels of one item */
    uint32_t starts[ICP_LINEAR_OUTPUTS_MAX]; /* the first item of each output */
} linear_work;

static void multiply_run(void *context, uint32_t item, uint32_t worker)
{
    const linear_work *work = context;
    uint32_t output = work->output_count - 1;
    while (work->starts[output] > item) output--;
    const icp_multiply *multiply = &work->multiplies[output];
    uint32_t first = (item - work->starts[output]) * work->runs[output];
    uint32_t left = multiply->matrix->panel_count - first;
    icp_matrix_multiply(multiply, first, left < work->runs[output] ? left : work->runs[output],
                        work->cpu->multiply_scratch.memory + worker * work->cpu->multiply_bytes);
}

/* Items of one region: enough for threads to end together though one may be interrupted, few enough that each
 * streams through a long piece of memory. */
#define ITEMS_PER_THREAD 8u
#define ITEM_BYTES_MIN ((size_t)32 << 10)

static uint32_t plan_items(linear_work *work)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < work->output_count; i++) {
        const icp_matrix *matrix = work->multiplies[i].matrix;
        bytes += matrix->panel_count * matrix->panel_bytes;
    }
    size_t item_bytes = bytes / (work->cpu->thread_count * ITEMS_PER_THREAD);
    if (item_bytes < ITEM_BYTES_MIN) item_bytes = ITEM_BYTES_MIN;
    uint32_t items = 0;
    for (uint32_t i = 0; i < work->output_count; i++) {
        const icp_matrix *matrix = work->multiplies[i].matrix;
        uint32_t run = (uint32_t)(item_bytes / matrix->panel_bytes);
        work->runs[i] = run == 0 ? 1 : run;
        work->starts[i] = items;
        items += (matrix->panel_count + work->runs[i] - 1) / work->runs[i];
    }
    return items;
}

void icp_cpu_linear(icp_backend *backend, const icp_linear *linear)
{
    icp_cpu *cpu = icp_cpu_of(backend);
    uint32_t columns = linear->outputs[0].weight->columns;
    uint32_t rows = linear->row_count;
    ICP_ASSERT(linear->output_count >= 1 && linear->output_count <= ICP_LINEAR_OUTPUTS_MAX);
    ICP_ASSERT(rows <= cpu->row_count_max);
    if (rows == 0) return;

    linear_work work = {.cpu = cpu, .output_count = linear->output_count};
    bool is_wanted[ICP_ROWS_KIND_COUNT] = {false};
    size_t values = 0;
    for (uint32_t i = 0; i < linear->output_count; i++) {
        const icp_linear_output *output = &linear->outputs[i];
        ICP_ASSERT(output->weight->panel_bytes != 0 && output->weight->columns == columns);
        icp_rows_kind kind = icp_matrix_rows_kind(&output->weight->matrix);
        is_wanted[kind] = true;
        values += (size_t)output->weight->rows * columns;
        work.multiplies[i] = (icp_multiply){.matrix = &output->weight->matrix,
                                            .x = linear->x,
                                            .rows = cpu->rows[kind].memory,
                                            .row_count = rows,
                                            .out = output->out,
                                            .out_stride = output->weight->rows,
                                            .bias = output->bias,
                                            .scale = output->scale,
                                            .is_added = output->is_added};
    }
    for (icp_rows_kind kind = ICP_ROWS_BLOCKS; kind < ICP_ROWS_KIND_COUNT; kind++) {
        icp_quantise quantise = {cpu->kernels, kind, linear->x, rows, columns, cpu->rows[kind].memory};
        if (!is_wanted[kind]) continue;
        icp_cpu_run(cpu, quantise_part, &quantise, icp_rows_part_count(cpu->kernels, rows), (size_t)rows * columns);
    }
    uint32_t items = plan_items(&work);
    icp_cpu_run(cpu, multiply_run, &work, items, values * rows);
}
