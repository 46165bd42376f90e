/* test_samebits.c - logits are the same bits however they are computed: every comparison here is memcmp.
 *
 * The logits of a text are computed once, its whole prompt at once on one thread. Then the same text is computed in
 * other ways, and every row of logits that comes out must be those bits: token by token, in chunks, beside other
 * sequences, on more threads, with other kernels, and on KV that another sequence computed, that was copied, or that
 * was read out and written back. For every architecture and KV type, on random models, and on the built-in model. */
#include "backend/matrix.h"
#include "forward_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS 59u /* four blocks of 16, the last one not full */
#define TEXT_COUNT 3u
#define BUILTIN "model/incipit-debian.gguf"

/* A text and the logits of each of its positions. */
typedef struct text {
    uint32_t tokens[TOKENS];
    float *logits; /* [TOKENS, vocabulary] */
} text;

/* What is being computed, in another way than the texts were. */
typedef struct scene {
    const char *what; /* for failures */
    forward_world *world;
    const text *texts;
    float *logits; /* [FORWARD_ROWS_MAX, vocabulary] */
    uint64_t random;
} scene;

/* One sequence of a batch. */
typedef struct actor {
    uint32_t text;
    uint32_t position;
    uint32_t end;
    forward_tables tables;
    const icp_adapter *adapter;
} actor;

/* ---- Comparing ---------------------------------------------------------------------------------------------- */

static void assert_same(const scene *in, const text *of, uint32_t position, const float *row)
{
    uint32_t vocabulary = in->world->shape->vocabulary;
    const float *right = of->logits + (size_t)position * vocabulary;
    if (memcmp(right, row, vocabulary * sizeof(float)) == 0) return;
    for (uint32_t i = 0; i < vocabulary; i++) {
        if (memcmp(&right[i], &row[i], sizeof(float)) != 0)
            fail_msg("%s: logit %u of position %u is %.9g, not %.9g", in->what, i, position, (double)row[i],
                     (double)right[i]);
    }
}

/* Computes counts[i] more tokens of each actor in one batch, and compares the logits of all or of the last of them. */
static void act(scene *in, actor *actors, const uint32_t *counts, uint32_t actor_count)
{
    forward_piece pieces[FORWARD_PIECES_MAX];
    const actor *who[FORWARD_PIECES_MAX];
    uint32_t piece_count = 0;
    for (uint32_t i = 0; i < actor_count; i++) {
        if (counts[i] == 0) continue;
        who[piece_count] = &actors[i];
        pieces[piece_count++] = (forward_piece){.tokens = in->texts[actors[i].text].tokens,
                                                .position = actors[i].position,
                                                .count = counts[i],
                                                .tables = &actors[i].tables,
                                                .adapter = actors[i].adapter};
        forward_piece *piece = &pieces[piece_count - 1];
        if (model_make_random(&in->random) % 2 == 0) piece->silent_count = piece->count - 1; /* as in an engine */
    }
    if (piece_count == 0) return;
    forward_run(in->world, pieces, piece_count, in->logits);
    const float *row = in->logits;
    for (uint32_t p = 0; p < piece_count; p++) {
        for (uint32_t i = pieces[p].silent_count; i < pieces[p].count; i++) {
            assert_same(in, &in->texts[who[p]->text], pieces[p].position + i, row);
            row += in->world->shape->vocabulary;
        }
    }
    for (uint32_t i = 0; i < actor_count; i++) actors[i].position += counts[i];
}

/* All actors to their ends, in batches of chunks of up to chunk_max tokens chosen at random (1: token by token). */
static void play(scene *in, actor *actors, uint32_t actor_count, uint32_t chunk_max)
{
    for (;;) {
        uint32_t counts[FORWARD_PIECES_MAX] = {0};
        uint32_t rows = 0;
        bool is_over = true;
        for (uint32_t i = 0; i < actor_count; i++) {
            uint32_t left = actors[i].end - actors[i].position;
            uint32_t count = chunk_max == 1 ? 1 : (uint32_t)(model_make_random(&in->random) % (chunk_max + 1));
            if (count > left) count = left;
            if (rows + count > FORWARD_ROWS_MAX) count = FORWARD_ROWS_MAX - rows;
            rows += count;
            counts[i] = count;
            is_over = is_over && left == 0;
        }
        if (is_over) return;
        act(in, actors, counts, actor_count);
    }
}

static actor actor_of(uint32_t which, uint32_t first_block, uint32_t end)
{
    actor it = {.text = which, .end = end};
    forward_tables_from(&it.tables, first_block);
    return it;
}

/* ---- Texts -------------------------------------------------------------------------------------------------- */

/* Their first count tokens. */
static void texts_open(forward_world *world, text texts[TEXT_COUNT], uint32_t count, uint64_t seed)
{
    for (uint32_t i = 0; i < TEXT_COUNT; i++) {
        texts[i].logits = malloc((size_t)TOKENS * world->shape->vocabulary * sizeof(float));
        assert_non_null(texts[i].logits);
        forward_tokens(world, texts[i].tokens, TOKENS, seed + i);
        if (i == 1) memcpy(texts[i].tokens, texts[0].tokens, 40 * sizeof(uint32_t)); /* they begin alike */
        forward_tables tables;
        forward_tables_from(&tables, 0);
        forward_piece piece = {.tokens = texts[i].tokens, .count = count, .tables = &tables};
        forward_run(world, &piece, 1, texts[i].logits);
    }
}

static void texts_close(text texts[TEXT_COUNT])
{
    for (uint32_t i = 0; i < TEXT_COUNT; i++) free(texts[i].logits);
}

/* ---- Ways to compute a text --------------------------------------------------------------------------------- */

static void token_by_token(scene *in)
{
    in->what = "token by token";
    actor one = actor_of(0, 5, TOKENS);
    play(in, &one, 1, 1);
}

static void in_chunks(scene *in)
{
    in->what = "in chunks";
    for (uint32_t chunk = 3; chunk < 48; chunk = chunk * 3 + 1) {
        actor one = actor_of(chunk % TEXT_COUNT, chunk, TOKENS);
        play(in, &one, 1, chunk);
    }
}

static void beside_others(scene *in, uint32_t count, uint32_t end, uint32_t chunk)
{
    in->what = "beside others";
    actor actors[FORWARD_PIECES_MAX];
    uint32_t blocks = (end + 15) / 16;
    for (uint32_t i = 0; i < count; i++) actors[i] = actor_of(i % TEXT_COUNT, i * blocks, end);
    play(in, actors, count, chunk);
}

/* A chunk without outputs first: what it leaves in KV must be the same. */
static void after_a_silent_chunk(scene *in)
{
    in->what = "after a chunk without outputs";
    actor one = actor_of(2, 9, TOKENS);
    forward_piece piece = {.tokens = in->texts[2].tokens, .count = 37, .tables = &one.tables, .silent_count = 37};
    forward_run(in->world, &piece, 1, NULL);
    one.position = 37;
    play(in, &one, 1, 50);
}

/* Text 1 begins as text 0 does, with 40 tokens: two whole blocks, and eight positions to copy. */
static void on_blocks_of_another(scene *in)
{
    in->what = "on another's blocks";
    actor first = actor_of(0, 0, TOKENS);
    play(in, &first, 1, 50);
    icp_backend *backend = in->world->backend;
    for (uint32_t reused = 1; reused <= 40; reused++) {
        actor second = actor_of(1, 64, reused + 3);
        uint32_t whole = reused / 16;
        uint32_t tail = reused % 16;
        for (uint32_t g = 0; g < in->world->shape->group_count; g++) {
            for (uint32_t b = 0; b < whole; b++) second.tables.blocks[g][b] = b;
            icp_copy copy = {.from = whole, .to = 64 + whole, .positions = tail};
            if (tail != 0) backend->table->kv_copy(backend, g, &copy);
        }
        second.position = reused;
        play(in, &second, 1, 5);
    }
}

/* Within a step, text 1 reads blocks that text 0 fills in the same step. */
static void on_blocks_of_the_same_step(scene *in)
{
    in->what = "on blocks of the same step";
    actor actors[2] = {actor_of(0, 20, TOKENS), actor_of(1, 40, TOKENS)};
    for (uint32_t g = 0; g < 2; g++)
        memcpy(actors[1].tables.blocks[g], actors[0].tables.blocks[g], 2 * sizeof(uint32_t));
    actors[1].position = 32;
    act(in, actors, (const uint32_t[]){40, 20}, 2);
    play(in, actors, 2, 5);
}

/* Blocks read out, wiped, and written back to other places. */
static void on_blocks_that_were_away(scene *in)
{
    in->what = "on blocks that were read and written";
    actor one = actor_of(2, 0, 48);
    play(in, &one, 1, 20);
    icp_backend *backend = in->world->backend;
    icp_kv_options kv = {.type = in->world->kv_type, .block_tokens = in->world->block_tokens};
    kv.group_count = in->world->shape->group_count;
    for (uint32_t g = 0; g < kv.group_count; g++) {
        const icp_shape_group *group = &in->world->shape->groups[g];
        kv.groups[g] = (icp_kv_group){FORWARD_BLOCKS_MAX, group->layer_count, group->kv_head_count, group->head_dim};
        size_t bytes = backend->table->kv_block_bytes(backend, &kv, g);
        uint8_t *block = malloc(bytes);
        uint8_t *rubbish = calloc(1, bytes);
        assert_true(block != NULL && rubbish != NULL);
        for (uint32_t b = 0; b < 3; b++) {
            backend->table->kv_read(backend, g, b, block);
            backend->table->kv_write(backend, g, b, rubbish);
            backend->table->kv_write(backend, g, 70 + 2 * b, block);
            one.tables.blocks[g][b] = 70 + 2 * b;
        }
        free(block);
        free(rubbish);
    }
    one.end = TOKENS;
    play(in, &one, 1, 4);
}

/* Positions behind the window are never looked at: their blocks may be gone. */
static void with_blocks_behind_the_window_gone(scene *in)
{
    in->what = "with blocks behind the window gone";
    const icp_shape *shape = in->world->shape;
    actor one = actor_of(0, 30, TOKENS);
    while (one.position < TOKENS) {
        uint32_t count = one.position + 6 <= TOKENS ? 6 : TOKENS - one.position;
        act(in, &one, &count, 1);
        for (uint32_t g = 0; g < shape->group_count; g++) {
            if (shape->groups[g].kind != ICP_GROUP_WINDOW) continue;
            for (uint32_t b = 0; (b + 1) * 16 + shape->groups[g].window <= one.position + 1; b++)
                one.tables.blocks[g][b] = ICP_BLOCK_NONE;
        }
    }
}

static void every_way(scene *in)
{
    token_by_token(in);
    in_chunks(in);
    beside_others(in, 7, 40, 12);
    beside_others(in, 64, 12, 5);
    after_a_silent_chunk(in);
    on_blocks_of_another(in);
    on_blocks_of_the_same_step(in);
    on_blocks_that_were_away(in);
    with_blocks_behind_the_window_gone(in);
}

/* ---- Models ------------------------------------------------------------------------------------------------- */

/* Every way on one thread; beside others on two and four. */
static void check_model(forward_options options, uint64_t seed)
{
    print_message("seed %llu\n", (unsigned long long)seed);
    options.thread_count = 1;
    forward_world world;
    forward_open(&world, &options);
    text texts[TEXT_COUNT];
    texts_open(&world, texts, TOKENS, seed);
    float *logits = malloc((size_t)FORWARD_ROWS_MAX * world.shape->vocabulary * sizeof(float));
    assert_non_null(logits);
    scene in = {.world = &world, .texts = texts, .logits = logits, .random = seed};
    every_way(&in);
    forward_close(&world);
    for (options.thread_count = 2; options.thread_count <= 4; options.thread_count *= 2) {
        forward_open(&world, &options);
        beside_others(&in, 7, 30, 20);
        forward_close(&world);
    }
    texts_close(texts);
    free(logits);
}

static void check_architecture(uint32_t which)
{
    static const icp_weight_type types[ICP_KV_TYPE_COUNT] = {
        [ICP_KV_F16] = ICP_WEIGHT_Q4_0, [ICP_KV_F32] = ICP_WEIGHT_F16, [ICP_KV_Q8_0] = ICP_WEIGHT_Q8_0};
    for (uint32_t kv = 0; kv < ICP_KV_TYPE_COUNT; kv++) {
        gguf_make image;
        model_make model = model_make_of(model_make_architectures[which], types[kv]);
        model.seed = kv + 1;
        model.width = 64;
        model.head_dim = 16;
        model.hidden_width = 96;
        model_make_write(&image, &model);
        forward_options options = {.image = image.bytes, .image_bytes = image.count, .kv_type = (icp_kv_type)kv};
        check_model(options, 1000 + 10 * which + kv);
        gguf_make_stop(&image);
    }
}

static void llama_gives_the_same_bits_in_every_way(void **state)
{
    (void)state;
    check_architecture(0);
}

static void qwen2_gives_the_same_bits_in_every_way(void **state)
{
    (void)state;
    check_architecture(1);
}

static void qwen3_gives_the_same_bits_in_every_way(void **state)
{
    (void)state;
    check_architecture(2);
}

static void gemma3_gives_the_same_bits_in_every_way(void **state)
{
    (void)state;
    check_architecture(3);
}

/* It is large for a test: a prompt of 13 tokens at once, token by token, and beside another on two threads. */
static void the_built_in_model_gives_the_same_bits(void **state)
{
    (void)state;
    forward_options options = {.path = BUILTIN, .kv_type = ICP_KV_F16, .thread_count = 1};
    text texts[TEXT_COUNT];
    float *logits = NULL;
    for (; options.thread_count <= 2; options.thread_count++) {
        forward_world world;
        forward_open(&world, &options);
        if (options.thread_count == 1) {
            texts_open(&world, texts, 13, 77);
            logits = malloc((size_t)FORWARD_ROWS_MAX * world.shape->vocabulary * sizeof(float));
            assert_non_null(logits);
        }
        scene in = {.world = &world, .texts = texts, .logits = logits, .random = 77};
        beside_others(&in, options.thread_count, 13, options.thread_count == 1 ? 1 : 9);
        forward_close(&world);
    }
    texts_close(texts);
    free(logits);
}

static void every_kernel_gives_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t t = 0; t < MODEL_MAKE_TYPE_COUNT; t++) {
        gguf_make image;
        model_make model = model_make_of("llama", model_make_types[t]);
        model_make_write(&image, &model);
        forward_options options = {.image = image.bytes, .image_bytes = image.count, .kv_type = ICP_KV_F16};
        text texts[TEXT_COUNT] = {0};
        const icp_kernels *kernels;
        for (uint32_t k = 0; (kernels = icp_kernels_at(k)) != NULL; k++) {
            setenv("INCIPIT_KERNELS", icp_kernels_name(kernels), 1);
            forward_world world;
            forward_open(&world, &options);
            float *logits = malloc((size_t)FORWARD_ROWS_MAX * world.shape->vocabulary * sizeof(float));
            assert_non_null(logits);
            if (k == 0) texts_open(&world, texts, 20, 5);
            scene in = {.world = &world, .texts = texts, .logits = logits, .random = 5};
            beside_others(&in, 3, 20, 15);
            free(logits);
            forward_close(&world);
        }
        unsetenv("INCIPIT_KERNELS");
        texts_close(texts);
        gguf_make_stop(&image);
    }
}

/* ---- Adapters ----------------------------------------------------------------------------------------------- */

/* Sequences with one of two adapters, or none, in one batch: each as if it were alone. */
static void adapters_are_mixed_in_a_batch_without_a_trace(void **state)
{
    (void)state;
    gguf_make image;
    gguf_make adapter_images[2];
    model_make model = model_make_of("qwen2", ICP_WEIGHT_Q8_0);
    model_make_write(&image, &model);
    forward_world world;
    forward_open(&world, &(forward_options){.image = image.bytes, .image_bytes = image.count});
    icp_gguf *files[2];
    icp_adapter *adapters[2];
    text texts[TEXT_COUNT];
    texts_open(&world, texts, TOKENS, 9);
    for (uint32_t i = 0; i < 2; i++) {
        model_make_lora lora = {.rank = 4 + 4 * i, .alpha = 3, .seed = i, .is_output = i == 0};
        model_make_adapter(&adapter_images[i], &model, &lora);
        icp_error error = {""};
        assert_int_equal(icp_gguf_open_memory(&files[i], adapter_images[i].bytes, adapter_images[i].count, &error), 0);
        if (icp_adapter_open(&adapters[i], world.transformer, files[i], &error) != ICP_OK) fail_msg("%s", error.text);
        /* Text i + 1 is now the text with this adapter, alone; text 0 stays without one. */
        float *before = malloc((size_t)TOKENS * world.shape->vocabulary * sizeof(float));
        assert_non_null(before);
        memcpy(before, texts[i + 1].logits, (size_t)TOKENS * world.shape->vocabulary * sizeof(float));
        forward_tables tables;
        forward_tables_from(&tables, 0);
        forward_piece piece = {
            .tokens = texts[i + 1].tokens, .count = TOKENS, .tables = &tables, .adapter = adapters[i]};
        forward_run(&world, &piece, 1, texts[i + 1].logits);
        assert_memory_not_equal(before, texts[i + 1].logits, world.shape->vocabulary * sizeof(float));
        free(before);
    }
    float *logits = malloc((size_t)FORWARD_ROWS_MAX * world.shape->vocabulary * sizeof(float));
    assert_non_null(logits);
    scene in = {.what = "mixed", .world = &world, .texts = texts, .logits = logits, .random = 3};
    static const uint32_t order[] = {1, 1, 0, 2, 1, 2, 2, 0, 0, 1};
    actor actors[10];
    for (uint32_t i = 0; i < 10; i++) {
        actors[i] = actor_of(order[i], 4 * i, TOKENS);
        actors[i].adapter = order[i] == 0 ? NULL : adapters[order[i] - 1];
    }
    play(&in, actors, 10, 9);
    free(logits);
    texts_close(texts);
    for (uint32_t i = 0; i < 2; i++) {
        icp_adapter_close(adapters[i]);
        icp_gguf_close(files[i]);
        gguf_make_stop(&adapter_images[i]);
    }
    forward_close(&world);
    gguf_make_stop(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_gives_the_same_bits_in_every_way),
        cmocka_unit_test(qwen2_gives_the_same_bits_in_every_way),
        cmocka_unit_test(qwen3_gives_the_same_bits_in_every_way),
        cmocka_unit_test(gemma3_gives_the_same_bits_in_every_way),
        cmocka_unit_test(the_built_in_model_gives_the_same_bits),
        cmocka_unit_test(every_kernel_gives_the_same_bits),
        cmocka_unit_test(adapters_are_mixed_in_a_batch_without_a_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
