/* test_output.c - text as it may be shown: stop strings over the stream, whole characters, nothing shown too early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "tokenizer_world.h"

#include <stdlib.h>

#define TEXT_MAX 256u
#define STOPS_MAX 3u

/* A sequence with nothing around it but its stop strings. Bytes are tokens: the tiny BPE vocabulary has all 256. */
typedef struct stream {
    icp_tokenizer *tokenizer;
    icp_job_record job;
    icp_sequence sequence;
    icp_stop_string stops[STOPS_MAX];
    uint16_t failures[STOPS_MAX][ICP_STOP_BYTES_MAX];
    uint16_t states[STOPS_MAX];
    char *room;
    char text[TEXT_MAX * 4]; /* all that was shown */
    uint32_t text_bytes;
    const icp_stop_string *stop;
} stream;

static void stream_start(stream *self, icp_tokenizer *tokenizer, const char *const *stops, uint32_t stop_count)
{
    memset(self, 0, sizeof(*self));
    self->tokenizer = tokenizer;
    size_t longest = 0;
    for (uint32_t i = 0; i < stop_count; i++) {
        uint32_t bytes = (uint32_t)strlen(stops[i]);
        icp_stop_prepare(stops[i], bytes, self->failures[i]);
        self->stops[i] = (icp_stop_string){stops[i], self->failures[i], bytes};
        if (bytes > longest) longest = bytes;
    }
    self->job.stops = self->stops;
    self->job.stop_count = stop_count;
    self->room = malloc(icp_output_room(tokenizer, longest));
    assert_non_null(self->room);
    self->sequence.job = &self->job;
    self->sequence.stop_states = self->states;
    self->sequence.text = self->room;
    icp_output_start(&self->sequence, tokenizer, false);
}

static void stream_show(stream *self)
{
    memcpy(self->text + self->text_bytes, self->sequence.text, self->sequence.text_shown);
    self->text_bytes += self->sequence.text_shown;
}

/* Feeds bytes until a stop string ends it. */
static void stream_feed(stream *self, const char *text)
{
    for (; *text != '\0' && self->stop == NULL; text++) {
        self->sequence.token_count++;
        self->stop = icp_output_text(&self->sequence, TINY_BPE_BYTES + (uint8_t)*text);
        stream_show(self);
    }
}

static void stream_end(stream *self)
{
    if (self->stop == NULL) {
        (void)icp_output_text(&self->sequence, ICP_TOKEN_NONE);
        self->stop = icp_output_flush(&self->sequence);
        stream_show(self);
    }
    free(self->room);
}

static void assert_text(const stream *self, const char *text)
{
    assert_int_equal(self->text_bytes, strlen(text));
    assert_memory_equal(self->text, text, strlen(text));
}

static void only_what_may_become_a_stop_string_is_held_back(void **state)
{
    static const char *const stops[] = {"\n\nQ:"};
    stream self;
    stream_start(&self, *state, stops, 1);
    stream_feed(&self, "an answer.\n");
    assert_text(&self, "an answer.");
    stream_feed(&self, "\n");
    assert_text(&self, "an answer.");
    stream_feed(&self, "\nQ");
    assert_text(&self, "an answer.\n"); /* three newlines: the first is free to go */
    stream_feed(&self, "?");
    assert_text(&self, "an answer.\n\n\nQ?");
    stream_feed(&self, " more\n\nQ: hidden");
    assert_ptr_equal(self.stop, &self.stops[0]);
    assert_text(&self, "an answer.\n\n\nQ? more");
    stream_end(&self);
}

static void what_was_held_back_is_shown_when_the_text_ends(void **state)
{
    static const char *const stops[] = {"STOP", "TOE"};
    stream self;
    stream_start(&self, *state, stops, 2);
    stream_feed(&self, "a STO");
    assert_text(&self, "a ");
    stream_end(&self);
    assert_null(self.stop);
    assert_text(&self, "a STO");
}

static void a_stop_string_can_be_shown(void **state)
{
    static const char *const stops[] = {"END"};
    stream self;
    stream_start(&self, *state, stops, 1);
    self.job.is_stop_shown = true;
    stream_feed(&self, "the ENDgame");
    assert_text(&self, "the END");
    stream_end(&self);
}

static void stop_strings_do_not_count_before_the_least_number_of_tokens(void **state)
{
    static const char *const stops[] = {"aa"};
    stream self;
    stream_start(&self, *state, stops, 1);
    self.job.output_min = 4;
    stream_feed(&self, "aaaaaaaa");
    assert_int_equal(self.sequence.token_count, 5); /* tokens 4 and 5 are the first that count */
    assert_text(&self, "aaa");
    stream_end(&self);
}

static void characters_come_out_whole(void **state)
{
    static const char *const stops[] = {"\xe2\x82\xac\xe2\x82\xac"};
    stream self;
    stream_start(&self, *state, stops, 1);
    stream_feed(&self, "1\xe2\x82");
    assert_text(&self, "1");
    stream_feed(&self, "\xac"); /* half of the stop string */
    assert_text(&self, "1");
    stream_feed(&self, "\xe2\x82\xad");
    assert_text(&self, "1\xe2\x82\xac\xe2\x82\xad");
    stream_feed(&self, "\xf0\x9f");
    assert_text(&self, "1\xe2\x82\xac\xe2\x82\xad");
    stream_end(&self); /* it never became whole */
    assert_true(self.text_bytes >= 10);
    assert_memory_equal(self.text + self.text_bytes - 3, "\xef\xbf\xbd", 3);
}

static uint32_t draw(uint64_t *random, uint32_t bound)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*random >> 33) % bound;
}

/* Where the text is cut: before the first stop string to be complete, the longest of those that end there. */
static size_t cut_of(const char *text, const char *const *stops, uint32_t stop_count)
{
    for (size_t end = 1; end <= strlen(text); end++) {
        size_t longest = 0;
        for (uint32_t i = 0; i < stop_count; i++) {
            size_t bytes = strlen(stops[i]);
            if (bytes <= end && memcmp(text + end - bytes, stops[i], bytes) == 0 && bytes > longest) longest = bytes;
        }
        if (longest != 0) return end - longest;
    }
    return strlen(text);
}

/* The text so far may not be shown past the first place from which on it could still become a stop string. */
static size_t free_of(const char *text, size_t bytes, const char *const *stops, uint32_t stop_count)
{
    for (size_t start = 0; start < bytes; start++) {
        for (uint32_t i = 0; i < stop_count; i++) {
            size_t rest = bytes - start;
            if (rest < strlen(stops[i]) && memcmp(text + start, stops[i], rest) == 0) return start;
        }
    }
    return bytes;
}

static void random_texts_are_cut_where_a_plain_search_says(void **state)
{
    uint64_t random = 1;
    uint32_t stopped = 0;
    print_message("seed 1\n");
    for (uint32_t round = 0; round < 20000; round++) {
        char texts[STOPS_MAX][8];
        const char *stops[STOPS_MAX];
        char text[64] = "";
        uint32_t stop_count = draw(&random, STOPS_MAX + 1);
        for (uint32_t i = 0; i < stop_count; i++) {
            uint32_t bytes = 2 + draw(&random, 6);
            for (uint32_t j = 0; j < bytes; j++) texts[i][j] = (char)('a' + draw(&random, 2));
            texts[i][bytes] = '\0';
            stops[i] = texts[i];
        }
        for (uint32_t j = 0; j < 40; j++) text[j] = (char)('a' + draw(&random, 2));
        stream self;
        stream_start(&self, *state, stops, stop_count);
        size_t cut = cut_of(text, stops, stop_count);
        for (uint32_t j = 0; j < 40 && self.stop == NULL; j++) {
            const char byte[2] = {text[j], '\0'};
            stream_feed(&self, byte);
            if (self.stop == NULL) assert_int_equal(self.text_bytes, free_of(text, j + 1, stops, stop_count));
        }
        stopped += self.stop != NULL;
        stream_end(&self);
        assert_int_equal(self.text_bytes, cut);
        assert_memory_equal(self.text, text, cut);
    }
    assert_true(stopped > 5000 && stopped < 20000);
}

static int open_tokenizer(void **state)
{
    *state = tiny_bpe_open("gpt-2");
    return *state == NULL;
}

static int close_tokenizer(void **state)
{
    icp_tokenizer_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_may_become_a_stop_string_is_held_back),
        cmocka_unit_test(what_was_held_back_is_shown_when_the_text_ends),
        cmocka_unit_test(a_stop_string_can_be_shown),
        cmocka_unit_test(stop_strings_do_not_count_before_the_least_number_of_tokens),
        cmocka_unit_test(characters_come_out_whole),
        cmocka_unit_test(random_texts_are_cut_where_a_plain_search_says),
    };
    return cmocka_run_group_tests_name("output", tests, open_tokenizer, close_tokenizer);
}
