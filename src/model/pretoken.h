/* pretoken.h - cuts text into the words that a byte-level BPE vocabulary merges within.
 *
 * A vocabulary names its pre-tokenizer (tokenizer.ggml.pre), one or several regular expressions: the first cuts the
 * text into its matches and what lies between them, the next one cuts each of those pieces, and so on. Each expression
 * is a scanner written by hand: it looks a character or two ahead, never goes back by more than a run that it will not
 * see again, and needs no stack. So a text costs linear time whatever is in it.
 *
 *      "I've 123"   smollm: \p{N}     |I've |1|2|3|
 *                           gpt-2     |I|'ve| |1|2|3|
 *
 * Concatenated, the words are the text. */
#ifndef ICP_MODEL_PRETOKEN_H
#define ICP_MODEL_PRETOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ICP_PRETOKEN_STAGES_MAX 6u

/* Where the piece that begins at position ends: past position, at most at end. */
typedef size_t icp_pretoken_stage(const uint8_t *text, size_t position, size_t end);

typedef struct icp_pretoken {
    const char *name;
    bool is_ignoring_merges; /* a word that is a token is that token, whatever the merges say */
    bool is_adding_bos;      /* unless the model says otherwise */
    icp_pretoken_stage *stages[ICP_PRETOKEN_STAGES_MAX];
} icp_pretoken;

typedef struct icp_pretoken_scan {
    const icp_pretoken *pretoken;
    const uint8_t *text;
    size_t position;
    size_t ends[ICP_PRETOKEN_STAGES_MAX + 1]; /* ends[0]: of the text; ends[i + 1]: of the current piece of stage i */
} icp_pretoken_scan;

/* By its name in the model file. NULL: not known. */
const icp_pretoken *icp_pretoken_find(const char *name, size_t bytes);

void icp_pretoken_start(icp_pretoken_scan *scan, const icp_pretoken *pretoken, const uint8_t *text, size_t bytes);

/* The next word. False: no more. */
bool icp_pretoken_next(icp_pretoken_scan *scan, const uint8_t **word, size_t *bytes);

#endif
