/* test_tokenizer.c - text to tokens and back: small vocabularies worked out by hand, the vectors of real ones, special
 * tokens in hostile text, and the hostile texts themselves. */
#include "tokenizer_world.h"

#include "model/pretoken.h"
#include "model/unicode.h"
#include "world.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS_MAX 4096u
#define MEGABYTE ((size_t)1 << 20)

static icp_encoder *encoder_of(const icp_tokenizer *tokenizer)
{
    icp_encoder *encoder = NULL;
    assert_non_null(tokenizer);
    assert_int_equal(icp_encoder_open(&encoder, tokenizer), ICP_OK);
    return encoder;
}

static icp_encode_input input_of(const char *text, uint32_t flags)
{
    return (icp_encode_input){.text = text, .bytes = strlen(text), .flags = flags};
}

/* The ids as text: "1 2 3". */
static const char *ids_text(const uint32_t *ids, size_t count)
{
    static char text[IDS_MAX * 11];
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%u", i == 0 ? "" : " ", ids[i]);
    }
    return text;
}

static void assert_encodes(icp_encoder *encoder, const icp_encode_input *input, const char *expected)
{
    uint32_t ids[IDS_MAX];
    size_t count = 0;
    assert_int_equal(icp_encoder_encode(encoder, input, ids, IDS_MAX, &count), ICP_OK);
    assert_string_equal(ids_text(ids, count), expected);
}

static void assert_text(icp_encoder *encoder, const char *text, const char *expected)
{
    icp_encode_input input = input_of(text, 0);
    assert_encodes(encoder, &input, expected);
}

/* The whole text that ids stand for; the caller frees it. */
static char *decode_all(const icp_tokenizer *tokenizer, const uint32_t *ids, size_t count, uint32_t flags,
                        size_t *bytes)
{
    icp_decoder decoder;
    icp_decoder_start(&decoder, tokenizer, flags);
    size_t room = icp_decoder_bytes_max(&decoder);
    size_t size = 4096, used = 0;
    char *text = malloc(size);
    for (size_t i = 0; i <= count; i++) {
        size_t written = 0;
        if (size - used < room) {
            size = size * 2 + room;
            text = realloc(text, size);
        }
        assert_non_null(text);
        icp_status status = i < count ? icp_decoder_next(&decoder, ids[i], text + used, size - used, &written)
                                      : icp_decoder_flush(&decoder, text + used, size - used, &written);
        assert_int_equal(status, ICP_OK);
        used += written;
    }
    *bytes = used;
    return text;
}

/* Encodes any text, in two calls (how many, then which), and holds what the ids stand for against it. */
static void assert_round_trip(icp_encoder *encoder, const icp_tokenizer *tokenizer, const char *text, size_t bytes)
{
    icp_encode_input input = {.text = text, .bytes = bytes};
    size_t needed = 0, count = 0, decoded_bytes = 0;
    icp_status status = icp_encoder_encode(encoder, &input, NULL, 0, &needed);
    assert_int_equal(status, bytes == 0 ? ICP_OK : ICP_TOO_LONG);
    uint32_t *ids = calloc(needed + 1, sizeof(*ids));
    assert_int_equal(icp_encoder_encode(encoder, &input, ids, needed, &count), ICP_OK);
    assert_int_equal(count, needed);
    char *decoded = decode_all(tokenizer, ids, count, ICP_DECODE_START, &decoded_bytes);
    assert_int_equal(decoded_bytes, bytes);
    assert_memory_equal(decoded, text, bytes);
    free(decoded);
    free(ids);
}

/* ---- Small vocabularies --------------------------------------------------------------------------------- */

static void byte_level_merges_go_by_rank_and_stay_inside_words(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    icp_encoder *encoder = encoder_of(tokenizer);
    assert_text(encoder, "", "");
    assert_text(encoder, "hello world", "259 264");
    assert_text(encoder, "hello", "259");
    assert_text(encoder, "hel", "256 108");        /* he l */
    assert_text(encoder, "helllo", "258 108 111"); /* hell, for the first ll is left of the second */
    assert_text(encoder, "lll", "257 108");
    assert_text(encoder, "hello!", "259 33");
    assert_text(encoder, "hello     world", "259 266 264"); /* five spaces: four of them, and the word's own */
    assert_text(encoder, "\xff\x00z", "255");               /* ends at the 0 */
    assert_text(encoder, "\xf0\x9f", "240 159");
    assert_text(encoder, "hello\n", "259 10");
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

static void sentencepiece_merges_go_by_score_with_a_space_in_front_and_bytes_for_the_rest(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_spm_open();
    icp_encoder *encoder = encoder_of(tokenizer);
    assert_text(encoder, "", "");
    assert_text(encoder, "hello world", "290 295");
    assert_text(encoder, "hello", "290");
    assert_text(encoder, " hello", "259 290"); /* ' hello' before '  ' */
    assert_text(encoder, "b", "259 261");
    assert_text(encoder,
                "\xe2\x96\x81"
                "b",
                "296 261"); /* U+2581 is a space, and so are two */
    assert_text(encoder, "\n", "259 13");
    assert_text(encoder, "\xc3\xa9", "259 198 172");
    assert_text(encoder, "\xc3", "259 198");
    assert_text(encoder, "a\xff", "259 260 258");

    icp_encode_input input = input_of("hello", ICP_ENCODE_ADD_SPECIAL);
    assert_encodes(encoder, &input, "1 290");
    input = input_of("", ICP_ENCODE_ADD_SPECIAL);
    assert_encodes(encoder, &input, "1");
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

static void the_model_decides_on_bos_eos_and_the_space(void **state)
{
    (void)state;
    image_builder image;
    tiny_spm_image(&image);
    image_flag(&image, "tokenizer.ggml.add_bos_token", false);
    image_flag(&image, "tokenizer.ggml.add_eos_token", true);
    image_flag(&image, "tokenizer.ggml.add_space_prefix", false);
    image_number(&image, "tokenizer.ggml.padding_token_id", 2);
    image_number(&image, "tokenizer.ggml.eot_token_id", 70000); /* there is no such token */
    icp_tokenizer *tokenizer = NULL;
    icp_error error = {""};
    assert_int_equal(image_tokenizer(&image, &tokenizer, &error), ICP_OK);
    image_end(&image);
    icp_encoder *encoder = encoder_of(tokenizer);
    icp_encode_input input = input_of("hello world", ICP_ENCODE_ADD_SPECIAL);
    assert_encodes(encoder, &input, "289 295 2");
    const icp_tokenizer_facts *facts = icp_tokenizer_get_facts(tokenizer);
    assert_int_equal(facts->bos, 1);
    assert_int_equal(facts->eos, 2);
    assert_int_equal(facts->unk, 0);
    assert_int_equal(facts->pad, 2);
    assert_int_equal(facts->eot, TINY_SPM_IM_END);
    assert_int_equal(facts->token_count, TINY_SPM_COUNT);
    assert_string_equal(facts->model, "llama");
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

static void tokens_are_found_by_text_and_know_their_type(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("llama-bpe");
    assert_non_null(tokenizer);
    assert_int_equal(icp_tokenizer_find(tokenizer, " world", 6), TINY_BPE_WORLD);
    assert_int_equal(icp_tokenizer_find(tokenizer, "<|im_end|>", 10), TINY_BPE_IM_END);
    assert_int_equal(icp_tokenizer_find(tokenizer, "nothing", 7), ICP_TOKEN_NONE);
    assert_int_equal(icp_tokenizer_find(tokenizer, "", 0), ICP_TOKEN_NONE);
    assert_int_equal(icp_tokenizer_type(tokenizer, TINY_BPE_IM_END), ICP_TOKEN_CONTROL);
    assert_int_equal(icp_tokenizer_type(tokenizer, TINY_BPE_TOOL), ICP_TOKEN_USER_DEFINED);
    assert_int_equal(icp_tokenizer_type(tokenizer, TINY_BPE_COUNT), ICP_TOKEN_UNDEFINED);
    assert_true(icp_tokenizer_is_end_of_generation(tokenizer, TINY_BPE_IM_END));
    assert_true(icp_tokenizer_is_end_of_generation(tokenizer, TINY_BPE_END_OF_TEXT));
    assert_false(icp_tokenizer_is_end_of_generation(tokenizer, TINY_BPE_TOOL));
    assert_false(icp_tokenizer_is_end_of_generation(tokenizer, UINT32_MAX));
    icp_gguf_string text = icp_tokenizer_text(tokenizer, TINY_BPE_WORLD);
    assert_int_equal(text.bytes, 6);
    assert_memory_equal(text.text, " world", 6);
    assert_int_equal(icp_tokenizer_text(tokenizer, TINY_BPE_COUNT).bytes, 0);
    assert_true(icp_tokenizer_get_facts(tokenizer)->is_adding_bos); /* as Llama 3 does */
    icp_tokenizer_close(tokenizer);
}

static void merges_over_texts_that_are_no_tokens_work_and_fall_back_to_bytes(void **state)
{
    (void)state;
    static const char *const tokens[] = {"a", "b", "c", "abc"};
    static const char *const merges[] = {"ab c", "a b", "nonsense", " ", "c a", "b \xe4\xbd\xa0"};
    image_builder image;
    image_start(&image);
    image_text(&image, "tokenizer.ggml.model", "gpt2");
    image_text(&image, "tokenizer.ggml.pre", "gpt-2");
    image_texts(&image, "tokenizer.ggml.tokens", tokens, 4);
    image_texts(&image, "tokenizer.ggml.merges", merges, 6);
    icp_tokenizer *tokenizer = NULL;
    assert_int_equal(image_tokenizer(&image, &tokenizer, NULL), ICP_OK);
    image_end(&image);
    icp_encoder *encoder = encoder_of(tokenizer);
    assert_text(encoder, "abc", "3");
    assert_text(encoder, "ab", "0 1"); /* ab is no token */
    assert_text(encoder, "ca", "2 0");
    assert_text(encoder, "axb", "0 1"); /* x has no token, and there is no unknown token either */
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

/* ---- Opening -------------------------------------------------------------------------------------------- */

static void assert_refused(image_builder *image, const char *part)
{
    icp_tokenizer *tokenizer = NULL;
    icp_error error = {""};
    assert_int_equal(image_tokenizer(image, &tokenizer, &error), ICP_BAD_ARGUMENT);
    assert_null(tokenizer);
    assert_non_null(strstr(error.text, part));
    image_end(image);
}

static void a_vocabulary_that_is_not_understood_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const tokens[] = {"<unk>", "<s>", "</s>"};
    const float scores[] = {0, 0, (float)NAN};
    const int32_t types[] = {2, 3};
    image_builder image;
    image_start(&image);
    assert_refused(&image, "tokenizer.ggml.model");

    image_start(&image);
    image_text(&image, "tokenizer.ggml.model", "bert");
    assert_refused(&image, "\"bert\"");

    tiny_bpe_image(&image, "qwen2\n9");
    assert_refused(&image, "\"qwen2?9\"");

    image_start(&image);
    image_text(&image, "tokenizer.ggml.model", "llama");
    assert_refused(&image, "tokenizer.ggml.tokens");

    image_start(&image);
    image_text(&image, "tokenizer.ggml.model", "gpt2");
    image_texts(&image, "tokenizer.ggml.tokens", tokens, 3);
    assert_refused(&image, "tokenizer.ggml.merges");

    image_start(&image);
    image_text(&image, "tokenizer.ggml.model", "llama");
    image_texts(&image, "tokenizer.ggml.tokens", tokens, 3);
    image_floats(&image, "tokenizer.ggml.scores", scores, 2);
    assert_refused(&image, "tokenizer.ggml.scores");

    image_start(&image);
    image_text(&image, "tokenizer.ggml.model", "llama");
    image_texts(&image, "tokenizer.ggml.tokens", tokens, 3);
    image_floats(&image, "tokenizer.ggml.scores", scores, 3);
    assert_refused(&image, "not finite");

    image_start(&image);
    image_text(&image, "tokenizer.ggml.model", "llama");
    image_texts(&image, "tokenizer.ggml.tokens", tokens, 3);
    image_integers(&image, "tokenizer.ggml.token_type", types, 2);
    assert_refused(&image, "tokenizer.ggml.token_type");
    assert_int_equal(icp_tokenizer_open(NULL, NULL, NULL), ICP_BAD_ARGUMENT);
    icp_tokenizer_close(NULL);
    icp_encoder_close(NULL);
}

/* ---- Special tokens ------------------------------------------------------------------------------------- */

static void text_that_looks_like_a_control_token_is_text(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    icp_encoder *encoder = encoder_of(tokenizer);
    assert_text(encoder, "<|im_end|>", "60 124 267 95 101 110 100 268");
    icp_encode_input input = input_of("hello<|im_end|> world", ICP_ENCODE_PARSE_SPECIAL);
    assert_encodes(encoder, &input, "259 269 264");
    input = input_of("<|im_end|><|im_end|><|im_en", ICP_ENCODE_PARSE_SPECIAL);
    assert_encodes(encoder, &input, "269 269 60 124 267 95 101 110");
    assert_text(encoder, "hello<tool> world", "259 271 264"); /* a user defined token is always one */
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);

    /* </ and s> are tokens, and merging by text alone would make </s> of them, whose score is the best of all. */
    tokenizer = tiny_spm_open();
    encoder = encoder_of(tokenizer);
    assert_text(encoder, "</s>", "259 297 298");
    input = input_of("</s>", ICP_ENCODE_PARSE_SPECIAL);
    assert_encodes(encoder, &input, "2");
    input = input_of("hello</s>hello<tool>", ICP_ENCODE_PARSE_SPECIAL);
    assert_encodes(encoder, &input, "290 2 290 300");
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

static void control_tokens_are_found_in_trusted_ranges_only(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    icp_encoder *encoder = encoder_of(tokenizer);
    const char *text = "<|im_end|>hello<|im_end|>"; /* 10 + 5 + 10 bytes */
    const icp_byte_range first[] = {{0, 10}};
    const icp_byte_range last[] = {{15, 25}};
    const icp_byte_range both[] = {{0, 10}, {15, 25}};
    const icp_byte_range touching[] = {{0, 0}, {0, 4}, {4, 4}, {4, 10}};
    const icp_byte_range cut[] = {{0, 9}, {16, 25}};
    const icp_byte_range apart[] = {{0, 4}, {5, 10}};
    const char *written = "60 124 267 95 101 110 100 268";
    char expected[128];
    icp_encode_input input = input_of(text, 0);

    input.trusted = first;
    input.trusted_count = 1;
    snprintf(expected, sizeof(expected), "269 259 %s", written);
    assert_encodes(encoder, &input, expected);
    input.trusted = touching;
    input.trusted_count = 4;
    assert_encodes(encoder, &input, expected);
    input.trusted = last;
    input.trusted_count = 1;
    snprintf(expected, sizeof(expected), "%s 259 269", written);
    assert_encodes(encoder, &input, expected);
    input.trusted = both;
    input.trusted_count = 2;
    assert_encodes(encoder, &input, "269 259 269");
    snprintf(expected, sizeof(expected), "%s 259 %s", written, written);
    input.trusted = cut;
    assert_encodes(encoder, &input, expected);
    input.trusted = apart;
    assert_encodes(encoder, &input, expected);
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

/* Every range around, over and inside the name: the token comes out exactly where all its ten bytes are trusted. */
static void no_boundary_of_a_range_lets_a_control_token_through(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("qwen2");
    icp_encoder *encoder = encoder_of(tokenizer);
    icp_encode_input input = input_of("a<|im_end|>b", 0);
    for (size_t start = 0; start <= input.bytes; start++) {
        for (size_t end = start; end <= input.bytes; end++) {
            icp_byte_range range = {start, end};
            uint32_t ids[64];
            size_t count = 0;
            bool has_token = false;
            input.trusted = &range;
            input.trusted_count = 1;
            assert_int_equal(icp_encoder_encode(encoder, &input, ids, 64, &count), ICP_OK);
            for (size_t i = 0; i < count; i++) has_token = has_token || ids[i] == TINY_BPE_IM_END;
            assert_int_equal(has_token, start <= 1 && end >= 11);
        }
    }
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

/* ---- Calling it wrong ----------------------------------------------------------------------------------- */

static void the_count_is_told_when_the_ids_do_not_fit(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    icp_encoder *encoder = encoder_of(tokenizer);
    icp_encode_input input = input_of("hello world hello", 0); /* the last is ' ', hello */
    for (size_t room = 0; room <= 5; room++) {
        uint32_t ids[8] = {7, 7, 7, 7, 7, 7, 7, 7};
        size_t count = 99;
        icp_status status = icp_encoder_encode(encoder, &input, ids, room, &count);
        assert_int_equal(status, room < 4 ? ICP_TOO_LONG : ICP_OK);
        assert_int_equal(count, 4);
        const uint32_t expected[4] = {TINY_BPE_HELLO, TINY_BPE_WORLD, ' ', TINY_BPE_HELLO};
        for (size_t i = 0; i < 8; i++) assert_int_equal(ids[i], i < room && i < 4 ? expected[i] : 7);
    }
    size_t count = 99;
    assert_int_equal(icp_encoder_encode(encoder, &input, NULL, 0, &count), ICP_TOO_LONG);
    assert_int_equal(count, 4);
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    icp_encoder *encoder = encoder_of(tokenizer);
    icp_encode_input input = input_of("hello", 0);
    uint32_t ids[8];
    size_t count = 0;
    assert_int_equal(icp_encoder_encode(NULL, &input, ids, 8, &count), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_encoder_encode(encoder, NULL, ids, 8, &count), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_encoder_encode(encoder, &input, ids, 8, NULL), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_encoder_encode(encoder, &input, NULL, 8, &count), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_encoder_open(NULL, tokenizer), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_encoder_open(&encoder, NULL), ICP_BAD_ARGUMENT);

    const icp_byte_range wrong[][2] = {{{2, 1}, {3, 4}}, {{0, 2}, {1, 3}}, {{0, 1}, {2, 6}}, {{3, 4}, {0, 1}}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        icp_encode_input ranged = input;
        ranged.trusted = wrong[i];
        ranged.trusted_count = 2;
        assert_int_equal(icp_encoder_encode(encoder, &ranged, ids, 8, &count), ICP_BAD_ARGUMENT);
    }
    input.trusted_count = 1;
    assert_int_equal(icp_encoder_encode(encoder, &input, ids, 8, &count), ICP_BAD_ARGUMENT);
    input = (icp_encode_input){.flags = 8};
    assert_int_equal(icp_encoder_encode(encoder, &input, ids, 8, &count), ICP_BAD_ARGUMENT);
    input = (icp_encode_input){.bytes = 1};
    assert_int_equal(icp_encoder_encode(encoder, &input, ids, 8, &count), ICP_BAD_ARGUMENT);
    input = (icp_encode_input){.text = "", .bytes = ICP_TOKENIZER_TEXT_BYTES_MAX + 1}; /* not read */
    assert_int_equal(icp_encoder_encode(encoder, &input, ids, 8, &count), ICP_TOO_LONG);
    input = (icp_encode_input){0};
    assert_int_equal(icp_encoder_encode(encoder, &input, NULL, 0, &count), ICP_OK);

    icp_decoder decoder;
    char out[64];
    size_t bytes = 0;
    icp_decoder_start(&decoder, tokenizer, 0);
    assert_int_equal(icp_decoder_next(&decoder, TINY_BPE_COUNT, out, 64, &bytes), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_decoder_next(&decoder, 1, NULL, 64, &bytes), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_decoder_next(&decoder, 1, out, 64, NULL), ICP_BAD_ARGUMENT);
    assert_int_equal(icp_decoder_flush(&decoder, NULL, 64, &bytes), ICP_BAD_ARGUMENT);
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

/* ---- Decoding ------------------------------------------------------------------------------------------- */

/* Bytes one token each, so that every character is split at every byte. */
static void a_stream_never_shows_part_of_a_character(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    assert_non_null(tokenizer);
    const char *text = "a\xc3\xa9\xe4\xbd\xa0\xf0\x9f\xa6\x99z\x7f\xed\x9f\xbf\xf4\x8f\xbf\xbf";
    const size_t whole[] = {1, 0, 2, 0, 0, 3, 0, 0, 0, 4, 1, 1, 0, 0, 3, 0, 0, 0, 4};
    char joined[64];
    size_t used = 0;
    icp_decoder decoder;
    icp_decoder_start(&decoder, tokenizer, ICP_DECODE_REPLACE);
    for (size_t i = 0; i < strlen(text); i++) {
        size_t bytes = 99;
        uint32_t id = TINY_BPE_BYTES + (uint8_t)text[i];
        if (whole[i] > 0) { /* too little room changes nothing */
            assert_int_equal(icp_decoder_next(&decoder, id, joined + used, whole[i] - 1, &bytes), ICP_TOO_LONG);
            assert_int_equal(bytes, whole[i]);
        }
        assert_int_equal(icp_decoder_next(&decoder, id, joined + used, whole[i], &bytes), ICP_OK);
        assert_int_equal(bytes, whole[i]);
        used += bytes;
    }
    assert_int_equal(used, strlen(text));
    assert_memory_equal(joined, text, used);
    icp_tokenizer_close(tokenizer);
}

static void assert_decodes(const icp_tokenizer *tokenizer, const char *bytes_in, uint32_t flags, const char *expected)
{
    uint32_t ids[64];
    size_t count = strlen(bytes_in), bytes = 0;
    for (size_t i = 0; i < count; i++) ids[i] = TINY_BPE_BYTES + (uint8_t)bytes_in[i];
    char *text = decode_all(tokenizer, ids, count, flags, &bytes);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(text, expected, bytes);
    free(text);
}

static void what_never_becomes_a_character_comes_out_as_it_is_or_replaced(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    assert_non_null(tokenizer);
    assert_decodes(tokenizer, "\xf0\x9f", 0, "\xf0\x9f");
    assert_decodes(tokenizer,
                   "\xf0\x9f"
                   "a",
                   0,
                   "\xf0\x9f"
                   "a");
    assert_decodes(tokenizer, "\xff\xc0\x80", 0, "\xff\xc0\x80");
    assert_decodes(tokenizer, "\xc3", ICP_DECODE_REPLACE, "\xef\xbf\xbd");
    assert_decodes(tokenizer, "\xff", ICP_DECODE_REPLACE, "\xef\xbf\xbd");
    assert_decodes(tokenizer, "\xc3(", ICP_DECODE_REPLACE, "\xef\xbf\xbd(");
    assert_decodes(tokenizer, "\xc3\xc3\xa9", ICP_DECODE_REPLACE, "\xef\xbf\xbd\xc3\xa9");
    icp_tokenizer_close(tokenizer);
}

static void control_tokens_are_left_out_unless_asked_for(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_spm_open();
    assert_non_null(tokenizer);
    const uint32_t ids[] = {1, TINY_SPM_SPACE_HELLO, 0, TINY_SPM_TOOL, TINY_SPM_WORLD, TINY_SPM_IM_END};
    const struct {
        uint32_t flags;
        const char *text;
    } cases[] = {{0, " hello<tool> world"},
                 {ICP_DECODE_START, "hello<tool> world"},
                 {ICP_DECODE_SPECIAL, "<s> hello<unk><tool> world<|im_end|>"},
                 {ICP_DECODE_SPECIAL | ICP_DECODE_START, "<s>hello<unk><tool> world<|im_end|>"}};
    for (size_t i = 0; i < 4; i++) {
        size_t bytes = 0;
        char *text = decode_all(tokenizer, ids, 6, cases[i].flags, &bytes);
        assert_int_equal(bytes, strlen(cases[i].text));
        assert_memory_equal(text, cases[i].text, bytes);
        free(text);
    }
    icp_tokenizer_close(tokenizer);
}

/* ---- Round trips and hostile text ------------------------------------------------------------------------ */

static const char *const pres[] = {"default",      "gpt-2",          "smollm",     "llama-bpe", "qwen2",
                                   "qwen35",       "gpt-4o",         "tekken",     "falcon",    "command-r",
                                   "deepseek-llm", "deepseek-coder", "deepseek-v3"};
#define PRE_COUNT (sizeof(pres) / sizeof(pres[0]))

static size_t random_text(uint64_t *seed, char *text, size_t bytes_max, bool is_valid)
{
    static const uint32_t codes[] = {
        ' ', ' ', '\n', '\t',  '\'',   's',    'h',     'e',   'l',    'o',    'w',    'A',    '1',   '9',
        '.', '<', 0xe9, 0x301, 0x4f60, 0x597d, 0x1f999, 0x661, 0x3000, 0x2028, 0xff01, 0xac00, 0x41f, 0x10ffff,
    };
    size_t used = 0;
    while (used + 4 <= bytes_max) {
        uint32_t choice = world_random(seed) % 40;
        if (!is_valid && choice < 10) {
            text[used++] = (char)world_random(seed);
        } else if (choice < 12) {
            const char *word = choice == 11 ? "hell" : " wor";
            memcpy(text + used, word, 4);
            used += 4;
        } else {
            uint32_t code = codes[world_random(seed) % (sizeof(codes) / sizeof(codes[0]))];
            used += icp_utf8_encode(code, (uint8_t *)text + used);
        }
    }
    return used;
}

static void decoding_gives_back_any_text_that_was_encoded(void **state)
{
    (void)state;
    uint64_t seed = 20260815;
    printf("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i <= PRE_COUNT; i++) {
        icp_tokenizer *tokenizer = i < PRE_COUNT ? tiny_bpe_open(pres[i]) : tiny_spm_open();
        icp_encoder *encoder = encoder_of(tokenizer);
        for (int round = 0; round < 100; round++) {
            char text[256];
            size_t bytes = random_text(&seed, text, world_random(&seed) % sizeof(text), round % 2 == 0);
            assert_round_trip(encoder, tokenizer, text, bytes);
        }
        icp_encoder_close(encoder);
        icp_tokenizer_close(tokenizer);
    }
}

static const char *const patterns[] = {" ",  "a",    "\n", "l",    "1",    ".",    " \n",
                                       "<|", "<too", "'s", "\xff", "\xc3", "</s>", "\r\n\t"};
#define PATTERN_COUNT (sizeof(patterns) / sizeof(patterns[0]))

static void fill(char *text, size_t bytes, const char *pattern)
{
    size_t length = strlen(pattern);
    for (size_t i = 0; i < bytes; i++) text[i] = pattern[i % length];
}

static void assert_survives(icp_encoder *encoder, const icp_tokenizer *tokenizer)
{
    char *text = malloc(MEGABYTE);
    assert_non_null(text);
    for (size_t i = 0; i < PATTERN_COUNT; i++) {
        fill(text, MEGABYTE, patterns[i]);
        assert_round_trip(encoder, tokenizer, text, MEGABYTE);
    }
    uint64_t seed = 7;
    for (size_t i = 0; i < MEGABYTE; i++) text[i] = (char)world_random(&seed);
    assert_round_trip(encoder, tokenizer, text, MEGABYTE);
    free(text);
}

static void a_megabyte_of_anything_is_encoded(void **state)
{
    (void)state;
    icp_tokenizer *tokenizers[] = {tiny_spm_open(), tiny_bpe_open("gpt-2"), tiny_bpe_open("deepseek-llm")};
    for (size_t i = 0; i < 3; i++) {
        icp_encoder *encoder = encoder_of(tokenizers[i]);
        assert_survives(encoder, tokenizers[i]);
        icp_encoder_close(encoder);
        icp_tokenizer_close(tokenizers[i]);
    }
}

static void every_pre_tokenizer_gets_through_a_megabyte(void **state)
{
    (void)state;
    uint8_t *text = malloc(MEGABYTE);
    assert_non_null(text);
    for (size_t i = 0; i < PRE_COUNT * PATTERN_COUNT; i++) {
        const icp_pretoken *pretoken = icp_pretoken_find(pres[i % PRE_COUNT], strlen(pres[i % PRE_COUNT]));
        icp_pretoken_scan scan;
        const uint8_t *word = NULL;
        size_t bytes = 0, position = 0;
        fill((char *)text, MEGABYTE, patterns[i / PRE_COUNT]);
        icp_pretoken_start(&scan, pretoken, text, MEGABYTE);
        while (icp_pretoken_next(&scan, &word, &bytes)) {
            assert_true(word == text + position && bytes > 0);
            position += bytes;
        }
        assert_int_equal(position, MEGABYTE);
    }
    free(text);
}

/* Merges a word by the book: again and again the first merge of the list that is anywhere, at its leftmost place. */
static size_t naive_merge(uint32_t *ids, size_t count)
{
    static const uint32_t merges[][2] = {{'h', 'e'}, {'l', 'l'}, {256, 257}, {258, 'o'}, {' ', 'w'},
                                         {'o', 'r'}, {260, 261}, {'l', 'd'}, {262, 263}, {' ', ' '},
                                         {265, 265}, {'i', 'm'}, {'|', '>'}};
    for (uint32_t rank = 0; rank < sizeof(merges) / sizeof(merges[0]); rank++) {
        for (size_t i = 0; i + 1 < count; i++) {
            if (ids[i] != merges[rank][0] || ids[i + 1] != merges[rank][1]) continue;
            ids[i] = 256 + rank;
            count--;
            memmove(ids + i + 1, ids + i + 2, (count - i - 1) * sizeof(*ids));
            rank = UINT32_MAX; /* from the first one on again */
            break;
        }
    }
    return count;
}

static void merging_agrees_with_merging_by_the_book(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    icp_encoder *encoder = encoder_of(tokenizer);
    uint64_t seed = 11;
    for (int round = 0; round < 3000; round++) {
        char text[120];
        uint32_t ids[120], naive[120];
        size_t count = 0;
        icp_encode_input input = {.text = text, .bytes = 1 + world_random(&seed) % 119};
        for (size_t i = 0; i < input.bytes; i++) text[i] = "helowrdim"[world_random(&seed) % 9];
        if (round % 2 == 0) text[0] = ' ';
        for (size_t i = 0; i < input.bytes; i++) naive[i] = (uint8_t)text[i];
        size_t naive_count = naive_merge(naive, input.bytes);
        assert_int_equal(icp_encoder_encode(encoder, &input, ids, 120, &count), ICP_OK);
        assert_int_equal(count, naive_count);
        assert_memory_equal(ids, naive, count * sizeof(*ids));
    }
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

/* A word seen before comes from the cache: the ids are the same, in a short buffer too. */
static void the_cache_of_words_changes_nothing(void **state)
{
    (void)state;
    icp_tokenizer *tokenizer = tiny_bpe_open("gpt-2");
    icp_encoder *used = encoder_of(tokenizer);
    uint64_t seed = 3;
    for (int round = 0; round < 2000; round++) {
        char text[64];
        uint32_t first[256], second[256];
        size_t first_count = 0, second_count = 0;
        icp_encode_input input = {.text = text};
        input.bytes = random_text(&seed, text, sizeof(text), round % 4 != 0);
        size_t room = round % 3 == 0 ? 2 : 256;
        icp_status status = icp_encoder_encode(used, &input, first, room, &first_count);
        assert_int_equal(status, first_count > room ? ICP_TOO_LONG : ICP_OK);
        if (round % 100 != 0) continue;
        icp_encoder *fresh = encoder_of(tokenizer);
        assert_int_equal(icp_encoder_encode(used, &input, first, 256, &first_count), ICP_OK);
        assert_int_equal(icp_encoder_encode(fresh, &input, second, 256, &second_count), ICP_OK);
        assert_int_equal(first_count, second_count);
        assert_memory_equal(first, second, first_count * sizeof(uint32_t));
        icp_encoder_close(fresh);
    }
    icp_encoder_close(used);
    icp_tokenizer_close(tokenizer);
}

/* ---- Pre-tokenizers ------------------------------------------------------------------------------------- */

/* The words of a text, with | between them. */
static void assert_words(const char *pre, const char *text, const char *expected)
{
    const icp_pretoken *pretoken = icp_pretoken_find(pre, strlen(pre));
    icp_pretoken_scan scan;
    const uint8_t *word = NULL;
    size_t bytes = 0, used = 0;
    char words[512];
    assert_non_null(pretoken);
    icp_pretoken_start(&scan, pretoken, (const uint8_t *)text, strlen(text));
    while (icp_pretoken_next(&scan, &word, &bytes)) {
        if (used > 0) words[used++] = '|';
        memcpy(words + used, word, bytes);
        used += bytes;
    }
    words[used] = 0;
    assert_string_equal(words, expected);
}

/* Each of these was cut by Perl's regular expressions as well. */
static void each_pre_tokenizer_cuts_as_its_expression_does(void **state)
{
    (void)state;
    const char *text = "I've  HE'LL 12345 x1.\n\n \n  end ";
    assert_words("gpt-2", text, "I|'ve| | HE|'|LL| 12345| x|1|.|\n\n \n | end| ");
    assert_words("smollm", text, "I|'ve| | HE|'|LL| |1|2|3|4|5| x|1|.|\n\n \n | end| ");
    assert_words("llama-bpe", text, "I|'ve| | HE|'LL| |123|45| x|1|.\n\n| \n| | end| ");
    assert_words("qwen2", text, "I|'ve| | HE|'LL| |1|2|3|4|5| x|1|.\n\n| \n| | end| ");
    assert_words("gpt-4o", text, "I've| | HE'LL| |123|45| x|1|.\n\n| \n| | end| ");
    assert_words("tekken", text, "I|'ve| | HE|'LL| |1|2|3|4|5| x|1|.\n\n| \n| | end| ");
    assert_words("default", text, "I|'|ve| | HE|'|LL| |123|45| x|1|.|\n\n \n | end| ");
    assert_words("falcon", text, "I|'|ve| | HE|'|LL| |123|45| x|1|.|\n\n \n | end| ");
    assert_words("deepseek-llm", text, "I|'|ve| | HE|'|LL| |12345| x|1|.|\n|\n| |\n| | end| ");
    assert_words("deepseek-coder", text, "I|'|ve| | HE|'|LL| |1|2|3|4|5| x|1|.|\n|\n| |\n| | end| ");
    assert_words("deepseek-v3", text, "I|'ve| | HE|'LL| |123|45| x|1|.\n\n| \n| | end| ");
    assert_words("gpt-4o", "camelCase HTTPServer", "camel|Case| HTTPServer");
    assert_words("qwen2",
                 "a\xcc\x81"
                 "b",
                 "a|\xcc\x81"
                 "b");
    assert_words("qwen35",
                 "a\xcc\x81"
                 "b",
                 "a\xcc\x81"
                 "b");
    assert_null(icp_pretoken_find("gpt-3", 5));
    assert_null(icp_pretoken_find("", 0));
}

static void code_points_have_their_classes(void **state)
{
    (void)state;
    assert_int_equal(icp_unicode_class('a'), ICP_UNICODE_LOWER);
    assert_int_equal(icp_unicode_class('\n'), ICP_UNICODE_SPACE);
    assert_int_equal(icp_unicode_class(0xc9), ICP_UNICODE_UPPER);
    assert_int_equal(icp_unicode_class(0x1c5), ICP_UNICODE_UPPER);
    assert_int_equal(icp_unicode_class(0x2b0), ICP_UNICODE_OTHER);
    assert_int_equal(icp_unicode_class(0x301), ICP_UNICODE_MARK);
    assert_int_equal(icp_unicode_class(0x663), ICP_UNICODE_NUMBER);
    assert_int_equal(icp_unicode_class(0x3000), ICP_UNICODE_SPACE);
    assert_int_equal(icp_unicode_class(0x4e00), ICP_UNICODE_OTHER);
    assert_int_equal(icp_unicode_class(0xfffd), ICP_UNICODE_SYMBOL);
    assert_int_equal(icp_unicode_class(0x1f999), ICP_UNICODE_SYMBOL);
    assert_int_equal(icp_unicode_class(0x20000), ICP_UNICODE_OTHER);
    assert_int_equal(icp_unicode_class(0xe0100), ICP_UNICODE_MARK);
    assert_int_equal(icp_unicode_class(0x10ffff), 0);
    assert_int_equal(icp_unicode_class(0x110000), 0);
    for (uint32_t code = 0; code < 0x110000; code++) { /* there and back */
        uint8_t text[4];
        uint32_t back = 0;
        if (code >= 0xd800 && code < 0xe000) continue;
        uint32_t bytes = icp_utf8_encode(code, text);
        assert_int_equal(icp_utf8_decode(text, bytes, &back), bytes);
        assert_int_equal(back, code);
        if (bytes > 1) assert_int_equal(icp_utf8_lacks(text, bytes - 1), 1);
        if (code < 128) assert_int_equal(icp_unicode_class(code), icp_unicode_ascii[code]);
    }
}

/* ---- Real vocabularies ---------------------------------------------------------------------------------- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return NULL;
    char *text = calloc(1, 65536);
    if (text != NULL) (void)!fread(text, 1, 65535, file);
    fclose(file);
    return text;
}

static void check_vectors(const char *name)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[256];
    snprintf(path, sizeof(path), "../shared/models/ggml-vocab-%s.gguf", name);
    icp_gguf *gguf = NULL;
    icp_tokenizer *tokenizer = NULL;
    icp_error error = {""};
    if (icp_gguf_open(&gguf, path, &error) == ICP_NOT_FOUND) skip();
    assert_int_equal(icp_tokenizer_open(&tokenizer, gguf, &error), ICP_OK);
    icp_gguf_close(gguf);
    icp_encoder *encoder = encoder_of(tokenizer);
    snprintf(path, sizeof(path), "../shared/models/ggml-vocab-%s.gguf.inp", name);
    char *texts = read_file(path);
    snprintf(path, sizeof(path), "../shared/models/ggml-vocab-%s.gguf.out", name);
    char *lines = read_file(path);
    assert_non_null(texts);
    assert_non_null(lines);

    int count = 0;
    char *text = texts;
    for (char *line = lines; *line != 0; count++) {
        char *line_end = strchr(line, '\n');
        char *end = strstr(text, separator);
        assert_non_null(line_end);
        assert_non_null(end);
        *line_end = *end = 0;
        assert_text(encoder, text, line + strspn(line, " "));
        assert_round_trip(encoder, tokenizer, text, strlen(text));
        line = line_end + 1;
        text = end + strlen(separator);
    }
    assert_true(count > 40);
    free(texts);
    free(lines);
    icp_encoder_close(encoder);
    icp_tokenizer_close(tokenizer);
}

static void the_vectors_of_gpt2_are_met(void **state)
{
    (void)state;
    check_vectors("gpt-2");
}

static void the_vectors_of_llama_are_met(void **state)
{
    (void)state;
    check_vectors("llama-spm");
}

static void the_vectors_of_deepseek_are_met(void **state)
{
    (void)state;
    check_vectors("deepseek-llm");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_merges_go_by_rank_and_stay_inside_words),
        cmocka_unit_test(sentencepiece_merges_go_by_score_with_a_space_in_front_and_bytes_for_the_rest),
        cmocka_unit_test(the_model_decides_on_bos_eos_and_the_space),
        cmocka_unit_test(tokens_are_found_by_text_and_know_their_type),
        cmocka_unit_test(merges_over_texts_that_are_no_tokens_work_and_fall_back_to_bytes),
        cmocka_unit_test(a_vocabulary_that_is_not_understood_is_refused_by_name),
        cmocka_unit_test(text_that_looks_like_a_control_token_is_text),
        cmocka_unit_test(control_tokens_are_found_in_trusted_ranges_only),
        cmocka_unit_test(no_boundary_of_a_range_lets_a_control_token_through),
        cmocka_unit_test(the_count_is_told_when_the_ids_do_not_fit),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(a_stream_never_shows_part_of_a_character),
        cmocka_unit_test(what_never_becomes_a_character_comes_out_as_it_is_or_replaced),
        cmocka_unit_test(control_tokens_are_left_out_unless_asked_for),
        cmocka_unit_test(decoding_gives_back_any_text_that_was_encoded),
        cmocka_unit_test(a_megabyte_of_anything_is_encoded),
        cmocka_unit_test(every_pre_tokenizer_gets_through_a_megabyte),
        cmocka_unit_test(merging_agrees_with_merging_by_the_book),
        cmocka_unit_test(the_cache_of_words_changes_nothing),
        cmocka_unit_test(each_pre_tokenizer_cuts_as_its_expression_does),
        cmocka_unit_test(code_points_have_their_classes),
        cmocka_unit_test(the_vectors_of_gpt2_are_met),
        cmocka_unit_test(the_vectors_of_llama_are_met),
        cmocka_unit_test(the_vectors_of_deepseek_are_met),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
