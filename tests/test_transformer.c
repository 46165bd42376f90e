/* test_transformer.c - model files that are read, model files that are refused, and what comes out of real ones.
 *
 * That every layer's numbers are right is shown by test_reference.c; that they do not depend on the batch, by
 * test_samebits.c. */
#include "forward_world.h"
#include "model/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORIES "../shared/models/stories260K.gguf"
#define STORIES_TEXT "../shared/models/stories260K.greedy.txt"
#define STORY_TOKENS 250u
#define STORY_PROMPT "Once upon a time"

/* ---- A story ---------------------------------------------------------------------------------------------- */

static uint32_t best(const float *logits, uint32_t count)
{
    uint32_t at = 0;
    for (uint32_t i = 1; i < count; i++)
        if (logits[i] > logits[at]) at = i;
    return at;
}

/* tokens holds count; more is added to it, the most likely token each time. */
static void generate(forward_world *world, uint32_t *tokens, uint32_t count, uint32_t more)
{
    forward_tables tables;
    forward_tables_from(&tables, 0);
    float *logits = malloc(FORWARD_ROWS_MAX * world->shape->vocabulary * sizeof(float));
    assert_non_null(logits);
    uint32_t position = 0;
    uint32_t end = count + more;
    while (count < end) {
        forward_piece piece = {.tokens = tokens, .position = position, .count = count - position, .tables = &tables};
        forward_run(world, &piece, 1, logits);
        const float *last = logits + (size_t)(piece.count - 1) * world->shape->vocabulary;
        position = count;
        tokens[count++] = best(last, world->shape->vocabulary);
    }
    free(logits);
}

static size_t decode(const icp_tokenizer *tokenizer, const uint32_t *tokens, uint32_t count, char *text, size_t room)
{
    icp_decoder decoder;
    icp_decoder_start(&decoder, tokenizer, 0);
    size_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = 0;
        assert_int_equal(icp_decoder_next(&decoder, tokens[i], text + used, room - used, &bytes), ICP_OK);
        used += bytes;
    }
    return used;
}

static void the_story_is_the_one_that_llama_cpp_tells(void **state)
{
    (void)state;
    FILE *file = fopen(STORIES_TEXT, "rb");
    if (file == NULL) {
        print_message("skipped: there is no " STORIES_TEXT "\n");
        skip();
    }
    char expected[4096] = "";
    size_t expected_bytes = fread(expected, 1, sizeof(expected) - 1, file);
    fclose(file);

    forward_world world;
    forward_open(&world, &(forward_options){.path = STORIES, .kv_type = ICP_KV_F32, .block_count = 32});
    icp_tokenizer *tokenizer = NULL;
    icp_encoder *encoder = NULL;
    assert_int_equal(icp_tokenizer_open(&tokenizer, world.gguf, NULL), ICP_OK);
    assert_int_equal(icp_encoder_open(&encoder, tokenizer), ICP_OK);
    uint32_t tokens[512];
    size_t count = 0;
    const icp_encode_input input = {
        .text = STORY_PROMPT, .bytes = strlen(STORY_PROMPT), .flags = ICP_ENCODE_ADD_SPECIAL};
    assert_int_equal(icp_encoder_encode(encoder, &input, tokens, 512, &count), ICP_OK);
    generate(&world, tokens, (uint32_t)count, STORY_TOKENS);

    char text[4096] = "";
    size_t bytes = decode(tokenizer, tokens, (uint32_t)count + STORY_TOKENS, text, sizeof(text) - 1);
    while (expected_bytes != 0 && expected[expected_bytes - 1] == '\n') expected[--expected_bytes] = '\0';
    text[bytes] = '\0';
    assert_string_equal(text, expected);
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
    forward_close(&world);
}

/* ---- Shapes ----------------------------------------------------------------------------------------------- */

static icp_status read_image(const gguf_make *image, icp_shape *shape, icp_error *error)
{
    icp_gguf *gguf = NULL;
    icp_status status = icp_gguf_open_memory(&gguf, image->bytes, image->count, error);
    if (status != ICP_OK) return status;
    status = icp_shape_read(shape, gguf, error);
    icp_gguf_close(gguf);
    return status;
}

static icp_shape shape_of(const model_make *model)
{
    gguf_make image;
    icp_shape shape;
    icp_error error = {""};
    model_make_write(&image, model);
    if (read_image(&image, &shape, &error) != ICP_OK) fail_msg("%s", error.text);
    gguf_make_stop(&image);
    return shape;
}

static void every_architecture_is_read_as_it_is(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MODEL_MAKE_ARCHITECTURE_COUNT; i++) {
        model_make model = model_make_of(model_make_architectures[i], ICP_WEIGHT_Q8_0);
        icp_shape shape = shape_of(&model);
        bool is_gemma = i == 3;
        assert_string_equal(shape.architecture, model.architecture);
        assert_string_equal(shape.name, "random");
        assert_string_equal(shape.type, "Q8_0");
        assert_int_equal(shape.layer_count, 2);
        assert_int_equal(shape.width, model.width);
        assert_int_equal(shape.head_dim, model.head_dim);
        assert_int_equal(shape.hidden_width, model.hidden_width);
        assert_int_equal(shape.vocabulary, model.vocabulary);
        assert_int_equal(shape.context_max, model.context);
        assert_int_equal(shape.rope_kind, i == 0 ? ICP_ROPE_PAIRS : ICP_ROPE_HALVES);
        assert_int_equal(shape.gate_kind, is_gemma ? ICP_GATE_GELU : ICP_GATE_SILU);
        assert_int_equal(shape.has_qkv_bias, i == 1);
        assert_int_equal(shape.has_qk_norm, i >= 2);
        assert_int_equal(shape.has_post_norms, is_gemma);
        assert_int_equal(shape.is_tied, i != 1);
        assert_int_equal(shape.group_count, is_gemma ? 2 : 1);
        assert_int_equal(shape.groups[0].kind, ICP_GROUP_FULL);
        uint64_t matrices = (uint64_t)model.width * model.vocabulary * (shape.is_tied ? 1 : 2);
        assert_true(shape.parameter_count > matrices && shape.weight_bytes > matrices);
    }
}

static void global_layers_of_gemma3_come_first_and_keep_their_own_blocks(void **state)
{
    (void)state;
    model_make model = model_make_of("gemma3", ICP_WEIGHT_F16);
    model.layer_count = 8;
    model.window_period = 0; /* no key: every sixth */
    model.rope_scale = 8;
    icp_shape shape = shape_of(&model);
    assert_int_equal(shape.groups[0].layer_count, 1);
    assert_int_equal(shape.groups[1].layer_count, 7);
    assert_int_equal(shape.groups[1].kind, ICP_GROUP_WINDOW);
    assert_int_equal(shape.groups[1].window, 24);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(shape.layers[i].group, i != 5);
    assert_int_equal(shape.layers[7].index, 6);
    /* Layers with a window have a base of their own, and are not scaled. */
    assert_true(shape.groups[0].rope_base > 19999 && shape.groups[0].rope_scale > 7);
    assert_true(shape.groups[1].rope_base < 10001 && shape.groups[1].rope_scale < 1.5);
    assert_true(shape.embedding_scale > 9.79f && shape.embedding_scale < 9.80f); /* sqrt(96) */

    model.layer_count = 3; /* all of them before the sixth: no global layer, no group for it */
    shape = shape_of(&model);
    assert_int_equal(shape.group_count, 1);
    assert_int_equal(shape.groups[0].kind, ICP_GROUP_WINDOW);
}

/* ---- What is refused -------------------------------------------------------------------------------------- */

/* The bytes behind the first place where a text stands; the end of the vocabulary's texts is not reached by these. */
static uint8_t *behind(gguf_make *image, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length < image->count; i++)
        if (memcmp(image->bytes + i, text, length) == 0) return image->bytes + i + length;
    fail_msg("%s is not in the image", text);
    return NULL;
}

static void assert_refused(gguf_make *image, const char *expected)
{
    icp_shape shape;
    icp_error error = {""};
    icp_status status = read_image(image, &shape, &error);
    if (status != ICP_BAD_ARGUMENT || strstr(error.text, expected) == NULL)
        fail_msg("%s, \"%s\" where \"%s\" was to be", icp_status_name(status), error.text, expected);
    gguf_make_stop(image);
}

static void a_model_that_computes_something_else_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *architecture;
        model_make_pair extra;
        const char *expected;
    } cases[] = {
        {"llama", {"llama.expert_count", NULL, 4, 8}, "\"llama.expert_count\" is not 0"},
        {"llama", {"llama.rope.scaling.type", "yarn", 0, 0}, "rope scaling \"yarn\" is not supported"},
        {"qwen2", {"qwen2.rope.scaling.type", NULL, 4, 1}, "\"qwen2.rope.scaling.type\" is not a text"},
        {"llama", {"llama.logit_scale", NULL, 6, 0x3f800000}, "\"llama.logit_scale\" is not known"},
        {"llama", {"llama.attention.causal", NULL, 7, 0}, "\"llama.attention.causal\" is not 1"},
        {"llama", {"llama.rope.scaling.attn_factor", NULL, 6, 0x40000000}, "attn_factor\" is not 1"},
        {"llama", {"llama.rope.dimension_count", NULL, 4, 16}, "turning 16 values of heads of 32"},
        {"qwen3", {"qwen3.final_logit_softcapping", NULL, 6, 0x41f00000}, "is not known for this architecture"},
        {"qwen3", {"qwen3.rope.freq_base_swa", NULL, 6, 0x461c4000}, "is not known for this architecture"},
        {"gemma3", {"gemma3.rope.freq_base_swa", NULL, 6, 0}, "is not a number from 1 to"},
        {"gemma3", {"gemma3.final_logit_softcapping", NULL, 6, 0x7fc00000}, "is not a number from 0 to"},
        {"gemma3", {"general.type", "mmproj", 0, 0}, "general.type is \"mmproj\""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        model_make model = model_make_of(cases[i].architecture, ICP_WEIGHT_F16);
        model.extra = &cases[i].extra;
        gguf_make image;
        model_make_write(&image, &model);
        assert_refused(&image, cases[i].expected);
    }
}

static void numbers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key; /* its value, a uint32, is changed */
        uint32_t value;
        const char *expected;
    } cases[] = {
        {"llama.block_count", 0, "\"llama.block_count\" is not a number from 1 to 512"},
        {"llama.block_count", 513, "\"llama.block_count\" is not a number from 1 to 512"},
        {"llama.block_count", 3, "the tensor blk.2.attn_q.weight is missing"},
        {"llama.block_count", 1, "the tensor \"blk.1.attn_q.weight\" is not known for the architecture llama"},
        {"llama.embedding_length", 0, "\"llama.embedding_length\" is not a number from 1 to"},
        {"llama.embedding_length", UINT32_MAX, "\"llama.embedding_length\" is not a number from 1 to"},
        {"llama.embedding_length", 97, "the tensor blk.0.attn_q.weight is [96, 128], not [97, 128]"},
        {"llama.feed_forward_length", 161, "the tensor blk.0.ffn_gate.weight is [96, 160], not [96, 161]"},
        {"llama.context_length", 0, "\"llama.context_length\" is not a number from 1 to"},
        {"llama.attention.head_count", 0, "\"llama.attention.head_count\" is not a number from 1 to"},
        {"llama.attention.head_count", 3, "3 query heads cannot share 2 KV heads evenly"},
        {"llama.attention.head_count_kv", 3, "4 query heads cannot share 3 KV heads evenly"},
        {"llama.attention.head_count_kv", UINT32_MAX, "head_count_kv\" is not a number from 1 to"},
        {"llama.attention.key_length", 7, "heads of 7 for keys and 32 for values are not supported"},
        {"llama.attention.value_length", 16, "heads of 32 for keys and 16 for values are not supported"},
        {"llama.attention.layer_norm_rms_epsilon", 0x7fc00000, "rms_epsilon\" is not a number from 0 to 1"},
        {"llama.rope.freq_base", 0, "\"llama.rope.freq_base\" is not a number from 1 to"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        model_make model = model_make_of("llama", ICP_WEIGHT_F16);
        gguf_make image;
        model_make_write(&image, &model);
        uint8_t *type = behind(&image, cases[i].key);
        gguf_make_put(&image, (size_t)(type + 4 - image.bytes), cases[i].value, 4);
        assert_refused(&image, cases[i].expected);
    }
}

static void tensors_and_keys_that_are_missing_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text; /* its last letter becomes an x, or its first where is_first */
        bool is_first;
        const char *expected;
    } cases[] = {
        {"llama.context_length", true, "the key \"llama.context_length\" is missing"},
        {"llama.context_length", false, "the key \"llama.context_lengtx\" is not known"},
        {"llama.attention.layer_norm_rms_epsilon", true, "rms_epsilon\" is missing"},
        {"general.architecture", true, "general.architecture is missing"},
        {"token_embd.weight", true, "the tensor token_embd.weight is missing"},
        {"blk.1.ffn_norm.weight", true, "the tensor blk.1.ffn_norm.weight is missing"},
        {"rope_freqs.weight", true, "the tensor \"xope_freqs.weight\" is not known"},
        {"output_norm.weight", false, "the tensor output_norm.weight is missing"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        model_make model = model_make_of("llama", ICP_WEIGHT_F16);
        gguf_make image;
        model_make_write(&image, &model);
        uint8_t *end = behind(&image, cases[i].text);
        if (cases[i].is_first) {
            end[-(long)strlen(cases[i].text)] = 'x';
        } else {
            end[-1] = 'x';
        }
        assert_refused(&image, cases[i].expected);
    }
    model_make model = model_make_of("llama", ICP_WEIGHT_F16);
    gguf_make image;
    model_make_write(&image, &model);
    behind(&image, "general.architecture")[12] = 'g'; /* behind a type and a length: "glama" */
    assert_refused(&image, "the architecture \"glama\" is not supported: llama, qwen2, qwen3 and gemma3 are");
    model_make_write(&image, &model);
    uint8_t *rows = behind(&image, "token_embd.weight") + 12; /* behind the count of dimensions and the columns */
    gguf_make_put(&image, (size_t)(rows - image.bytes), 287, 8);
    assert_refused(&image, "the vocabulary has 288 tokens, token_embd.weight 287 rows");
}

/* Files that differ from good ones in a few bytes of the header: read or refused, never worse. */
static void changed_headers_are_read_or_refused(void **state)
{
    (void)state;
    uint64_t seed = 11;
    uint32_t accepted = 0;
    uint32_t refused = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (uint32_t i = 0; i < MODEL_MAKE_ARCHITECTURE_COUNT; i++) {
        model_make model = model_make_of(model_make_architectures[i], ICP_WEIGHT_Q4_0);
        gguf_make image;
        model_make_write(&image, &model);
        size_t pairs = (size_t)(behind(&image, "tokenizer.ggml.model") - image.bytes);
        size_t tensors = (size_t)(behind(&image, "tokenizer.ggml.eos_token_id") - image.bytes);
        size_t end = (size_t)(behind(&image, "output_norm.weight") - image.bytes);
        for (uint32_t n = 0; n < 4000; n++) {
            size_t places[3];
            uint8_t before[3];
            uint32_t count = 1 + (uint32_t)(model_make_random(&seed) % 3);
            for (uint32_t c = 0; c < count; c++) {
                uint64_t random = model_make_random(&seed);
                uint64_t bits = random % 3 == 0 ? random >> 56 : UINT64_C(1) << random % 8;
                places[c] =
                    random % 2 == 0 ? 24 + (random >> 8) % (pairs - 24) : tensors + (random >> 8) % (end - tensors);
                before[c] = image.bytes[places[c]];
                image.bytes[places[c]] ^= (uint8_t)bits;
            }
            icp_shape shape;
            icp_error error = {""};
            if (read_image(&image, &shape, &error) == ICP_OK) {
                accepted++;
                assert_true(shape.layer_count <= ICP_LAYER_COUNT_MAX && shape.vocabulary == 288);
            } else {
                refused++;
                assert_true(error.text[0] != '\0');
            }
            for (uint32_t c = count; c-- > 0;) image.bytes[places[c]] = before[c];
        }
        gguf_make_stop(&image);
    }
    assert_true(accepted > 100 && refused > 1000);
}

/* ---- Loading ---------------------------------------------------------------------------------------------- */

typedef struct progress {
    uint64_t done;
    uint64_t total;
} progress;

static void note_progress(void *context, uint64_t bytes_done, uint64_t bytes_total)
{
    progress *note = context;
    assert_true(bytes_done > note->done && bytes_done <= bytes_total);
    *note = (progress){bytes_done, bytes_total};
}

static void loading_tells_its_progress_to_the_last_byte(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MODEL_MAKE_ARCHITECTURE_COUNT; i++) {
        model_make model = model_make_of(model_make_architectures[i], ICP_WEIGHT_Q5_1);
        gguf_make image;
        icp_gguf *gguf = NULL;
        icp_backend *backend = NULL;
        icp_transformer *transformer = NULL;
        progress note = {0};
        model_make_write(&image, &model);
        assert_int_equal(icp_gguf_open_memory(&gguf, image.bytes, image.count, NULL), ICP_OK);
        assert_int_equal(icp_cpu_open(&backend, 1, NULL), ICP_OK);
        const icp_transformer_options options = {gguf, backend, 8, 4, 8, note_progress, &note};
        assert_int_equal(icp_transformer_open(&transformer, &options, NULL), ICP_OK);
        assert_int_equal(note.done, note.total);
        assert_int_equal(note.total, icp_transformer_shape(transformer)->weight_bytes);
        assert_true(icp_transformer_bytes(transformer) > note.total);
        icp_transformer_close(transformer);
        backend->table->close(backend);
        icp_gguf_close(gguf);
        gguf_make_stop(&image);
    }
}

/* The CPU backend, out of memory after so many calls. */
static uint32_t calls_left;
static const icp_backend_table *cpu;

static float *floats_or_none(icp_backend *backend, size_t count)
{
    return calls_left == 0 ? NULL : (calls_left--, cpu->floats_open(backend, count));
}

static icp_status weight_or_none(icp_backend *backend, const icp_weight_source *source, icp_weight **out,
                                 icp_error *error)
{
    return calls_left == 0 ? ICP_NO_MEMORY : (calls_left--, cpu->weight_open(backend, source, out, error));
}

static void loading_that_runs_out_of_memory_leaves_nothing_behind(void **state)
{
    (void)state;
    model_make model = model_make_of("gemma3", ICP_WEIGHT_Q8_0);
    const model_make_lora lora = {.rank = 4, .alpha = 4, .seed = 2};
    gguf_make image;
    gguf_make adapter_image;
    icp_gguf *gguf = NULL;
    icp_gguf *adapter_file = NULL;
    icp_backend *backend = NULL;
    model_make_write(&image, &model);
    model_make_adapter(&adapter_image, &model, &lora);
    assert_int_equal(icp_gguf_open_memory(&gguf, image.bytes, image.count, NULL), ICP_OK);
    assert_int_equal(icp_gguf_open_memory(&adapter_file, adapter_image.bytes, adapter_image.count, NULL), ICP_OK);
    assert_int_equal(icp_cpu_open(&backend, 1, NULL), ICP_OK);
    cpu = backend->table;
    icp_backend_table failing = *cpu;
    failing.floats_open = floats_or_none;
    failing.weight_open = weight_or_none;
    backend->table = &failing;
    const icp_transformer_options options = {
        .gguf = gguf, .backend = backend, .row_count_max = 8, .sequence_count_max = 4, .output_count_max = 8};
    uint32_t fail_count = 0;
    for (uint32_t calls = 0; fail_count == calls; calls++) {
        calls_left = calls;
        icp_transformer *transformer = NULL;
        icp_adapter *adapter = NULL;
        icp_status status = icp_transformer_open(&transformer, &options, NULL);
        if (status == ICP_OK) status = icp_adapter_open(&adapter, transformer, adapter_file, NULL);
        if (status != ICP_OK) {
            assert_int_equal(status, ICP_NO_MEMORY);
            fail_count++;
        }
        icp_adapter_close(adapter);
        icp_transformer_close(transformer);
    }
    assert_true(fail_count > 60);
    backend->table = cpu;
    cpu->close(backend);
    icp_gguf_close(adapter_file);
    icp_gguf_close(gguf);
    gguf_make_stop(&adapter_image);
    gguf_make_stop(&image);
}

/* ---- Adapters --------------------------------------------------------------------------------------------- */

static void adapters_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text; /* changed behind it: text itself where offset is negative */
        int offset;
        uint64_t number;
        uint32_t bytes;
        const char *expected;
    } cases[] = {
        {"general.type", 12, 'A', 1, "general.type is not \"adapter\""},
        {"adapter.type", 12, 'L', 1, "adapter.type is not \"lora\""},
        {"general.architecture", 12, 'L', 1, "the adapter is not for the architecture qwen3"},
        {"blk.0.attn_q.weight.lora_a", -1, 'c', 1, "is neither a .lora_a nor a .lora_b"},
        {"blk.0.attn_q.weight.lora_b", -1, 'a', 1, ""}, /* two of a name: the reader of files refuses */
        {"blk.1.ffn_up.weight.lora_b", -22, '2', 1, "the tensor blk.1.ffn_up.weight.lora_b is missing"},
        {"blk.1.ffn_up.weight.lora_a", -22, '2', 1, "\"blk.2.ffn_up.weight.lora_a\" does not belong to a matrix"},
        {"blk.0.attn_k.weight.lora_a", 12, 3, 8, "do not fit a matrix of [96, 64]"},
        {"blk.0.attn_k.weight.lora_b", 12, 63, 8, "do not fit a matrix of [96, 64]"},
        {"adapter.lora.alpha", 4, 0x7f800000, 4, "adapter.lora.alpha is not a finite number"},
    };
    model_make model = model_make_of("qwen3", ICP_WEIGHT_Q8_0);
    const model_make_lora lora = {.rank = 4, .alpha = 4, .seed = 2};
    gguf_make image;
    model_make_write(&image, &model);
    forward_world world;
    forward_open(&world, &(forward_options){.image = image.bytes, .image_bytes = image.count});
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        gguf_make adapter_image;
        icp_gguf *file = NULL;
        icp_adapter *adapter = NULL;
        icp_error error = {""};
        model_make_adapter(&adapter_image, &model, &lora);
        uint8_t *place = behind(&adapter_image, cases[i].text) + cases[i].offset;
        gguf_make_put(&adapter_image, (size_t)(place - adapter_image.bytes), cases[i].number, cases[i].bytes);
        icp_status status = icp_gguf_open_memory(&file, adapter_image.bytes, adapter_image.count, &error);
        if (status == ICP_OK) status = icp_adapter_open(&adapter, world.transformer, file, &error);
        if (status != ICP_BAD_ARGUMENT || strstr(error.text, cases[i].expected) == NULL)
            fail_msg("%s, \"%s\" where \"%s\" was to be", icp_status_name(status), error.text, cases[i].expected);
        assert_null(adapter);
        icp_gguf_close(file);
        gguf_make_stop(&adapter_image);
    }
    forward_close(&world);
    gguf_make_stop(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_story_is_the_one_that_llama_cpp_tells),
        cmocka_unit_test(every_architecture_is_read_as_it_is),
        cmocka_unit_test(global_layers_of_gemma3_come_first_and_keep_their_own_blocks),
        cmocka_unit_test(a_model_that_computes_something_else_is_refused),
        cmocka_unit_test(numbers_that_do_not_fit_are_refused),
        cmocka_unit_test(tensors_and_keys_that_are_missing_are_named),
        cmocka_unit_test(changed_headers_are_read_or_refused),
        cmocka_unit_test(loading_tells_its_progress_to_the_last_byte),
        cmocka_unit_test(loading_that_runs_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(adapters_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
