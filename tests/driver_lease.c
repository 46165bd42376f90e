/* driver_lease.c - operations on leases, as an engine does them. */
#include "driver.h"

#include <string.h>

/* ---- Choosing ------------------------------------------------------------------------------------------------ */

uint32_t driver_lease_draw(driver *self)
{
    uint32_t slots[NAIVE_LEASE_COUNT_MAX];
    uint32_t count = 0;
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        if (self->model->now.leases[l].is_open) slots[count++] = l;
    }
    return count == 0 ? NAIVE_NONE : slots[driver_draw(self, count)];
}

/* Positions that compute has room for or has found: what comes next is computed after these. */
static uint32_t reached(const naive_lease *lease)
{
    return lease->room + (lease->is_tail_pending ? lease->tail_positions : 0);
}

/* Room past the known tokens, or for fewer than a tail has found: extend takes it that compute goes on from there, and
 * only full groups keep what compute then reads. */
static bool has_only_full(const driver *self)
{
    for (uint32_t g = 0; g < self->model->group_count; g++) {
        if (self->groups[g].kind != ICP_GROUP_FULL) return false;
    }
    return true;
}

static bool compute(driver *self, uint32_t slot)
{
    return shadow_compute(self->blocks, self->model, slot, &self->texts[slot]);
}

/* ---- Match ----------------------------------------------------------------------------------------------------- */

static bool explain_request(driver *self, const icp_request *request, const naive_request *wanted, icp_hit *hit)
{
    icp_explanation explanation;
    icp_explanation_init(&explanation);
    uint32_t flags = driver_chance(self, 2) ? ICP_EXPLAIN_OTHER_SCOPES : 0;
    icp_status status = icp_cache_explain(self->cache, request, flags, &explanation);
    driver_begin(self, "explain scope %u, %u tokens: reason %d", wanted->scope, wanted->text->token_count,
                 (int)explanation.why);
    *hit = explanation.hit;
    char text[256];
    size_t length = icp_explanation_text(&explanation, text, sizeof(text));
    if (status == ICP_OK && (length == 0 || length != strlen(text)))
        naive_fail(self->model, "explain: %zu letters", length);
    if (status == ICP_OK) (void)naive_compare_explanation(self->model, wanted, flags, &explanation);
    return driver_end(self, status, ICP_OK);
}

bool driver_explain(driver *self)
{
    naive_text text;
    icp_extra extras[NAIVE_EXTRA_COUNT_MAX];
    driver_text_draw(self, &text);
    naive_request wanted = {&text, driver_scope_draw(self), 0};
    icp_request request = {naive_text_make(&text, extras), self->model->now.scopes[wanted.scope].handle, 0};
    icp_hit hit;
    return explain_request(self, &request, &wanted, &hit);
}

bool driver_match(driver *self)
{
    static const uint32_t flag_choices[] = {ICP_NO_READ, ICP_NO_STORE, ICP_UNCOUNTED, ICP_NO_READ | ICP_NO_STORE};
    naive *model = self->model;
    uint32_t slot = naive_lease_slot(model);
    if (slot == NAIVE_NONE && !driver_chance(self, 8)) return driver_release(self);
    naive_text text;
    icp_extra extras[NAIVE_EXTRA_COUNT_MAX];
    driver_text_draw(self, &text);
    naive_request wanted = {&text, driver_scope_draw(self), 0};
    if (driver_chance(self, 6)) wanted.flags = flag_choices[driver_draw(self, 4)];
    icp_request request = {naive_text_make(&text, extras), model->now.scopes[wanted.scope].handle, wanted.flags};

    icp_hit foretold = {0, 0, 0};
    bool is_foretold = driver_chance(self, 4);
    if (is_foretold && !explain_request(self, &request, &wanted, &foretold)) return false;

    icp_lease lease = 0;
    icp_hit hit = {0, 0, 0};
    icp_hit hit_wanted = {0, 0, 0};
    driver_begin(self, "match lease %d, scope %u, %u tokens, %u extras, flags %u", (int)slot, wanted.scope,
                 text.token_count, text.extra_count, wanted.flags);
    icp_status status = icp_cache_match(self->cache, &request, &lease, &hit);
    icp_status status_wanted = naive_match(model, &wanted, lease, &hit, &hit_wanted);
    if (memcmp(&hit, &hit_wanted, sizeof(hit)) != 0) {
        naive_fail(model, "hit %u + %u, want %u + %u", hit.block_tokens_hit, hit.tail_tokens_hit,
                   hit_wanted.block_tokens_hit, hit_wanted.tail_tokens_hit);
    }
    if (is_foretold && status == ICP_OK && memcmp(&hit, &foretold, sizeof(hit)) != 0) {
        naive_fail(model, "explain foretold a hit of %u + %u", foretold.block_tokens_hit, foretold.tail_tokens_hit);
    }
    if (status == ICP_OK && slot != NAIVE_NONE) {
        self->texts[slot] = text;
        shadow_match(self->blocks, slot, hit.cached_tokens);
    }
    return driver_end(self, status, status_wanted);
}

/* ---- Extend, publish, decode ------------------------------------------------------------------------------------ */

static bool extend(driver *self, uint32_t slot, uint32_t token_count)
{
    naive_lease *lease = &self->model->now.leases[slot];
    driver_begin(self, "extend lease %u from %u to %u (%u known)", slot, lease->room, token_count,
                 self->texts[slot].token_count);
    icp_status status = icp_lease_extend(self->cache, lease->handle, token_count);
    icp_status wanted = naive_extend(self->model, slot, token_count);
    if (status == ICP_OK && status == wanted) (void)compute(self, slot);
    return driver_end(self, status, wanted);
}

bool driver_extend(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    if (slot == NAIVE_NONE) return driver_match(self);
    const naive_lease *lease = &self->model->now.leases[slot];
    uint32_t known = self->texts[slot].token_count;
    uint32_t target = reached(lease) + 1 + driver_draw(self, 2 * self->options.block_tokens);
    if (driver_chance(self, 16))
        target = driver_draw(self, (has_only_full(self) ? reached(lease) : lease->room) + 1);
    else if (driver_chance(self, 8))
        target = known;
    if (target > known && !(has_only_full(self) && driver_chance(self, 8))) target = known;
    if (target > self->options.lease_tokens_max && !driver_chance(self, 16)) target = self->options.lease_tokens_max;
    return extend(self, slot, target);
}

static bool publish(driver *self, uint32_t slot, uint32_t token_count)
{
    naive_lease *lease = &self->model->now.leases[slot];
    naive_text text = self->texts[slot];
    icp_extra extras[NAIVE_EXTRA_COUNT_MAX];
    if (token_count < text.token_count) text.token_count = token_count; /* extras may lie past its end */
    icp_text whole = naive_text_make(&text, extras);
    (void)compute(self, slot); /* tokens that became known within the room that there was */
    driver_begin(self, "publish lease %u from %u to %u", slot, lease->published, text.token_count);
    icp_status status = icp_lease_publish(self->cache, lease->handle, &whole);
    return driver_end(self, status, naive_publish(self->model, slot, &text));
}

static uint32_t publishable(const driver *self, uint32_t slot)
{
    uint32_t room = self->model->now.leases[slot].room;
    return self->texts[slot].token_count < room ? self->texts[slot].token_count : room;
}

bool driver_publish(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    if (slot == NAIVE_NONE) return driver_match(self);
    uint32_t token_count = publishable(self, slot);
    if (driver_chance(self, 6)) token_count = driver_draw(self, token_count + 1);
    return publish(self, slot, token_count);
}

/* A few steps of one token each. */
bool driver_decode(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    if (slot == NAIVE_NONE) return driver_match(self);
    naive_lease *lease = &self->model->now.leases[slot];
    uint32_t steps = 1 + driver_draw(self, self->options.block_tokens + 1);
    for (uint32_t i = 0; i < steps && !self->source->is_empty; i++) {
        if (reached(lease) >= self->texts[slot].token_count) driver_text_append(self, &self->texts[slot], 1);
        uint32_t target = self->texts[slot].token_count;
        if (target <= lease->room) break; /* no more tokens to be had */
        if (!extend(self, slot, target)) return false;
        if (lease->room != target) break; /* the pool is full */
        if (!publish(self, slot, target)) return false;
        if (driver_chance(self, 2) && !driver_tick(self)) return false;
    }
    return true;
}

/* ---- Truncate, unpublish, release -------------------------------------------------------------------------- */

/* Tokens past the new end are chosen anew, unless the same ones come again. */
static void forget_text(driver *self, uint32_t slot, uint32_t token_count)
{
    naive_text *text = &self->texts[slot];
    if (text->token_count <= token_count || driver_chance(self, 3)) return;
    text->token_count = token_count;
    while (text->extra_count != 0 && text->extras[text->extra_count - 1].position >= token_count) text->extra_count--;
}

static bool truncate(driver *self, uint32_t slot, uint32_t token_count)
{
    naive_lease *lease = &self->model->now.leases[slot];
    driver_begin(self, "truncate lease %u from %u (%u published) to %u", slot, lease->room, lease->published,
                 token_count);
    icp_status status = icp_lease_truncate(self->cache, lease->handle, token_count);
    icp_status wanted = naive_truncate(self->model, slot, token_count);
    if (status == ICP_OK && status == wanted) {
        shadow_truncate(self->blocks, slot, token_count);
        forget_text(self, slot, token_count);
        (void)compute(self, slot);
    }
    return driver_end(self, status, wanted);
}

bool driver_truncate(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    if (slot == NAIVE_NONE) return driver_match(self);
    uint32_t length = reached(&self->model->now.leases[slot]) + 2;
    uint32_t less = driver_draw(self, driver_chance(self, 2) ? self->options.block_tokens + 2 : length);
    return truncate(self, slot, less < length ? length - less : 0);
}

/* A step failed: the lease and those that shared what it published go back to before. */
bool driver_unpublish(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    if (slot == NAIVE_NONE) return driver_match(self);
    naive *model = self->model;
    uint32_t published[NAIVE_LEASE_COUNT_MAX];
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) published[l] = model->now.leases[l].published;
    uint32_t token_count = driver_draw(self, published[slot] + 2);
    driver_begin(self, "unpublish lease %u from %u to %u", slot, published[slot], token_count);
    icp_status status = icp_lease_unpublish(self->cache, model->now.leases[slot].handle, token_count);
    if (!driver_end(self, status, naive_unpublish(model, slot, token_count))) return false;
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        naive_lease *lease = &model->now.leases[l];
        if (!lease->is_open || lease->published == published[l]) continue;
        uint32_t end = driver_chance(self, 2) ? token_count : lease->published;
        if (end > lease->published + self->options.block_tokens) end = lease->published;
        if (!truncate(self, l, end)) return false;
        if (model->now.leases[l].room > end && !driver_release_slot(self, l)) return false;
    }
    return true;
}

bool driver_release_slot(driver *self, uint32_t slot)
{
    naive_lease *lease = &self->model->now.leases[slot];
    driver_begin(self, "release lease %u (%u tokens)", slot, lease->room);
    icp_status status = icp_lease_release(self->cache, lease->handle);
    self->stale_leases[driver_draw(self, DRIVER_STALE_COUNT)] = lease->handle;
    if (self->texts[slot].token_count != 0 && driver_chance(self, 4)) {
        self->recent[self->recent_count++ % DRIVER_RECENT_COUNT] = self->texts[slot];
    }
    return driver_end(self, status, naive_release(self->model, slot));
}

bool driver_release(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    return slot == NAIVE_NONE ? driver_match(self) : driver_release_slot(self, slot);
}
