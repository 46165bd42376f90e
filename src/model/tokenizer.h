/* tokenizer.h - text to tokens and back, as the model file says.
 *
 *      icp_gguf -> icp_tokenizer        the vocabulary; read only once it is open, any number of threads look into it
 *                   ^        ^
 *          icp_encoder     icp_decoder  one of each per thread, or per stream: scratch memory and a small cache;
 *          text -> ids     ids -> text  the bytes of a character that is not whole yet
 *
 * Two kinds of vocabulary: SentencePiece with scores and byte tokens ("llama"), and byte-level BPE with merges and a
 * pre-tokenizer ("gpt2"). The text of a token is the bytes that it stands for, whatever the file writes for them.
 *
 * Text is data. A control token (<|im_end|>, </s>) is made of text only inside the ranges that the caller marks, which
 * a chat template does for what it wrote itself, never for a message; ordinary merging cannot make one either. User
 * defined tokens are part of the language of the model and are always found in text.
 *
 * Any bytes can be encoded. Time is linear in the text, but for merging inside one word of n bytes, n log n. */
#ifndef ICP_MODEL_TOKENIZER_H
#define ICP_MODEL_TOKENIZER_H

#include "incipit/engine.h" /* ICP_TOKEN_NONE */
#include "model/gguf.h"

#define ICP_TOKENIZER_TOKEN_COUNT_MAX (1u << 22)
#define ICP_TOKENIZER_MERGE_COUNT_MAX (1u << 22)
#define ICP_TOKENIZER_TEXT_BYTES_MAX ((size_t)16 << 20) /* of one text to encode */

/* Numbered as in the file. */
typedef enum icp_token_type {
    ICP_TOKEN_UNDEFINED,
    ICP_TOKEN_NORMAL,
    ICP_TOKEN_UNKNOWN,
    ICP_TOKEN_CONTROL,
    ICP_TOKEN_USER_DEFINED,
    ICP_TOKEN_UNUSED,
    ICP_TOKEN_BYTE,
} icp_token_type;

/* ---- The vocabulary ------------------------------------------------------------------------------------- */

typedef struct icp_tokenizer icp_tokenizer;

/* What the model file says. An id that it does not have is ICP_TOKEN_NONE. */
typedef struct icp_tokenizer_facts {
    uint32_t token_count;
    uint32_t text_bytes_max; /* of the longest token */
    uint32_t bos, eos, eot, unk, pad;
    bool is_adding_bos, is_adding_eos; /* with ICP_ENCODE_ADD_SPECIAL; only where there is such an id */
    bool is_adding_space;              /* a space is put before text that begins the text or follows a special token */
    char model[16];                    /* "llama", "gpt2" */
    char pre[32];                      /* "gpt-2", "qwen2", ...; "" for llama */
} icp_tokenizer_facts;

/* Reads the vocabulary; gguf may be closed afterwards. BAD_ARGUMENT: it is malformed, or of a kind or pre-tokenizer
 * that is not known: error (may be NULL) names it. NO_MEMORY. */
icp_status icp_tokenizer_open(icp_tokenizer **out, const icp_gguf *gguf, icp_error *error);

/* Accepts NULL. Its encoders and decoders must not be used any more. */
void icp_tokenizer_close(icp_tokenizer *tokenizer);

const icp_tokenizer_facts *icp_tokenizer_get_facts(const icp_tokenizer *tokenizer);

/* The bytes that a token stands for, control tokens included: "<|im_end|>". Not terminated by a 0, and not always
 * whole characters. Of an id that is not in the vocabulary: nothing; UNDEFINED; false. */
icp_gguf_string icp_tokenizer_text(const icp_tokenizer *tokenizer, uint32_t id);
icp_token_type icp_tokenizer_type(const icp_tokenizer *tokenizer, uint32_t id);
bool icp_tokenizer_is_end_of_generation(const icp_tokenizer *tokenizer, uint32_t id);

/* The token of that text, of any type; of several, the last. ICP_TOKEN_NONE: there is none. */
uint32_t icp_tokenizer_find(const icp_tokenizer *tokenizer, const char *text, size_t bytes);

/* ---- Text to tokens ------------------------------------------------------------------------------------- */

typedef struct icp_encoder icp_encoder;

#define ICP_ENCODE_ADD_SPECIAL 1u   /* BOS and EOS where the model wants them */
#define ICP_ENCODE_PARSE_SPECIAL 2u /* control tokens are found in all of the text: for trusted text only */

typedef struct icp_byte_range {
    size_t start, end; /* [start, end) */
} icp_byte_range;

typedef struct icp_encode_input {
    const char *text; /* may be NULL where bytes is 0 */
    size_t bytes;
    uint32_t flags;
    /* Where control tokens may be found, in order and not overlapping: a token is found only where all of it lies in
     * one range, or in ranges that touch. With ICP_ENCODE_PARSE_SPECIAL the ranges are not looked at. */
    const icp_byte_range *trusted;
    size_t trusted_count;
} icp_encode_input;

icp_status icp_encoder_open(icp_encoder **out, const icp_tokenizer *tokenizer);
void icp_encoder_close(icp_encoder *encoder); /* accepts NULL */

/* Writes up to id_count_max ids (which may be 0, with ids NULL) and to *id_count how many the text has.
 * TOO_LONG: more than fit, *id_count says how many, or the text is past the limit, then *id_count is 0.
 * BAD_ARGUMENT: text is NULL, a flag is not known, the ranges are not in order or past the end. NO_MEMORY. */
icp_status icp_encoder_encode(icp_encoder *encoder, const icp_encode_input *input, uint32_t *ids, size_t id_count_max,
                              size_t *id_count);

/* ---- Tokens to text ------------------------------------------------------------------------------------- */

#define ICP_DECODE_SPECIAL 1u /* control and unknown tokens come out as their text; they are left out otherwise */
#define ICP_DECODE_START 2u   /* the ids begin a text: the space that encoding put in front is taken away */
#define ICP_DECODE_REPLACE 4u /* what is not valid UTF-8 comes out as U+FFFD; as the bytes that it is otherwise */

#define ICP_DECODER_HELD_BYTES_MAX 3u

/* One stream. To be made by icp_decoder_start; it owns nothing, and needs no end. */
typedef struct icp_decoder {
    const icp_tokenizer *tokenizer;
    uint32_t flags;
    uint32_t held_bytes;
    uint8_t held[ICP_DECODER_HELD_BYTES_MAX]; /* the beginning of a character */
    bool is_at_start;
} icp_decoder;

void icp_decoder_start(icp_decoder *decoder, const icp_tokenizer *tokenizer, uint32_t flags);

/* Room that is always enough for one call: 3 * (text_bytes_max + ICP_DECODER_HELD_BYTES_MAX). */
size_t icp_decoder_bytes_max(const icp_decoder *decoder);

/* Writes the characters that this token completes, and says how many bytes they are: a character is never split
 * between two calls. TOO_LONG: out is too small, *bytes says how much is needed, nothing has changed. BAD_ARGUMENT: no
 * such id. */
icp_status icp_decoder_next(icp_decoder *decoder, uint32_t id, char *out, size_t bytes_max, size_t *bytes);

/* Writes what is held back of a character that never became whole. The decoder may go on after it. */
icp_status icp_decoder_flush(icp_decoder *decoder, char *out, size_t bytes_max, size_t *bytes);

#endif
