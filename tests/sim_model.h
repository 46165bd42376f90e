/* sim_model.h - tiny model files for the simulation: two floats a row, a few dozen tokens that are letters.
 *
 * Kinds: full attention (llama), full and window (gemma3), window alone (gemma3 without a global layer). */
#ifndef ICP_TESTS_SIM_MODEL_H
#define ICP_TESTS_SIM_MODEL_H

#include "engine/model.h"
#include "gguf_make.h"

#define SIM_VOCABULARY 48u
#define SIM_EOS 2u
#define SIM_FIRST 4u /* tokens from here on have one letter as text */

typedef enum sim_kind { SIM_FULL, SIM_FULL_AND_WINDOW, SIM_WINDOW, SIM_KIND_COUNT } sim_kind;

typedef struct sim_model {
    gguf_make image;
    icp_model *model;
} sim_model;

void sim_model_open(sim_model *self, sim_kind kind, uint32_t window, uint32_t context);
void sim_model_close(sim_model *self);

/* Writes an adapter for such a model into a file. number: adapters of other numbers are others. */
void sim_adapter_write(const char *path, sim_kind kind, uint32_t number);

#endif
