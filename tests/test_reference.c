/* test_reference.c - every layer's numbers and the logits, against an independent forward pass in NumPy.
 *
 * Each case is a random model of one architecture and weight type, written to a file; the engine computes a text on it,
 * and tests/reference/check.py computes the same from the file and compares. Tolerances are stated and explained
 * there. Skipped where no python3 with NumPy is found. */
#include "forward_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKEN_COUNT 45u /* three blocks, the last one not full; past the window of 24 */
#define CHUNK 19u
#define CASES_MAX 16u
#define PATH_BYTES 160u

/* The cases of one test, and the folder that they are in. */
typedef struct cases {
    char folder[64];
    char names[CASES_MAX][48];
    uint32_t count;
} cases;

typedef struct reference_case {
    model_make model;
    const model_make_lora *lora; /* or NULL */
    icp_kv_type kv_type;
    const char *note;
} reference_case;

/* What the tap saw: [layer_count + 1, TOKEN_COUNT, width]. */
typedef struct seen {
    float *values;
    uint32_t position;
} seen;

static const char *python(void)
{
    static const char *const candidates[] = {"python3", "/usr/bin/python3"};
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        char command[PATH_BYTES];
        snprintf(command, sizeof(command), "%s -c 'import numpy' >/dev/null 2>&1", candidates[i]);
        if (system(command) == 0) return candidates[i];
    }
    return NULL;
}

static void write_file(const char *folder, const char *name, const void *bytes, size_t count)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void remember(void *context, uint32_t layer, const float *rows, uint32_t row_count, uint32_t width)
{
    seen *to = context;
    float *at = to->values + ((size_t)layer * TOKEN_COUNT + to->position) * width;
    memcpy(at, rows, (size_t)row_count * width * sizeof(float));
}

/* Computes the text in chunks and writes engine.bin. */
static void compute(forward_world *world, const char *folder, const icp_adapter *adapter, icp_kv_type kv_type)
{
    const icp_shape *shape = world->shape;
    uint32_t tokens[TOKEN_COUNT];
    forward_tokens(world, tokens, TOKEN_COUNT, 7);
    forward_tables tables;
    forward_tables_from(&tables, 3);
    size_t layer_values = (size_t)(shape->layer_count + 1) * TOKEN_COUNT * shape->width;
    size_t value_count = layer_values + (size_t)TOKEN_COUNT * shape->vocabulary;
    float *values = calloc(value_count, sizeof(float));
    assert_non_null(values);
    seen to = {.values = values};
    icp_transformer_tap(world->transformer, remember, &to);
    while (to.position < TOKEN_COUNT) {
        uint32_t left = TOKEN_COUNT - to.position;
        forward_piece piece = {.tokens = tokens,
                               .position = to.position,
                               .count = left < CHUNK ? left : CHUNK,
                               .tables = &tables,
                               .adapter = adapter};
        forward_run(world, &piece, 1, values + layer_values + (size_t)to.position * shape->vocabulary);
        to.position += piece.count;
    }
    const uint32_t header[] = {TOKEN_COUNT, shape->layer_count, shape->width, shape->vocabulary, (uint32_t)kv_type};
    gguf_make out = {0};
    for (uint32_t i = 0; i < 5; i++) gguf_make_number(&out, header[i], 4);
    for (uint32_t i = 0; i < TOKEN_COUNT; i++) gguf_make_number(&out, tokens[i], 4);
    gguf_make_bytes(&out, values, value_count * sizeof(float));
    write_file(folder, "engine.bin", out.bytes, out.count);
    gguf_make_stop(&out);
    free(values);
}

static void add_case(cases *all, const reference_case *it)
{
    assert_true(all->count < CASES_MAX);
    char *name = all->names[all->count++];
    snprintf(name, 48, "%s-%s%s", it->model.architecture, icp_weight_name(it->model.type), it->note);
    char folder[PATH_BYTES];
    snprintf(folder, sizeof(folder), "%s/%s", all->folder, name);
    assert_int_equal(mkdir(folder, 0700), 0);

    gguf_make image;
    gguf_make adapter_image = {0};
    model_make_write(&image, &it->model);
    write_file(folder, "model.gguf", image.bytes, image.count);
    forward_world world;
    forward_open(&world,
                 &(forward_options){
                     .image = image.bytes, .image_bytes = image.count, .kv_type = it->kv_type, .thread_count = 2});
    icp_gguf *adapter_file = NULL;
    icp_adapter *adapter = NULL;
    if (it->lora != NULL) {
        icp_error error = {""};
        model_make_adapter(&adapter_image, &it->model, it->lora);
        write_file(folder, "adapter.gguf", adapter_image.bytes, adapter_image.count);
        assert_int_equal(icp_gguf_open_memory(&adapter_file, adapter_image.bytes, adapter_image.count, &error), ICP_OK);
        if (icp_adapter_open(&adapter, world.transformer, adapter_file, &error) != ICP_OK) fail_msg("%s", error.text);
    }
    compute(&world, folder, adapter, it->kv_type);
    icp_adapter_close(adapter);
    icp_gguf_close(adapter_file);
    forward_close(&world);
    gguf_make_stop(&adapter_image);
    gguf_make_stop(&image);
}

static void cases_start(cases *all)
{
    if (python() == NULL) {
        print_message("skipped: there is no python3 with NumPy (Debian: python3-numpy)\n");
        skip();
    }
    *all = (cases){.folder = "/tmp/incipit-reference-XXXXXX"};
    assert_non_null(mkdtemp(all->folder));
}

/* Compares all cases in one run of Python, and takes the files away where all is well. */
static void cases_check(cases *all)
{
    char command[4096];
    int used = snprintf(command, sizeof(command), "PYTHONDONTWRITEBYTECODE=1 %s tests/reference/check.py", python());
    for (uint32_t i = 0; i < all->count; i++)
        used += snprintf(command + used, sizeof(command) - (size_t)used, " %s/%s", all->folder, all->names[i]);
    assert_true((size_t)used < sizeof(command));
    fflush(stdout);
    if (system(command) != 0) fail_msg("the engine differs from the reference; the files are in %s", all->folder);
    static const char *const files[] = {"model.gguf", "adapter.gguf", "engine.bin", ""};
    for (uint32_t i = 0; i < all->count; i++) {
        for (size_t f = 0; f < 4; f++) {
            char path[PATH_BYTES];
            snprintf(path, sizeof(path), "%s/%s/%s", all->folder, all->names[i], files[f]);
            if (files[f][0] != '\0') {
                unlink(path);
            } else {
                rmdir(path);
            }
        }
    }
    rmdir(all->folder);
}

/* ---- Cases ------------------------------------------------------------------------------------------------ */

static void every_weight_type_gives_the_references_numbers(const char *architecture)
{
    cases all;
    cases_start(&all);
    for (uint32_t i = 0; i < MODEL_MAKE_TYPE_COUNT; i++) {
        reference_case it = {model_make_of(architecture, model_make_types[i]), NULL, ICP_KV_F32, ""};
        it.model.seed = 100 + i;
        add_case(&all, &it);
    }
    reference_case half = {model_make_of(architecture, ICP_WEIGHT_F32), NULL, ICP_KV_F16, "-kv-f16"};
    add_case(&all, &half);
    reference_case bytes = {model_make_of(architecture, ICP_WEIGHT_F32), NULL, ICP_KV_Q8_0, "-kv-q8_0"};
    add_case(&all, &bytes);
    cases_check(&all);
}

static void llama_gives_the_references_numbers(void **state)
{
    (void)state;
    every_weight_type_gives_the_references_numbers("llama");
}

static void qwen2_gives_the_references_numbers(void **state)
{
    (void)state;
    every_weight_type_gives_the_references_numbers("qwen2");
}

static void qwen3_gives_the_references_numbers(void **state)
{
    (void)state;
    every_weight_type_gives_the_references_numbers("qwen3");
}

static void gemma3_gives_the_references_numbers(void **state)
{
    (void)state;
    every_weight_type_gives_the_references_numbers("gemma3");
}

static void what_an_architecture_may_have_gives_the_references_numbers(void **state)
{
    (void)state;
    cases all;
    cases_start(&all);
    reference_case it = {model_make_of("llama", ICP_WEIGHT_F32), NULL, ICP_KV_F32, "-biases-untied-scaled"};
    it.model.has_all_biases = true;
    it.model.is_untied = true;
    it.model.has_rope_factors = false;
    it.model.rope_scale = 4;
    it.model.kv_head_count = 4;
    add_case(&all, &it);
    it = (reference_case){model_make_of("qwen2", ICP_WEIGHT_F16), NULL, ICP_KV_F32, "-tied"};
    it.model.is_untied = false;
    it.model.kv_head_count = 1;
    add_case(&all, &it);
    it = (reference_case){model_make_of("gemma3", ICP_WEIGHT_F32), NULL, ICP_KV_F32, "-caps-scaled"};
    it.model.logit_softcap = 3;
    it.model.attention_softcap = 2;
    it.model.rope_scale = 8;
    it.model.layer_count = 7;
    it.model.window_period = 0; /* no key: every sixth layer is global */
    add_case(&all, &it);
    it = (reference_case){model_make_of("gemma3", ICP_WEIGHT_F32), NULL, ICP_KV_F32, "-no-windows"};
    it.model.window = 0;
    it.model.window_period = 0;
    add_case(&all, &it);
    cases_check(&all);
}

static void an_adapter_gives_the_references_numbers(void **state)
{
    (void)state;
    cases all;
    cases_start(&all);
    const model_make_lora lora = {.rank = 8, .alpha = 12, .seed = 5, .is_output = true};
    for (uint32_t i = 0; i < MODEL_MAKE_ARCHITECTURE_COUNT; i++) {
        reference_case it = {model_make_of(model_make_architectures[i], ICP_WEIGHT_F32), &lora, ICP_KV_F32, "-lora"};
        it.model.is_untied = true;
        add_case(&all, &it);
    }
    reference_case it = {model_make_of("llama", ICP_WEIGHT_Q4_K), &lora, ICP_KV_F32, "-lora"};
    add_case(&all, &it);
    cases_check(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gives_the_references_numbers),
        cmocka_unit_test(qwen2_gives_the_references_numbers),
        cmocka_unit_test(qwen3_gives_the_references_numbers),
        cmocka_unit_test(gemma3_gives_the_references_numbers),
        cmocka_unit_test(what_an_architecture_may_have_gives_the_references_numbers),
        cmocka_unit_test(an_adapter_gives_the_references_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
