/* driver_config.c - configurations and texts, drawn so that prefixes meet all the time. */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- Configurations ---------------------------------------------------------------------------------------- */

static void add_group(driver *self, icp_group_kind kind)
{
    uint32_t index = self->options.group_count++;
    icp_group *group = &self->groups[index];
    *group = (icp_group){.kind = kind};
    if (kind == ICP_GROUP_WINDOW) group->window = 2 + driver_draw(self, 4 * self->options.block_tokens);
    if (index != 0 && driver_chance(self, 2)) group->block_count = 4 + driver_draw(self, NAIVE_BLOCK_COUNT_MAX - 3);
}

static void draw_groups(driver *self)
{
    static const icp_group_kind shapes[][NAIVE_GROUP_COUNT_MAX] = {
        {ICP_GROUP_FULL},
        {ICP_GROUP_FULL},
        {ICP_GROUP_FULL},
        {ICP_GROUP_FULL, ICP_GROUP_FULL},
        {ICP_GROUP_FULL, ICP_GROUP_WINDOW},
        {ICP_GROUP_FULL, ICP_GROUP_WINDOW},
        {ICP_GROUP_FULL, ICP_GROUP_WINDOW, ICP_GROUP_STATE},
        {ICP_GROUP_FULL, ICP_GROUP_STATE},
        {ICP_GROUP_WINDOW, ICP_GROUP_FULL, ICP_GROUP_WINDOW},
        {ICP_GROUP_WINDOW},
        {ICP_GROUP_WINDOW, ICP_GROUP_WINDOW},
        {ICP_GROUP_STATE},
        {ICP_GROUP_WINDOW, ICP_GROUP_STATE},
    };
    static const uint32_t counts[] = {1, 1, 1, 2, 2, 2, 3, 2, 3, 1, 2, 1, 2};
    uint32_t shape = driver_draw(self, sizeof(counts) / sizeof(counts[0]));
    self->options.group_count = 0;
    for (uint32_t i = 0; i < counts[shape]; i++) add_group(self, shapes[shape][i]);
    self->options.groups = self->groups;
}

static void draw_options(driver *self)
{
    icp_cache_options *options = &self->options;
    icp_cache_options_init(options);
    options->block_tokens = driver_chance(self, 8) ? NAIVE_BLOCK_TOKENS_MAX : 1 + driver_draw(self, 8);
    options->block_count = 4 + driver_draw(self, NAIVE_BLOCK_COUNT_MAX - 3);
    draw_groups(self);
    options->policy = (icp_policy_kind)driver_draw(self, ICP_POLICY_COUNT);
    options->duplicates = driver_chance(self, 2) ? ICP_DUPLICATES_KEEP : ICP_DUPLICATES_ADOPT;
    static const uint32_t tails[] = {1, 1, 1, 3, ICP_TAIL_OFF};
    options->tail_tokens_min = tails[driver_draw(self, 5)];
    options->lease_count_max = 1 + driver_draw(self, NAIVE_LEASE_COUNT_MAX);
    uint32_t tokens_max =
        options->block_tokens * (2 + driver_draw(self, 24)) + driver_draw(self, options->block_tokens);
    options->lease_tokens_max = tokens_max < NAIVE_TOKEN_COUNT_MAX ? tokens_max : NAIVE_TOKEN_COUNT_MAX - 1;
    options->scope_count_max = 1 + driver_draw(self, NAIVE_SCOPE_COUNT_MAX - 1);
    options->pin_count_max = 1 + driver_draw(self, NAIVE_PIN_COUNT_MAX);
    options->extra_count_max = driver_chance(self, 2) ? 1 + driver_draw(self, 12) : 1024;
    options->ghost_count = driver_chance(self, 4) ? ICP_GHOST_OFF : driver_draw(self, 40);
    if (driver_chance(self, 8)) options->name_kind = (icp_name_kind)(1 + driver_draw(self, 3));
    options->name_seed = driver_chance(self, 2) ? "seed" : NULL;
    options->seed = driver_draw(self, 1000);
    options->hash_bits = driver_chance(self, 3) ? 1 + driver_draw(self, 8) : 0; /* all of them */
    self->alphabet = 2 + driver_draw(self, 3);
    self->has_extras = driver_chance(self, 3);
    self->has_quotas = driver_chance(self, 3);
}

static void describe(driver *self)
{
    const icp_cache_options *options = &self->options;
    int used =
        snprintf(self->configuration, sizeof(self->configuration),
                 "block_tokens %u, block_count %u, policy %d, duplicates %d, tail_tokens_min %d, lease_count_max "
                 "%u, lease_tokens_max %u, scope_count_max %u, pin_count_max %u, extra_count_max %u, ghost_count "
                 "%d, name_kind %d, hash_bits %u, groups",
                 options->block_tokens, options->block_count, (int)options->policy, (int)options->duplicates,
                 (int)options->tail_tokens_min, options->lease_count_max, options->lease_tokens_max,
                 options->scope_count_max, options->pin_count_max, options->extra_count_max, (int)options->ghost_count,
                 (int)options->name_kind, options->hash_bits);
    for (uint32_t g = 0; g < options->group_count && used < (int)sizeof(self->configuration); g++) {
        static const char *const kinds[] = {"full", "window", "state"};
        used += snprintf(self->configuration + used, sizeof(self->configuration) - (size_t)used, " %s(%u, %u)",
                         kinds[self->groups[g].kind], self->groups[g].window, self->groups[g].block_count);
    }
}

bool driver_configure(driver *self)
{
    draw_options(self);
    describe(self);
    self->model->error[0] = '\0';
    replica_open(self->events, self->options.group_count, self->options.block_tokens, false);
    self->options.event = replica_event;
    self->options.event_context = self->events;
    if (driver_chance(self, 4)) {
        size_t bytes = (icp_cache_size(&self->options) + 63) / 64 * 64;
        self->memory = aligned_alloc(64, bytes);
        self->options.memory = self->memory;
        self->options.memory_bytes = bytes;
        if (self->memory != NULL) memset(self->memory, 0xa5, bytes);
    }
    icp_error error = {""};
    icp_status status = icp_cache_open(&self->cache, &self->options, &error);
    if (status != ICP_OK) {
        naive_fail(self->model, "icp_cache_open: %s: %s", icp_status_name(status), error.text);
        self->cache = NULL;
        return false;
    }
    naive_open(self->model, self->cache, &self->options);
    return true;
}

/* ---- Texts --------------------------------------------------------------------------------------------------- */

/* One more extra behind the last one, that covers at least one token of the text. */
static void add_extra(driver *self, naive_text *text)
{
    uint32_t begin = 0;
    if (text->extra_count == NAIVE_EXTRA_COUNT_MAX) return;
    if (text->extra_count != 0) {
        const naive_extra *last = &text->extras[text->extra_count - 1];
        begin = last->position + last->length;
    }
    if (begin >= text->token_count) return;
    naive_extra *extra = &text->extras[text->extra_count++];
    extra->position = begin + driver_draw(self, text->token_count - begin);
    extra->length = 1 + driver_draw(self, 2 * self->options.block_tokens + 1);
    extra->id = driver_draw(self, NAIVE_EXTRA_ID_COUNT);
}

void driver_text_append(driver *self, naive_text *text, uint32_t count)
{
    for (uint32_t i = 0; i < count && text->token_count < self->options.lease_tokens_max; i++) {
        text->tokens[text->token_count++] = driver_draw(self, self->alphabet);
    }
}

static void cut_text(naive_text *text, uint32_t token_count)
{
    text->token_count = token_count;
    while (text->extra_count != 0 && text->extras[text->extra_count - 1].position >= token_count) text->extra_count--;
}

/* A text that was seen before, or one that begins like it. */
void driver_text_draw(driver *self, naive_text *text)
{
    uint32_t known = self->recent_count < DRIVER_RECENT_COUNT ? self->recent_count : DRIVER_RECENT_COUNT;
    uint32_t max = self->options.lease_tokens_max;
    text->token_count = text->extra_count = 0;
    if (known != 0 && !driver_chance(self, 10)) *text = self->recent[driver_draw(self, known)];
    uint32_t change = text->token_count == 0 ? 0 : 1 + driver_draw(self, 8);
    if (change == 0) driver_text_append(self, text, 1 + driver_draw(self, max));
    if (change == 1 || change == 2)
        driver_text_append(self, text, 1 + driver_draw(self, 2 * self->options.block_tokens));
    if (change == 3 || change == 4) cut_text(text, 1 + driver_draw(self, text->token_count));
    if (change == 5) text->tokens[driver_draw(self, text->token_count)] = driver_draw(self, self->alphabet);
    if (change == 6 && text->extra_count != 0) {
        text->extras[driver_draw(self, text->extra_count)].id = driver_draw(self, NAIVE_EXTRA_ID_COUNT);
    }
    if (self->has_extras && driver_chance(self, 4)) add_extra(self, text);
    if (self->has_extras && text->extra_count != 0 && driver_chance(self, 10)) text->extra_count--;
    if (driver_chance(self, 2)) self->recent[self->recent_count++ % DRIVER_RECENT_COUNT] = *text;
}
