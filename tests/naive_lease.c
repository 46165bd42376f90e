/* naive_lease.c - the model's leases and pins: match, extend, publish, truncate, unpublish, release.
 *
 * Each operation follows the words of the semantics in their order. One that fails goes back to the copy of the state
 * that it made first, so "nothing was changed" needs no thought. */
#include "naive.h"

#include <string.h>

/* ---- Copies of the state --------------------------------------------------------------------------------- */

static naive_state before; /* one model at a time is inside an operation */

static void state_copy(naive_state *to, const naive_state *from)
{
    memcpy(to, from, offsetof(naive_state, nodes) + from->node_count * sizeof(naive_node));
}

/* ---- Tails ------------------------------------------------------------------------------------------------ */

static void drop_tail(naive *model, naive_lease *lease)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (lease->tail_sources[g] != NAIVE_NONE) naive_drop(model, g, lease->tail_sources[g]);
    }
    lease->is_tail_pending = lease->is_tail_held = false;
    lease->tail_positions = 0;
}

/* The copy was made in an earlier step. */
static void expire_tail(naive *model, naive_lease *lease)
{
    if (lease->is_tail_held && model->now.tick > lease->tail_tick) drop_tail(model, lease);
}

/* True where the node's KV was computed, in every group, before this tick. */
static bool is_copyable(const naive *model, uint32_t node)
{
    const naive_node *candidate = &model->now.nodes[node];
    if (candidate->tick_published >= model->now.tick) return false;
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (candidate->blocks[g] == NAIVE_NONE) return false;
        const naive_block *block = &model->now.pools[model->pool_of[g]].blocks[candidate->blocks[g]];
        if (block->tick_published >= model->now.tick) return false;
    }
    return true;
}

/* The library holds this node's blocks once more often than the model does. */
static bool is_source(const naive *model, uint32_t node)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        uint32_t block = model->now.nodes[node].blocks[g];
        if (block == NAIVE_NONE) return false;
        icp_block_info info;
        if (icp_block_inspect(model->cache, g, block, &info) != ICP_OK) return false;
        if (info.reference_count != model->now.pools[model->pool_of[g]].blocks[block].reference_count + 1) return false;
    }
    return true;
}

typedef struct tail_choice {
    uint32_t best;   /* tokens, over all candidates */
    uint32_t source; /* the node that the library took */
    uint32_t shared; /* tokens that it shares */
    bool is_exact;   /* the library must find best */
} tail_choice;

static tail_choice choose_tail(const naive *model, const naive_request *request, const naive_walk *walk)
{
    tail_choice choice = {0, NAIVE_NONE, 0, model->group_count == 1};
    uint32_t begin = walk->safe * model->block_tokens;
    uint32_t cap = request->text->token_count - 1 - begin;
    uint32_t parent = walk->safe == 0 ? NAIVE_NONE : walk->nodes[walk->safe - 1];
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        const naive_node *node = &model->now.nodes[n];
        if (node->serial == 0 || node->parent != parent || node->scope != request->scope) continue;
        if (!is_copyable(model, n)) {
            choice.is_exact = false;
            continue;
        }
        uint32_t shared = naive_node_common(model, n, request->text, begin);
        if (shared > cap) shared = cap;
        if (shared > choice.best) choice.best = shared;
        if (shared == 0 || !is_source(model, n)) continue;
        choice.source = n;
        choice.shared = shared;
    }
    if (choice.best < model->options.tail_tokens_min) choice.best = 0;
    return choice;
}

/* Tokens of the tail that the library must have found, following its choice where it has one. */
static uint32_t match_tail(naive *model, const naive_request *request, const naive_walk *walk, naive_lease *lease,
                           uint32_t seen)
{
    if (model->options.tail_tokens_min == ICP_TAIL_OFF || model->has_state) return 0;
    tail_choice choice = choose_tail(model, request, walk);
    if (seen == 0 && (choice.best == 0 || !choice.is_exact)) return 0;
    if (seen == 0 || seen > choice.best || (choice.is_exact && seen != choice.best)) {
        naive_fail(model, "a tail of %u tokens, where the best is %u", seen, choice.best);
        return choice.best;
    }
    if (choice.source == NAIVE_NONE || choice.shared != seen || seen < model->options.tail_tokens_min) {
        naive_fail(model, "a tail of %u tokens, but its source shares %u", seen, choice.shared);
        return 0;
    }
    lease->is_tail_pending = true;
    lease->tail_serial = ++model->now.serial;
    lease->tail_positions = seen;
    for (uint32_t g = 0; g < model->group_count; g++) {
        lease->tail_sources[g] = model->now.nodes[choice.source].blocks[g];
        naive_acquire(model, g, lease->tail_sources[g]);
    }
    return seen;
}

/* ---- Match ------------------------------------------------------------------------------------------------- */

uint32_t naive_lease_slot(const naive *model)
{
    for (uint32_t i = 0; i < model->options.lease_count_max; i++) {
        if (!model->now.leases[i].is_open) return i;
    }
    return NAIVE_NONE;
}

/* First entry that a prefix of depth nodes needs in a group. */
static uint32_t first_needed(const naive *model, uint32_t group, uint32_t depth)
{
    if (model->groups[group].kind == ICP_GROUP_FULL || depth == 0) return 0;
    if (model->groups[group].kind == ICP_GROUP_STATE) return depth - 1;
    uint32_t need = (model->groups[group].window - 1 + model->block_tokens - 1) / model->block_tokens;
    return depth > need ? depth - need : 0;
}

static void hold_walk(naive *model, const naive_walk *walk, uint32_t tables[][NAIVE_TOKEN_COUNT_MAX])
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        uint32_t first = first_needed(model, g, walk->safe);
        for (uint32_t i = 0; i < walk->safe; i++) {
            tables[g][i] = i < first ? NAIVE_NONE : model->now.nodes[walk->nodes[i]].blocks[g];
            if (i >= first) naive_acquire(model, g, tables[g][i]);
        }
    }
}

static void count_match(naive *model, const naive_request *request, const icp_hit *hit)
{
    if (request->flags & ICP_UNCOUNTED) return;
    naive_counters *all = &model->now.counters;
    naive_scope *scope = &model->now.scopes[request->scope];
    all->match_count++;
    all->queried_tokens += request->text->token_count;
    all->hit_tokens += hit->block_tokens_hit;
    all->tail_tokens += hit->tail_tokens_hit;
    scope->match_count++;
    scope->queried_tokens += request->text->token_count;
    scope->hit_tokens += hit->block_tokens_hit;
    scope->tail_tokens += hit->tail_tokens_hit;
}

icp_status naive_match(naive *model, const naive_request *request, icp_lease handle, const icp_hit *seen, icp_hit *hit)
{
    if (request->text->token_count == 0) return ICP_BAD_ARGUMENT;
    if (request->text->token_count > model->options.lease_tokens_max) return ICP_TOO_LONG;
    uint32_t slot = naive_lease_slot(model);
    if (slot == NAIVE_NONE) return ICP_TOO_MANY_LEASES;

    naive_lease *lease = &model->now.leases[slot];
    memset(lease, 0, sizeof(*lease));
    lease->is_open = true;
    lease->handle = handle;
    lease->scope = request->scope;
    lease->flags = request->flags;
    for (uint32_t g = 0; g < NAIVE_GROUP_COUNT_MAX; g++) lease->tail_sources[g] = NAIVE_NONE;

    naive_walk walk = {.depth = 0};
    uint32_t tail = 0;
    if (!(request->flags & ICP_NO_READ)) {
        naive_walk_text(model, request->scope, request->text, &walk);
        hold_walk(model, &walk, lease->tables);
        tail = match_tail(model, request, &walk, lease, seen->tail_tokens_hit);
    }
    lease->entry_count = walk.safe;
    lease->room = lease->published = lease->matched = walk.safe * model->block_tokens;
    for (uint32_t i = 0; i < walk.safe; i++) {
        lease->path[i] = walk.nodes[i];
        lease->path_serial[i] = model->now.nodes[walk.nodes[i]].serial;
    }
    *hit = (icp_hit){lease->room + tail, lease->room, tail};
    count_match(model, request, hit);
    return ICP_OK;
}

/* ---- Extend ------------------------------------------------------------------------------------------------ */

/* What the library has in a table, ICP_BLOCK_NONE where there is no such entry. */
static uint32_t seen_entry(const naive *model, const naive_lease *lease, uint32_t group, uint32_t index)
{
    const uint32_t *blocks;
    uint32_t count;
    if (icp_lease_table(model->cache, lease->handle, group, &blocks, &count) != ICP_OK) return ICP_BLOCK_NONE;
    return index < count ? blocks[index] : ICP_BLOCK_NONE;
}

/* The first entry that compute still needs when it goes on from a position. */
static uint32_t first_visible(const naive *model, uint32_t group, uint32_t position)
{
    const icp_group *kind = &model->groups[group];
    if (kind->kind == ICP_GROUP_FULL || position == 0) return 0;
    if (kind->kind == ICP_GROUP_STATE) return (position - 1) / model->block_tokens;
    return position > kind->window - 1 ? (position - (kind->window - 1)) / model->block_tokens : 0;
}

/* Without a full group nothing but these blocks holds the end of the lease's path: there they stay. */
static void give_back(naive *model, naive_lease *lease, uint32_t position)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        uint32_t first = first_visible(model, g, position);
        for (uint32_t i = lease->entry_count; i > 0; i--) {
            if (i - 1 >= first || lease->tables[g][i - 1] == NAIVE_NONE) continue;
            if (!model->has_full && i * model->block_tokens == lease->published) continue;
            naive_drop(model, g, lease->tables[g][i - 1]);
            lease->tables[g][i - 1] = NAIVE_NONE;
        }
    }
}

static icp_status take_entries(naive *model, naive_lease *lease, uint32_t entry_count)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        for (uint32_t i = lease->entry_count; i < entry_count; i++) {
            lease->tables[g][i] = NAIVE_NONE;
            if (model->groups[g].kind == ICP_GROUP_STATE && i + 1 != entry_count) continue;
            uint32_t wanted = seen_entry(model, lease, g, i);
            icp_status status = naive_take(model, g, lease->scope, wanted, &lease->tables[g][i]);
            if (status != ICP_OK) return status;
        }
    }
    return ICP_OK;
}

/* Where the semantics leave it open whether there is a block to be had, the library may refuse: to a scope that was
 * left with more blocks than its new max, though it could reuse its own; and where another scope's min protects some of
 * the blocks of a node but not all, so that evicting it would do. True where the library, asked already, did refuse. */
static bool is_refused(const naive *model, const naive_lease *lease, uint32_t token_count)
{
    const naive_scope *own = &model->now.scopes[lease->scope];
    icp_lease_info info = {.token_count = token_count};
    if (icp_lease_inspect(model->cache, lease->handle, &info) != ICP_OK || info.token_count == token_count)
        return false;
    for (uint32_t p = 0; p < model->pool_count && own->quota_max != 0; p++) {
        if (naive_charged(model, p, naive_domain(model, lease->scope)) > own->quota_max) return true;
    }
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX && model->group_count > 1; s++) {
        if (s != lease->scope && model->now.scopes[s].quota_min != 0) return true;
    }
    return false;
}

icp_status naive_extend(naive *model, uint32_t slot, uint32_t token_count)
{
    naive_lease *lease = &model->now.leases[slot];
    uint32_t size = model->block_tokens;
    if (!lease->is_open) return ICP_STALE;
    if (token_count > model->options.lease_tokens_max) return ICP_TOO_LONG;
    expire_tail(model, lease);
    if (token_count <= lease->room) return ICP_OK;

    state_copy(&before, &model->now);
    if (is_refused(model, lease, token_count)) {
        model->now.counters.full_count++;
        return ICP_QUOTA;
    }
    uint32_t position = lease->room + (lease->is_tail_pending ? lease->tail_positions : 0);
    uint32_t entry_count = (token_count + size - 1) / size;
    give_back(model, lease, position);
    icp_status status = take_entries(model, lease, entry_count);
    if (status != ICP_OK) {
        state_copy(&model->now, &before);
        model->now.counters.full_count++;
        return status;
    }
    for (uint32_t i = lease->entry_count; i < entry_count; i++) lease->is_partial[i] = false;
    if (position % size != 0 && entry_count > position / size + 1) lease->is_partial[position / size] = true;
    if (lease->is_tail_pending) {
        lease->is_tail_pending = false;
        lease->is_tail_held = true;
        lease->tail_tick = model->now.tick;
        lease->tail_index = lease->room / size;
    }
    lease->entry_count = entry_count;
    lease->room = token_count;
    return ICP_OK;
}

/* ---- Publish ----------------------------------------------------------------------------------------------- */

/* Some group has a block at an index that is, or can be, its node's. */
static bool has_own(const naive *model, const naive_lease *lease, uint32_t index)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        bool is_partial = model->groups[g].kind == ICP_GROUP_STATE && lease->is_partial[index];
        if (lease->tables[g][index] != NAIVE_NONE && !is_partial) return true;
    }
    return false;
}

/* The lease's path ends after so many tokens. Without a full group nothing holds a node in which the lease has no
 * block: the path ends before it. */
static void cut_path(const naive *model, naive_lease *lease, uint32_t published)
{
    uint32_t end = (lease->published < published ? lease->published : published) / model->block_tokens;
    while (!model->has_full && end > 0 && !has_own(model, lease, end - 1)) end--;
    lease->published = end * model->block_tokens;
    if (lease->matched > lease->published) lease->matched = lease->published;
}

/* The lease's block b stands for the node's content in a group. */
static void publish_block(naive *model, naive_lease *lease, uint32_t node, uint32_t group, uint32_t index)
{
    uint32_t *entry = &lease->tables[group][index];
    uint32_t *place = &model->now.nodes[node].blocks[group];
    naive_block *block = naive_block_at(model, group, *entry);
    if (*place == *entry) return;
    if (*place == NAIVE_NONE) {
        *place = *entry;
        block->node = node;
        block->group = group;
        block->tick_published = model->now.tick;
        model->now.counters.stored_count++;
        model->now.scopes[lease->scope].stored_count++;
        return;
    }
    model->now.counters.duplicate_count++;
    naive_block *primary = naive_block_at(model, group, *place);
    if (model->options.duplicates == ICP_DUPLICATES_ADOPT) {
        uint32_t own = *entry;
        naive_acquire(model, group, *place);
        *entry = *place;
        naive_drop(model, group, own);
        return;
    }
    block->group = group;
    block->tick_published = model->now.tick;
    if (primary->reference_count != 0) {
        block->duplicate_of = node;
        block->duplicate_rank = ++model->now.serial;
        return;
    }
    model->now.counters.stored_count++;
    model->now.scopes[lease->scope].stored_count++;
    primary->node = NAIVE_NONE;
    naive_free_at_head(model, model->pool_of[group], *place);
    *place = *entry;
    block->node = node;
}

static uint32_t extras_attached(const naive *model)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial != 0) count += naive_node_extras(model, n);
    }
    return count;
}

static uint32_t nodes_alive(const naive *model)
{
    uint32_t count = 0;
    for (uint32_t n = 0; n < model->now.node_count; n++) count += model->now.nodes[n].serial != 0;
    return count;
}

/* The node of the lease's block index, found or made. NAIVE_NONE: there is no room for it. */
static uint32_t publish_node(naive *model, naive_lease *lease, const naive_text *text, uint32_t index)
{
    uint32_t parent = index == 0 ? NAIVE_NONE : lease->path[index - 1];
    uint32_t begin = index * model->block_tokens;
    uint32_t node = naive_node_find(model, lease->scope, parent, text, begin);
    if (node != NAIVE_NONE) return node;
    if (nodes_alive(model) == model->node_count_max) return NAIVE_NONE;
    node = naive_node_make(model, lease->scope, parent, text, begin);
    if (node == NAIVE_NONE || extras_attached(model) <= model->options.extra_count_max) return node;
    model->now.nodes[node].serial = 0;
    return NAIVE_NONE;
}

/* Blocks from..end - 1. Without a full group the path must end where the lease has a block of its own. */
static void publish_entries(naive *model, naive_lease *lease, const naive_text *text, uint32_t end)
{
    uint32_t size = model->block_tokens;
    uint32_t from = lease->published / size;
    while (!model->has_full && end > from && !has_own(model, lease, end - 1)) end--;
    uint32_t i = from;
    for (; i < end; i++) {
        bool is_shared = false; /* since before a failed step: not published while another lease holds it too */
        for (uint32_t g = 0; g < model->group_count; g++) {
            uint32_t block = lease->tables[g][i];
            if (block != NAIVE_NONE && naive_block_at(model, g, block)->reference_count > 1) is_shared = true;
        }
        uint32_t node = is_shared ? NAIVE_NONE : publish_node(model, lease, text, i);
        if (node == NAIVE_NONE) break;
        for (uint32_t g = 0; g < model->group_count; g++) {
            if (lease->tables[g][i] == NAIVE_NONE) continue;
            if (model->groups[g].kind == ICP_GROUP_STATE && lease->is_partial[i]) continue;
            publish_block(model, lease, node, g, i);
        }
        lease->path[i] = node;
        lease->path_serial[i] = model->now.nodes[node].serial;
    }
    if (i < end) {
        model->now.counters.refused_count += end - i;
        while (i > from && !has_own(model, lease, i - 1)) i--;
        if (end > i && from < end) naive_node_hollow(model, lease->scope);
    }
    lease->published = i * size;
}

icp_status naive_publish(naive *model, uint32_t slot, const naive_text *text)
{
    naive_lease *lease = &model->now.leases[slot];
    if (!lease->is_open) return ICP_STALE;
    if (text->token_count > lease->room) return ICP_BAD_ARGUMENT;
    expire_tail(model, lease);
    if ((lease->flags & ICP_NO_STORE) || lease->is_mute) return ICP_OK;
    uint32_t end = text->token_count / model->block_tokens;
    if (end > lease->published / model->block_tokens) publish_entries(model, lease, text, end);
    return ICP_OK;
}

/* ---- Truncate, unpublish, release -------------------------------------------------------------------------- */

static void drop_entries(naive *model, naive_lease *lease, uint32_t entry_count)
{
    for (uint32_t i = lease->entry_count; i > entry_count; i--) {
        for (uint32_t g = 0; g < model->group_count; g++) {
            if (lease->tables[g][i - 1] != NAIVE_NONE) naive_drop(model, g, lease->tables[g][i - 1]);
        }
    }
    lease->entry_count = entry_count;
}

/* Compute can go on from here: what it needs to see is still held. */
static bool can_resume(const naive *model, const naive_lease *lease, uint32_t token_count)
{
    uint32_t size = model->block_tokens;
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (model->groups[g].kind == ICP_GROUP_FULL) continue;
        if (model->groups[g].kind == ICP_GROUP_STATE) {
            if (token_count % size != 0) return false;
            if (token_count == 0) continue;
            if (lease->tables[g][token_count / size - 1] == NAIVE_NONE) return false;
            if (lease->is_partial[token_count / size - 1]) return false; /* it holds an earlier position's state */
            continue;
        }
        for (uint32_t i = first_visible(model, g, token_count); i < (token_count + size - 1) / size; i++) {
            if (lease->tables[g][i] == NAIVE_NONE) return false;
        }
    }
    return true;
}

/* The published block at index is left to others: the lease gets one of its own, to copy the first positions to. */
static icp_status exchange(naive *model, naive_lease *lease, uint32_t index, uint32_t positions)
{
    for (uint32_t g = 0; g < model->group_count; g++) {
        uint32_t wanted = seen_entry(model, lease, g, index);
        lease->tail_sources[g] = lease->tables[g][index];
        icp_status status = naive_take(model, g, lease->scope, wanted, &lease->tables[g][index]);
        if (status != ICP_OK) return status;
    }
    lease->is_tail_held = true;
    lease->tail_serial = ++model->now.serial;
    lease->tail_positions = positions;
    lease->tail_index = index;
    lease->tail_tick = model->now.tick;
    return ICP_OK;
}

/* The lease alone holds what lies at an index, and may write it. After unpublish even a private block may be held by
 * several leases. */
static bool is_private(const naive *model, const naive_lease *lease, uint32_t index)
{
    if (index < lease->published / model->block_tokens) return false;
    for (uint32_t g = 0; g < model->group_count; g++) {
        uint32_t block = lease->tables[g][index];
        if (block == NAIVE_NONE) continue;
        if (model->now.pools[model->pool_of[g]].blocks[block].reference_count > 1) return false;
    }
    return true;
}

static icp_status truncate(naive *model, naive_lease *lease, uint32_t token_count)
{
    uint32_t size = model->block_tokens;
    if (lease->is_tail_pending) {
        if (token_count >= lease->room + lease->tail_positions) return ICP_OK;
        if (token_count > lease->room) {
            lease->tail_positions = token_count - lease->room;
            return ICP_OK;
        }
        drop_tail(model, lease);
    }
    if (token_count >= lease->room) return ICP_OK;
    if (!can_resume(model, lease, token_count)) return ICP_NOT_FOUND;
    uint32_t entry_count = (token_count + size - 1) / size;
    bool is_inside = token_count % size != 0 && !is_private(model, lease, token_count / size);
    if (lease->is_tail_held && (is_inside || lease->tail_index >= entry_count)) drop_tail(model, lease);
    drop_entries(model, lease, entry_count);
    if (is_inside) {
        if (is_refused(model, lease, token_count)) return ICP_QUOTA;
        icp_status status = exchange(model, lease, token_count / size, token_count % size);
        if (status != ICP_OK) return status;
    }
    lease->room = token_count;
    cut_path(model, lease, token_count / size * size);
    return ICP_OK;
}

icp_status naive_truncate(naive *model, uint32_t slot, uint32_t token_count)
{
    naive_lease *lease = &model->now.leases[slot];
    if (!lease->is_open) return ICP_STALE;
    expire_tail(model, lease);
    state_copy(&before, &model->now);
    icp_status status = truncate(model, lease, token_count);
    if (status != ICP_OK) state_copy(&model->now, &before);
    if (status == ICP_FULL || status == ICP_QUOTA) model->now.counters.full_count++;
    return status;
}

static void remove_below(naive *model, uint32_t node)
{
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial != 0 && model->now.nodes[n].parent == node) remove_below(model, n);
    }
    naive_node_remove(model, node, false);
}

/* Leases whose path led through nodes that are gone have published less. */
static void cut_leases(naive *model)
{
    for (uint32_t l = 0; l < NAIVE_LEASE_COUNT_MAX; l++) {
        naive_lease *lease = &model->now.leases[l];
        for (uint32_t i = 0; lease->is_open && i < lease->published / model->block_tokens; i++) {
            if (model->now.nodes[lease->path[i]].serial == lease->path_serial[i]) continue;
            cut_path(model, lease, i * model->block_tokens);
        }
    }
}

/* The node stands on a block of the lease. */
static bool is_ours(const naive *model, const naive_lease *lease, uint32_t index)
{
    const naive_node *node = &model->now.nodes[lease->path[index]];
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (node->blocks[g] != NAIVE_NONE && node->blocks[g] == lease->tables[g][index]) return true;
    }
    return false;
}

/* The first node that stands on a block of the lease goes, with all below it; before that there are duplicates only,
 * which are duplicates no more. */
icp_status naive_unpublish(naive *model, uint32_t slot, uint32_t token_count)
{
    naive_lease *lease = &model->now.leases[slot];
    if (!lease->is_open) return ICP_STALE;
    uint32_t from = token_count / model->block_tokens;
    if (from < lease->matched / model->block_tokens) from = lease->matched / model->block_tokens;
    for (uint32_t i = from; i < lease->published / model->block_tokens;) {
        if (!is_ours(model, lease, i)) {
            i++;
            continue;
        }
        uint32_t node = lease->path[i];
        uint32_t parent = model->now.nodes[node].parent;
        naive_pin_cut(model, lease->scope, node);
        remove_below(model, node);
        cut_leases(model);
        naive_node_prune(model, parent, false);
        i = from; /* a pin's end may have made the lease's duplicate the node's own block, further up */
    }
    for (uint32_t i = from; i < lease->published / model->block_tokens; i++) {
        for (uint32_t g = 0; g < model->group_count; g++) {
            if (lease->tables[g][i] != NAIVE_NONE)
                naive_block_at(model, g, lease->tables[g][i])->duplicate_of = NAIVE_NONE;
        }
    }
    cut_path(model, lease, from * model->block_tokens);
    return ICP_OK;
}

icp_status naive_release(naive *model, uint32_t slot)
{
    naive_lease *lease = &model->now.leases[slot];
    if (!lease->is_open) return ICP_STALE;
    if (lease->is_tail_pending || lease->is_tail_held) drop_tail(model, lease);
    drop_entries(model, lease, 0);
    lease->is_open = false;
    return ICP_OK;
}

/* ---- Pins and time ------------------------------------------------------------------------------------------ */

/* The low half of a handle is the pin's number; pins that end in the same tick end in the order of their numbers. */
icp_status naive_pin_set(naive *model, const naive_request *request, uint64_t until_tick, icp_pin handle,
                         uint32_t *token_count)
{
    if (request->text->token_count == 0 || until_tick <= model->now.tick) return ICP_BAD_ARGUMENT;
    if (request->text->token_count > model->options.lease_tokens_max) return ICP_TOO_LONG;
    naive_walk walk;
    naive_walk_text(model, request->scope, request->text, &walk);
    uint32_t count = 0;
    for (uint32_t p = 0; p < NAIVE_PIN_COUNT_MAX; p++) count += model->now.pins[p].is_set;
    if (count == model->options.pin_count_max) return ICP_TOO_MANY_PINS;
    if (walk.safe == 0) return ICP_NOT_FOUND;
    uint32_t slot = (uint32_t)handle;
    if (slot >= model->options.pin_count_max || model->now.pins[slot].is_set) {
        naive_fail(model, "pin %u cannot be", slot);
        return ICP_OK;
    }
    naive_pin *pin = &model->now.pins[slot];
    *pin = (naive_pin){.is_set = true, .handle = handle, .scope = request->scope, .until_tick = until_tick};
    pin->entry_count = walk.safe;
    pin->node = walk.nodes[walk.safe - 1];
    hold_walk(model, &walk, pin->tables);
    for (uint32_t i = 0; i < walk.safe; i++) {
        for (uint32_t g = 0; g < model->group_count; g++) {
            if (pin->tables[g][i] != NAIVE_NONE) naive_block_at(model, g, pin->tables[g][i])->pin_count++;
        }
    }
    *token_count = walk.safe * model->block_tokens;
    return ICP_OK;
}

icp_status naive_unpin(naive *model, uint32_t slot)
{
    naive_pin *pin = &model->now.pins[slot];
    if (!pin->is_set) return ICP_STALE;
    for (uint32_t i = pin->entry_count; i > 0; i--) {
        for (uint32_t g = 0; g < model->group_count; g++) {
            uint32_t block = pin->tables[g][i - 1];
            if (block == NAIVE_NONE) continue;
            naive_block_at(model, g, block)->pin_count--;
            naive_drop(model, g, block);
        }
    }
    pin->is_set = false;
    return ICP_OK;
}

void naive_pin_cut(naive *model, uint32_t scope, uint32_t node)
{
    for (uint32_t p = 0; p < NAIVE_PIN_COUNT_MAX; p++) {
        const naive_pin *pin = &model->now.pins[p];
        if (!pin->is_set || pin->scope != scope) continue;
        uint32_t n = pin->node;
        while (n != NAIVE_NONE && n != node) n = model->now.nodes[n].parent;
        if (n == node) (void)naive_unpin(model, p);
    }
}

icp_status naive_tick(naive *model, uint64_t tick)
{
    if (tick < model->now.tick) return ICP_BAD_ARGUMENT;
    model->now.tick = tick;
    for (uint32_t p = 0; p < NAIVE_PIN_COUNT_MAX; p++) {
        if (model->now.pins[p].is_set && model->now.pins[p].until_tick <= tick) (void)naive_unpin(model, p);
    }
    return ICP_OK;
}
