/* driver_refused.c - calls that must be refused with the right status, and change nothing. */
#include "driver.h"

#include <string.h>

/* ---- Leases that are not -------------------------------------------------------------------------------------- */

static bool refuse_stale_lease(driver *self)
{
    icp_lease lease = self->stale_leases[driver_draw(self, DRIVER_STALE_COUNT)];
    uint32_t token = 0;
    icp_text text = {&token, 1, NULL, 0};
    const uint32_t *blocks = NULL;
    uint32_t count = 0;
    icp_copy copy;
    icp_lease_info info;
    uint32_t which = driver_draw(self, 8);
    driver_begin(self, "call %u on a stale lease %llx", which, (unsigned long long)lease);
    icp_status status = ICP_OK;
    switch (which) {
    case 0:
        status = icp_lease_extend(self->cache, lease, 1);
        break;
    case 1:
        status = icp_lease_publish(self->cache, lease, &text);
        break;
    case 2:
        status = icp_lease_truncate(self->cache, lease, 0);
        break;
    case 3:
        status = icp_lease_unpublish(self->cache, lease, 0);
        break;
    case 4:
        status = icp_lease_release(self->cache, lease);
        break;
    case 5:
        status = icp_lease_table(self->cache, lease, 0, &blocks, &count);
        break;
    case 6:
        status = icp_lease_tail(self->cache, lease, 0, &copy);
        break;
    default:
        status = icp_lease_inspect(self->cache, lease, &info);
        break;
    }
    return driver_end(self, status, ICP_STALE);
}

static bool refuse_stale_handles(driver *self)
{
    icp_pin pin = self->stale_pins[driver_draw(self, DRIVER_STALE_COUNT)];
    icp_scope scope = self->stale_scopes[driver_draw(self, DRIVER_STALE_COUNT)];
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) { /* it may be open again */
        if (self->model->now.scopes[s].open_count != 0 && self->model->now.scopes[s].handle == scope) scope = 0;
    }
    if (scope == 0 || driver_chance(self, 4)) {
        driver_begin(self, "unpin a stale pin %llx", (unsigned long long)pin);
        return driver_end(self, icp_cache_unpin(self->cache, pin), ICP_STALE);
    }
    uint32_t token = 0;
    icp_request request = {{&token, 1, NULL, 0}, scope, 0};
    icp_lease lease = 0;
    icp_scope_stats stats;
    icp_scope_stats_init(&stats);
    uint32_t which = driver_draw(self, 5);
    driver_begin(self, "call %u on a stale scope %llx", which, (unsigned long long)scope);
    icp_status status = ICP_OK;
    switch (which) {
    case 0:
        status = icp_cache_match(self->cache, &request, &lease, NULL);
        break;
    case 1:
        status = icp_scope_close(self->cache, scope);
        break;
    case 2:
        status = icp_scope_quota(self->cache, scope, 0, 0);
        break;
    case 3:
        status = icp_scope_clear(self->cache, scope);
        break;
    default:
        status = icp_scope_statistics(self->cache, scope, &stats);
        break;
    }
    return driver_end(self, status, ICP_STALE);
}

/* ---- Texts that are not ------------------------------------------------------------------------------------------ */

/* Extras that overlap, are empty, have no id or one that is too long. */
static void spoil_extras(driver *self, icp_extra *extras, icp_text *text)
{
    static const uint8_t id[ICP_EXTRA_ID_BYTES_MAX + 1] = {1};
    extras[0] = (icp_extra){2, 2, id, 1};
    extras[1] = (icp_extra){4, 1, id, 1};
    switch (driver_draw(self, 6)) {
    case 0:
        extras[1].position = 3;
        break;
    case 1:
        extras[1].position = 0;
        break;
    case 2:
        extras[0].length = 0;
        break;
    case 3:
        extras[0].id = NULL;
        break;
    case 4:
        extras[1].id_bytes = 0;
        break;
    default:
        extras[1].id_bytes = sizeof(id);
        break;
    }
    text->extras = extras;
    text->extra_count = 2;
}

static bool refuse_text(driver *self)
{
    uint32_t tokens[NAIVE_TOKEN_COUNT_MAX + 1] = {0};
    icp_extra extras[2];
    icp_request request = {{tokens, 6, NULL, 0}, 0, 0};
    icp_status wanted = ICP_BAD_ARGUMENT;
    uint32_t which = driver_draw(self, 4);
    if (which == 0) {
        request.text.token_count = 0;
    } else if (which == 1) {
        request.text.tokens = NULL;
    } else if (which == 2) {
        request.text.token_count = self->options.lease_tokens_max + 1;
        wanted = ICP_TOO_LONG;
    } else {
        if (request.text.token_count > self->options.lease_tokens_max) request.text.token_count = 1;
        spoil_extras(self, extras, &request.text);
    }
    icp_lease lease = 0;
    icp_pin pin = 0;
    icp_explanation explanation;
    icp_explanation_init(&explanation);
    uint32_t call = driver_draw(self, 3);
    driver_begin(self, "call %u with a bad text %u", call, which);
    icp_status status = ICP_OK;
    if (call == 0)
        status = icp_cache_match(self->cache, &request, &lease, NULL);
    else if (call == 1)
        status = icp_cache_pin(self->cache, &request, UINT64_MAX, &pin, NULL);
    else
        status = icp_cache_explain(self->cache, &request, 0, &explanation);
    return driver_end(self, status, wanted);
}

static bool refuse_publish(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    if (slot == NAIVE_NONE) return refuse_text(self);
    uint32_t tokens[NAIVE_TOKEN_COUNT_MAX + 1] = {0};
    const naive_lease *lease = &self->model->now.leases[slot];
    icp_text text = {tokens, lease->room + 1, NULL, 0};
    icp_extra extras[2];
    if (lease->room != 0 && driver_chance(self, 2)) {
        text.token_count = lease->room;
        spoil_extras(self, extras, &text);
    }
    driver_begin(self, "publish lease %u with a bad text", slot);
    return driver_end(self, icp_lease_publish(self->cache, lease->handle, &text), ICP_BAD_ARGUMENT);
}

/* ---- The rest ----------------------------------------------------------------------------------------------- */

static bool refuse_group(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    icp_lease lease = slot == NAIVE_NONE ? 0 : self->model->now.leases[slot].handle;
    uint32_t group = self->options.group_count + driver_draw(self, 3);
    const uint32_t *blocks = NULL;
    uint32_t count = 0;
    icp_copy copy;
    icp_block_info info;
    size_t queue_count = 0;
    uint32_t which = driver_draw(self, 5);
    driver_begin(self, "call %u with bad group %u", which, group);
    icp_status status = ICP_OK;
    switch (which) {
    case 0:
        status = icp_lease_table(self->cache, lease, group, &blocks, &count);
        break;
    case 1:
        status = icp_lease_tail(self->cache, lease, group, &copy);
        break;
    case 2:
        status = icp_block_inspect(self->cache, group, 0, &info);
        break;
    case 3:
        status = icp_block_inspect(self->cache, 0, self->options.block_count, &info);
        break;
    default:
        status = icp_cache_queue(self->cache, group, NULL, 0, &queue_count);
        break;
    }
    return driver_end(self, status, ICP_BAD_ARGUMENT);
}

static bool refuse_value(driver *self)
{
    uint32_t slot = driver_lease_draw(self);
    uint32_t which = driver_draw(self, 6);
    uint64_t tick = self->model->now.tick;
    char letters[ICP_SCOPE_TEXT_BYTES_MAX + 2];
    memset(letters, 'x', sizeof(letters) - 1);
    letters[sizeof(letters) - 1] = '\0';
    icp_scope_key key = {.salt = letters};
    icp_scope scope = 0;
    icp_status status = ICP_OK;
    icp_status wanted = ICP_BAD_ARGUMENT;
    driver_begin(self, "refuse value %u", which);
    if (which == 0 && tick != 0) {
        status = icp_cache_tick(self->cache, tick - 1);
    } else if (which == 1) {
        status = icp_scope_close(self->cache, 0);
    } else if (which == 2) {
        status = icp_scope_quota(self->cache, 0, 2, 1);
    } else if (which == 3) {
        status = icp_scope_quota(self->cache, 0, NAIVE_BLOCK_COUNT_MAX + 1, 0);
    } else if (which == 4) {
        status = icp_scope_open(self->cache, &key, &scope);
    } else if (slot != NAIVE_NONE) {
        uint32_t token_count = self->options.lease_tokens_max + 1;
        status = icp_lease_extend(self->cache, self->model->now.leases[slot].handle, token_count);
        wanted = ICP_TOO_LONG;
    } else {
        status = icp_lease_extend(self->cache, 0, 1);
        wanted = ICP_STALE;
    }
    return driver_end(self, status, wanted);
}

static bool refuse_null(driver *self)
{
    icp_request request = {{NULL, 0, NULL, 0}, 0, 0};
    icp_lease lease = 0;
    uint32_t which = driver_draw(self, 9);
    driver_begin(self, "call %u with NULL", which);
    icp_status status = ICP_OK;
    switch (which) {
    case 0:
        status = icp_cache_match(self->cache, NULL, &lease, NULL);
        break;
    case 1:
        status = icp_cache_match(self->cache, &request, NULL, NULL);
        break;
    case 2:
        status = icp_lease_publish(self->cache, 0, NULL);
        break;
    case 3:
        status = icp_scope_open(self->cache, NULL, NULL);
        break;
    case 4:
        status = icp_cache_pin(self->cache, NULL, 1, NULL, NULL);
        break;
    case 5:
        status = icp_cache_explain(self->cache, NULL, 0, NULL);
        break;
    case 6:
        status = icp_cache_statistics(self->cache, NULL);
        break;
    case 7:
        status = icp_cache_dump(self->cache, NULL, NULL, NULL);
        break;
    default:
        status = icp_cache_match(NULL, &request, &lease, NULL);
        break;
    }
    return driver_end(self, status, ICP_BAD_ARGUMENT);
}

bool driver_refused(driver *self)
{
    switch (driver_draw(self, 7)) {
    case 0:
        return refuse_stale_lease(self);
    case 1:
        return refuse_stale_handles(self);
    case 2:
        return refuse_text(self);
    case 3:
        return refuse_publish(self);
    case 4:
        return refuse_group(self);
    case 5:
        return refuse_value(self);
    default:
        return refuse_null(self);
    }
}
