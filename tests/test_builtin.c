/* test_builtin.c - the model that ships with the project: its file opens, and its tokenizer agrees with the one it was
 * trained with (model/tokenizer.py). */
#include "model/gguf.h"
#include "model/tokenizer.h"
#include "world.h"

#include <string.h>

#define BUILTIN "model/incipit-debian.gguf"

typedef struct builtin {
    icp_gguf *gguf;
    icp_tokenizer *tokenizer;
    icp_encoder *encoder;
} builtin;

static builtin builtin_open(void)
{
    builtin self = {NULL, NULL, NULL};
    icp_error error = {""};
    if (icp_gguf_open(&self.gguf, BUILTIN, &error) != ICP_OK) fail_msg("%s", error.text);
    if (icp_tokenizer_open(&self.tokenizer, self.gguf, &error) != ICP_OK) fail_msg("%s", error.text);
    assert_int_equal(icp_encoder_open(&self.encoder, self.tokenizer), ICP_OK);
    return self;
}

static void builtin_close(builtin *self)
{
    icp_encoder_close(self->encoder);
    icp_tokenizer_close(self->tokenizer);
    icp_gguf_close(self->gguf);
}

static size_t encode(builtin *self, const char *text, uint32_t flags, uint32_t *ids, size_t count_max)
{
    size_t count = 0;
    icp_encode_input input = {.text = text, .bytes = strlen(text), .flags = flags};
    assert_int_equal(icp_encoder_encode(self->encoder, &input, ids, count_max, &count), ICP_OK);
    return count;
}

static void the_file_is_a_llama_model_of_the_promised_size(void **state)
{
    (void)state;
    builtin self = builtin_open();
    icp_gguf_string architecture;
    uint64_t layers = 0;
    uint64_t context = 0;
    assert_true(icp_gguf_text(self.gguf, "general.architecture", &architecture));
    assert_int_equal(architecture.bytes, 5);
    assert_memory_equal(architecture.text, "llama", 5);
    assert_true(icp_gguf_uint(self.gguf, "llama.block_count", &layers));
    assert_true(icp_gguf_uint(self.gguf, "llama.context_length", &context));
    assert_int_equal(layers, 9);
    assert_int_equal(context, 1024);
    assert_int_equal(icp_gguf_tensor_count(self.gguf), 2 + 9 * 9);
    assert_true(icp_gguf_bytes(self.gguf) <= 20000000);
    const icp_gguf_tensor *embedding = icp_gguf_find_tensor(self.gguf, "token_embd.weight");
    assert_non_null(embedding);
    assert_int_equal(embedding->type, ICP_WEIGHT_Q8_0);
    builtin_close(&self);
}

static void the_tokenizer_gives_the_ids_that_it_was_trained_with(void **state)
{
    (void)state;
    builtin self = builtin_open();
    const uint32_t question[] = {470, 295, 6293, 63};
    const uint32_t chat[] = {8190, 316, 10, 634, 451, 2145, 872, 414, 63, 8191, 10};
    uint32_t ids[64];
    assert_int_equal(encode(&self, "What is ripgrep?", 0, ids, 64), sizeof(question) / sizeof(question[0]));
    assert_memory_equal(ids, question, sizeof(question));
    const char *turn = "<|im_start|>user\nWhich command lists open files?<|im_end|>\n";
    assert_int_equal(encode(&self, turn, ICP_ENCODE_PARSE_SPECIAL, ids, 64), sizeof(chat) / sizeof(chat[0]));
    assert_memory_equal(ids, chat, sizeof(chat));
    assert_true(icp_tokenizer_is_end_of_generation(self.tokenizer, 8191));
    builtin_close(&self);
}

static void text_that_looks_like_a_special_token_is_not_one(void **state)
{
    (void)state;
    builtin self = builtin_open();
    uint32_t ids[64];
    size_t count = encode(&self, "<|im_start|>system", 0, ids, 64);
    for (size_t i = 0; i < count; i++) assert_true(ids[i] < 8189);

    icp_decoder decoder;
    char text[256] = "";
    size_t used = 0;
    icp_decoder_start(&decoder, self.tokenizer, ICP_DECODE_START);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = 0;
        assert_int_equal(icp_decoder_next(&decoder, ids[i], text + used, sizeof(text) - used, &bytes), ICP_OK);
        used += bytes;
    }
    assert_int_equal(used, strlen("<|im_start|>system"));
    assert_memory_equal(text, "<|im_start|>system", used);
    builtin_close(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_file_is_a_llama_model_of_the_promised_size),
        cmocka_unit_test(the_tokenizer_gives_the_ids_that_it_was_trained_with),
        cmocka_unit_test(text_that_looks_like_a_special_token_is_not_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
