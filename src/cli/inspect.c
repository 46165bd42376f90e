/* inspect.c - the verb inspect: what a model file holds, and how much of it fits in memory.
 *
 * KV is counted as the engine will: in blocks, per group of layers. A conversation of N tokens takes a block for each
 * block_tokens of them in a group of full attention, and in a group of window W those of the last W tokens alone. */
#include "cli/runner.h"
#include "cli/say.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAIR_VALUE_BYTES 256u

static const icp_kv_format formats[] = {ICP_KV_FORMAT_F16, ICP_KV_FORMAT_Q8_0, ICP_KV_FORMAT_F32};
#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

typedef struct capacity {
    uint64_t memory;   /* all of it */
    uint64_t kv_bytes; /* what the weights leave */
    uint32_t block_tokens;
    uint32_t tokens; /* of one conversation */
} capacity;

/* What a format makes of it. */
typedef struct fit {
    uint64_t token_bytes; /* a token, all groups */
    uint64_t tokens;      /* that fit, of one text without an end */
    uint64_t blocks;      /* of the first group */
    uint64_t conversation_bytes;
    uint64_t conversations;
} fit;

/* ---- Counting ------------------------------------------------------------------------------------------------ */

static uint64_t free_memory(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kib = 0;
    while (file != NULL && kib == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "MemAvailable:", 13) == 0) kib = strtoull(line + 13, NULL, 10);
    }
    if (file != NULL) fclose(file);
    if (kib > 0) return kib * 1024u;
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

static uint64_t conversation_bytes(const icp_runner *runner, const capacity *room, icp_kv_format format)
{
    uint64_t bytes = 0;
    for (uint32_t group = 0; group < runner->facts.group_count; group++) {
        const icp_model_group *layers = &runner->facts.groups[group];
        uint64_t tokens = room->tokens;
        /* The window's last block and its first may both be partly outside. */
        if (layers->kind == ICP_GROUP_WINDOW && tokens > layers->window + room->block_tokens)
            tokens = layers->window + room->block_tokens;
        uint64_t blocks = (tokens + room->block_tokens - 1) / room->block_tokens;
        bytes += blocks * room->block_tokens * icp_model_kv_bytes(runner->model, group, format);
    }
    return bytes;
}

static fit count_fit(const icp_runner *runner, const capacity *room, icp_kv_format format)
{
    fit found = {.conversation_bytes = conversation_bytes(runner, room, format)};
    for (uint32_t group = 0; group < runner->facts.group_count; group++)
        found.token_bytes += icp_model_kv_bytes(runner->model, group, format);
    if (found.token_bytes == 0) return found;
    found.blocks = room->kv_bytes / (found.token_bytes * room->block_tokens);
    found.tokens = found.blocks * room->block_tokens;
    found.conversations = room->kv_bytes / found.conversation_bytes;
    return found;
}

static capacity read_capacity(const icp_runner *runner, const icp_arguments *arguments)
{
    capacity room = {.memory = icp_arguments_count(arguments, ICP_OPTION_MEMORY)};
    if (room.memory == 0) room.memory = free_memory();
    room.kv_bytes = room.memory > runner->facts.weight_bytes ? room.memory - runner->facts.weight_bytes : 0;
    room.block_tokens = (uint32_t)icp_arguments_count(arguments, ICP_OPTION_BLOCK_TOKENS);
    uint64_t tokens = icp_arguments_count(arguments, ICP_OPTION_TOKENS);
    room.tokens = tokens > 0 ? (uint32_t)tokens : runner->facts.context_max;
    return room;
}

/* ---- For people ---------------------------------------------------------------------------------------------- */

static void show_facts(const icp_model_facts *facts)
{
    printf("file          %s, GGUF version %u, %s\n", facts->path, facts->file_version,
           icp_say_bytes(facts->file_bytes));
    printf("name          %s\n", facts->name);
    printf("architecture  %s, %u layers of width %u, feed-forward %u\n", facts->architecture, facts->layer_count,
           facts->width, facts->hidden_width);
    printf("attention     %u heads of %u, %u for keys and values\n", facts->head_count, facts->head_dim,
           facts->kv_head_count);
    printf("parameters    %s (%s), %s: %s\n", icp_say_count(facts->parameter_count),
           icp_say_short(facts->parameter_count), facts->type, icp_say_bytes(facts->weight_bytes));
    printf("context       %s tokens\n", icp_say_count(facts->context_max));
    printf("vocabulary    %s tokens, %s", icp_say_count(facts->vocabulary), facts->tokenizer);
    if (facts->bos != ICP_TOKEN_NONE) printf(", begins with %u", facts->bos);
    if (facts->eos != ICP_TOKEN_NONE) printf(", ends with %u", facts->eos);
    printf("\nchat          %s\n", facts->has_chat_template ? "it has a template" : "it has no template");
}

static void show_groups(const icp_runner *runner)
{
    puts("\nKV per token     f16      q8_0       f32");
    for (uint32_t group = 0; group < runner->facts.group_count; group++) {
        const icp_model_group *layers = &runner->facts.groups[group];
        printf("  group %u   ", group);
        for (size_t i = 0; i < FORMAT_COUNT; i++)
            printf("%10s", icp_say_bytes(icp_model_kv_bytes(runner->model, group, formats[i])));
        printf("   %u layers, %u heads of %u, ", layers->layer_count, layers->kv_head_count, layers->head_dim);
        if (layers->kind == ICP_GROUP_WINDOW)
            printf("the last %s tokens\n", icp_say_count(layers->window));
        else
            puts("all tokens");
    }
}

static void show_capacity(const icp_runner *runner, const capacity *room)
{
    printf("\nIn %s, of which the weights take %s:\n", icp_say_bytes(room->memory),
           icp_say_bytes(runner->facts.weight_bytes));
    if (room->kv_bytes == 0) {
        puts("  there is no room for KV: the weights do not fit");
        return;
    }
    printf("  KV type       tokens  blocks of %-4u   conversations of %s\n", room->block_tokens,
           icp_say_count(room->tokens));
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        fit found = count_fit(runner, room, formats[i]);
        printf("  %-8s %11s  %14s   %s, of %s each\n", icp_runner_kv_name(formats[i]), icp_say_count(found.tokens),
               icp_say_count(found.blocks), icp_say_count(found.conversations),
               icp_say_bytes(found.conversation_bytes));
    }
}

static void show_metadata(const icp_model *model)
{
    char key[256], value[PAIR_VALUE_BYTES];
    puts("\nMetadata:");
    for (uint32_t i = 0; icp_model_pair(model, i, key, sizeof(key), value, sizeof(value)) == ICP_OK; i++) {
        printf("  %-44s ", key);
        icp_say_visible(stdout, value, strlen(value));
        putchar('\n');
    }
}

static void shape_text(const icp_model_tensor *tensor, char *text, size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < tensor->dimension_count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%llu", i > 0 ? " x " : "",
                                 (unsigned long long)tensor->shape[i]);
}

static void show_tensors(const icp_model *model)
{
    icp_model_tensor tensor;
    puts("\nTensors:");
    for (uint32_t i = 0; icp_model_tensor_at(model, i, &tensor) == ICP_OK; i++) {
        char shape[96];
        shape_text(&tensor, shape, sizeof(shape));
        printf("  %-32s %-8s %18s %12s\n", tensor.name, tensor.type, shape, icp_say_bytes(tensor.bytes));
    }
}

/* ---- For programs -------------------------------------------------------------------------------------------- */

static json_t *text_json(const char *text)
{
    return icp_json_text(text, strlen(text));
}

static json_t *facts_json(const icp_model_facts *facts)
{
    json_t *value = json_pack("{s:o, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "path", text_json(facts->path), "name",
                              text_json(facts->name), "architecture", facts->architecture, "type", facts->type,
                              "tokenizer", facts->tokenizer, "file_version", (json_int_t)facts->file_version,
                              "file_bytes", (json_int_t)facts->file_bytes, "weight_bytes",
                              (json_int_t)facts->weight_bytes, "parameters", (json_int_t)facts->parameter_count);
    json_t *shape = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "layers", (json_int_t)facts->layer_count,
                              "width", (json_int_t)facts->width, "hidden_width", (json_int_t)facts->hidden_width,
                              "heads", (json_int_t)facts->head_count, "kv_heads", (json_int_t)facts->kv_head_count,
                              "head_dim", (json_int_t)facts->head_dim, "vocabulary", (json_int_t)facts->vocabulary,
                              "context", (json_int_t)facts->context_max, "has_chat_template", facts->has_chat_template);
    json_object_update(value, shape);
    json_decref(shape);
    json_object_set_new(value, "bos", facts->bos != ICP_TOKEN_NONE ? json_integer(facts->bos) : json_null());
    json_object_set_new(value, "eos", facts->eos != ICP_TOKEN_NONE ? json_integer(facts->eos) : json_null());
    return value;
}

static json_t *groups_json(const icp_runner *runner)
{
    json_t *list = json_array();
    for (uint32_t group = 0; group < runner->facts.group_count; group++) {
        const icp_model_group *layers = &runner->facts.groups[group];
        json_t *bytes = json_object();
        for (size_t i = 0; i < FORMAT_COUNT; i++)
            json_object_set_new(bytes, icp_runner_kv_name(formats[i]),
                                json_integer((json_int_t)icp_model_kv_bytes(runner->model, group, formats[i])));
        json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:o}", "kind",
                                              layers->kind == ICP_GROUP_WINDOW ? "window" : "full", "window",
                                              (json_int_t)layers->window, "layers", (json_int_t)layers->layer_count,
                                              "kv_bytes_per_token", bytes));
    }
    return list;
}

static json_t *capacity_json(const icp_runner *runner, const capacity *room)
{
    json_t *fits = json_object();
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        fit found = count_fit(runner, room, formats[i]);
        json_object_set_new(fits, icp_runner_kv_name(formats[i]),
                            json_pack("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)found.tokens, "blocks",
                                      (json_int_t)found.blocks, "conversations", (json_int_t)found.conversations,
                                      "conversation_bytes", (json_int_t)found.conversation_bytes));
    }
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "memory", (json_int_t)room->memory, "kv_bytes",
                     (json_int_t)room->kv_bytes, "block_tokens", (json_int_t)room->block_tokens, "conversation_tokens",
                     (json_int_t)room->tokens, "kv_types", fits);
}

static json_t *metadata_json(const icp_model *model)
{
    char key[256], value[PAIR_VALUE_BYTES];
    json_t *pairs = json_object();
    for (uint32_t i = 0; icp_model_pair(model, i, key, sizeof(key), value, sizeof(value)) == ICP_OK; i++) {
        json_t *name = text_json(key);
        json_object_set_new(pairs, json_string_value(name), text_json(value));
        json_decref(name);
    }
    return pairs;
}

static json_t *tensors_json(const icp_model *model)
{
    json_t *list = json_array();
    icp_model_tensor tensor;
    for (uint32_t i = 0; icp_model_tensor_at(model, i, &tensor) == ICP_OK; i++) {
        json_t *shape = json_array();
        for (uint32_t d = 0; d < tensor.dimension_count; d++)
            json_array_append_new(shape, json_integer((json_int_t)tensor.shape[d]));
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:I}", "name", text_json(tensor.name), "type",
                                              tensor.type, "shape", shape, "bytes", (json_int_t)tensor.bytes));
    }
    return list;
}

int icp_inspect_run(const icp_arguments *arguments)
{
    icp_runner runner;
    int result = icp_runner_open_model(&runner, arguments);
    if (result == ICP_EXIT_OK && arguments->operand_count > runner.operand_first)
        result = icp_say_usage("inspect takes one model, a file whose name ends in .gguf; use --model for others");
    if (result != ICP_EXIT_OK) {
        icp_runner_close(&runner);
        return result;
    }
    capacity room = read_capacity(&runner, arguments);
    bool has_metadata = icp_arguments_flag(arguments, ICP_OPTION_METADATA);
    bool has_tensors = icp_arguments_flag(arguments, ICP_OPTION_TENSORS);
    if (icp_arguments_flag(arguments, ICP_OPTION_JSON)) {
        json_t *value = facts_json(&runner.facts);
        json_object_set_new(value, "groups", groups_json(&runner));
        json_object_set_new(value, "capacity", capacity_json(&runner, &room));
        if (has_metadata) json_object_set_new(value, "metadata", metadata_json(runner.model));
        if (has_tensors) json_object_set_new(value, "tensors", tensors_json(runner.model));
        result = icp_json_write(value, stdout);
    } else {
        show_facts(&runner.facts);
        show_groups(&runner);
        show_capacity(&runner, &room);
        if (has_metadata) show_metadata(runner.model);
        if (has_tensors) show_tensors(runner.model);
    }
    icp_runner_close(&runner);
    return result;
}
