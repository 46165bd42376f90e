/* naive_scope.c - the model's scopes: opened and closed, quotas, clear. */
#include "naive.h"

static bool holds_something(const naive *model, uint32_t scope)
{
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        if (model->now.leases[l].is_open && model->now.leases[l].scope == scope) return true;
    }
    for (uint32_t p = 0; p < NAIVE_PIN_COUNT_MAX; p++) {
        if (model->now.pins[p].is_set && model->now.pins[p].scope == scope) return true;
    }
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial != 0 && model->now.nodes[n].scope == scope) return true;
    }
    return false;
}

void naive_scope_sweep(naive *model)
{
    for (uint32_t s = 1; s < NAIVE_SCOPE_COUNT_MAX; s++) {
        naive_scope *scope = &model->now.scopes[s];
        if (!scope->is_live || scope->open_count != 0 || holds_something(model, s)) continue;
        scope->is_live = scope->has_domain = false;
        scope->quota_min = scope->quota_max = 0;
    }
}

/* The low half of a handle is the scope's number, which decides between domains that are equally old: the model uses
 * the same numbers, after checking that the number is free. */
icp_status naive_scope_open(naive *model, uint32_t key, icp_scope handle, uint32_t *slot)
{
    uint32_t found = NAIVE_NONE;
    bool is_full = true;
    for (uint32_t s = 1; s <= model->options.scope_count_max; s++) {
        if (!model->now.scopes[s].is_live) is_full = false;
        if (model->now.scopes[s].is_live && model->now.scopes[s].key == key) found = s;
    }
    if (found == NAIVE_NONE && is_full) return ICP_TOO_MANY_SCOPES;
    *slot = (uint32_t)handle;
    if (*slot == 0 || *slot > model->options.scope_count_max) {
        naive_fail(model, "scope %u cannot be", *slot);
        *slot = 1;
    }
    naive_scope *scope = &model->now.scopes[*slot];
    if (found != NAIVE_NONE) {
        if (scope->handle != handle || found != *slot) naive_fail(model, "scope %u opened again is another one", found);
    } else {
        if (scope->is_live) naive_fail(model, "scope %u is in use", *slot);
        if (scope->handle != handle) *scope = (naive_scope){.key = key, .handle = handle}; /* else it was idle only */
        if (scope->key != key) naive_fail(model, "scope %u changes its key without a new handle", *slot);
        scope->is_live = true;
    }
    scope->open_count++;
    return ICP_OK;
}

icp_status naive_scope_close(naive *model, uint32_t scope)
{
    if (scope == 0) return ICP_BAD_ARGUMENT;
    if (model->now.scopes[scope].open_count == 0) return ICP_STALE;
    model->now.scopes[scope].open_count--;
    return ICP_OK;
}

icp_status naive_scope_quota(naive *model, uint32_t scope, uint32_t min, uint32_t max)
{
    if (max != 0 && min > max) return ICP_BAD_ARGUMENT;
    uint64_t sum = min;
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) {
        if (s != scope && model->now.scopes[s].is_live) sum += model->now.scopes[s].quota_min;
    }
    for (uint32_t p = 0; p < model->pool_count; p++) {
        if (sum > model->now.pools[p].block_count) return ICP_BAD_ARGUMENT;
    }
    model->now.scopes[scope].quota_min = min;
    model->now.scopes[scope].quota_max = max;
    model->now.scopes[scope].has_domain = true;
    return ICP_OK;
}

static void clear_nodes(naive *model, uint32_t scope)
{
    naive_pin_cut(model, scope, NAIVE_NONE);
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial != 0 && model->now.nodes[n].scope == scope) naive_node_remove(model, n, false);
    }
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        naive_lease *lease = &model->now.leases[l];
        if (!lease->is_open || lease->scope != scope) continue;
        lease->is_mute = true;
        lease->published = lease->matched = 0;
    }
}

icp_status naive_scope_clear(naive *model, uint32_t scope)
{
    clear_nodes(model, scope);
    return ICP_OK;
}

icp_status naive_clear(naive *model)
{
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) clear_nodes(model, s);
    return ICP_OK;
}
