/* bench_tokenizer.c - how fast text becomes tokens, and tokens text.
 *
 *     bench_tokenizer VOCABULARY.gguf [TEXT...]     TEXT defaults to Debian's licences, in /usr/share/common-licenses
 *
 * Encodes the texts, joined, in pieces of 64 KiB as requests would come, with an empty word cache (cold: a new encoder
 * for each pass) and with a full one (warm), and decodes the ids. The best of several passes, in MB (10^6 bytes) of
 * text a second. */
#include "model/tokenizer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_BYTES_MAX ((size_t)4 << 20)
#define PIECE_BYTES ((size_t)64 << 10)
#define PASSES 7

typedef struct bench {
    icp_tokenizer *tokenizer;
    char *text;
    size_t bytes;
    uint32_t *ids;
    size_t id_count;
} bench;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void read_file(bench *self, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) return;
    self->bytes += fread(self->text + self->bytes, 1, TEXT_BYTES_MAX - self->bytes, file);
    fclose(file);
}

static void read_licences(bench *self)
{
    const char *folder = "/usr/share/common-licenses";
    DIR *dir = opendir(folder);
    if (dir == NULL) return;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char path[512];
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        read_file(self, path);
    }
    closedir(dir);
}

/* The whole text once; false on failure. */
static bool encode(bench *self, icp_encoder *encoder)
{
    self->id_count = 0;
    for (size_t at = 0; at < self->bytes; at += PIECE_BYTES) {
        size_t bytes = self->bytes - at < PIECE_BYTES ? self->bytes - at : PIECE_BYTES;
        icp_encode_input input = {.text = self->text + at, .bytes = bytes};
        size_t count = 0;
        size_t room = 2 * TEXT_BYTES_MAX - self->id_count;
        if (icp_encoder_encode(encoder, &input, self->ids + self->id_count, room, &count) != ICP_OK) return false;
        self->id_count += count;
    }
    return true;
}

static bool decode(bench *self, char *out, size_t size)
{
    icp_decoder decoder;
    icp_decoder_start(&decoder, self->tokenizer, ICP_DECODE_SPECIAL);
    for (size_t i = 0; i < self->id_count; i++) {
        size_t bytes = 0;
        if (icp_decoder_next(&decoder, self->ids[i], out, size, &bytes) != ICP_OK) return false;
    }
    return true;
}

static bool measure(bench *self)
{
    double cold = 1e9, warm = 1e9, back = 1e9;
    icp_decoder decoder;
    icp_decoder_start(&decoder, self->tokenizer, 0);
    size_t size = icp_decoder_bytes_max(&decoder);
    char *out = malloc(size);
    bool is_good = out != NULL;
    for (int pass = 0; pass < PASSES && is_good; pass++) {
        icp_encoder *encoder = NULL;
        if (icp_encoder_open(&encoder, self->tokenizer) != ICP_OK) break;
        double start = now();
        is_good = encode(self, encoder);
        double middle = now();
        is_good = is_good && encode(self, encoder);
        double end = now();
        is_good = is_good && decode(self, out, size);
        double last = now();
        if (middle - start < cold) cold = middle - start;
        if (end - middle < warm) warm = end - middle;
        if (last - end < back) back = last - end;
        icp_encoder_close(encoder);
    }
    free(out);
    double mega = (double)self->bytes * 1e-6;
    const icp_tokenizer_facts *facts = icp_tokenizer_get_facts(self->tokenizer);
    printf("%s %s: %u tokens, %zu bytes of text, %zu ids\n", facts->model, facts->pre, facts->token_count, self->bytes,
           self->id_count);
    printf("encode cold %.1f MB/s, warm %.1f MB/s; decode %.1f MB/s\n", mega / cold, mega / warm, mega / back);
    return is_good;
}

int main(int argc, char **argv)
{
    bench self = {.text = malloc(TEXT_BYTES_MAX), .ids = malloc(2 * TEXT_BYTES_MAX * sizeof(uint32_t))};
    icp_gguf *gguf = NULL;
    icp_error error = {""};
    int status = 1;
    if (argc < 2 || self.text == NULL || self.ids == NULL) {
        fprintf(stderr, "usage: bench_tokenizer VOCABULARY.gguf [TEXT...]\n");
        goto end;
    }
    for (int i = 2; i < argc; i++) read_file(&self, argv[i]);
    if (argc == 2) read_licences(&self);
    if (self.bytes == 0) {
        fprintf(stderr, "bench_tokenizer: there is no text\n");
        goto end;
    }
    double start = now();
    icp_status opened = icp_gguf_open(&gguf, argv[1], &error);
    if (opened == ICP_OK) opened = icp_tokenizer_open(&self.tokenizer, gguf, &error);
    if (opened != ICP_OK) {
        fprintf(stderr, "bench_tokenizer: %s\n", error.text);
        goto end;
    }
    printf("opened in %.1f ms\n", (now() - start) * 1e3);
    status = measure(&self) ? 0 : 1;
end:
    icp_tokenizer_close(self.tokenizer);
    icp_gguf_close(gguf);
    free(self.text);
    free(self.ids);
    return status;
}
