/* replica.c - a set of nodes kept by listening to events, and its comparison with the model. */
#include "replica.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void replica_fail(replica *set, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void replica_fail(replica *set, const char *format, ...)
{
    if (set->error[0] != '\0') return;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(set->error, sizeof(set->error), format, arguments);
    va_end(arguments);
}

void replica_open(replica *set, uint32_t group_count, uint32_t block_tokens, bool is_dump)
{
    set->group_count = group_count;
    set->block_tokens = block_tokens;
    set->sequence = set->tick = 0;
    set->is_dump = is_dump;
    set->news_count = 0;
    set->error[0] = '\0';
    for (uint32_t i = 0; i < REPLICA_NODE_COUNT_MAX; i++) set->nodes[i].group_mask = 0;
}

/* ---- Events ----------------------------------------------------------------------------------------------- */

static naive_cover event_cover(const icp_event *event, uint32_t position)
{
    for (size_t i = 0; i < event->text.extra_count; i++) {
        const icp_extra *extra = &event->text.extras[i];
        if (position < extra->position || position - extra->position >= extra->length) continue;
        int32_t begin = (int32_t)extra->position - (int32_t)event->position;
        return (naive_cover){naive_extra_find(extra->id, extra->id_bytes), begin, extra->length};
    }
    return (naive_cover){0, 0, 0};
}

static void read_content(const replica *set, const icp_event *event, naive_content *content)
{
    for (uint32_t i = 0; i < set->block_tokens; i++) {
        content->tokens[i] = event->text.tokens[i];
        content->covers[i] = event_cover(event, event->position + i);
    }
}

static bool content_equal(const replica *set, const naive_content *a, const naive_content *b)
{
    for (uint32_t i = 0; i < set->block_tokens; i++) {
        if (a->tokens[i] != b->tokens[i] || !naive_cover_equal(a->covers[i], b->covers[i])) return false;
    }
    return true;
}

static void apply_stored(replica *set, const icp_event *event)
{
    replica_node *node = &set->nodes[event->node];
    naive_content content;
    if (event->text.token_count != set->block_tokens) {
        replica_fail(set, "node %u is stored with %zu tokens", event->node, event->text.token_count);
        return;
    }
    if (event->group_mask == 0) return; /* in no group: it only leads to others */
    bool is_known = node->group_mask != 0; /* another group's block, or one that took over */
    read_content(set, event, &content);
    if (node->group_mask != 0 && (!content_equal(set, &content, &node->content) || node->parent != event->parent)) {
        replica_fail(set, "node %u is stored again as another", event->node);
    }
    if (event->parent != ICP_NODE_NONE && set->nodes[event->parent].group_mask != 0 && event->name.length != 0 &&
        memcmp(event->parent_name.bytes, set->nodes[event->parent].name.bytes, event->name.length) != 0) {
        replica_fail(set, "node %u names its parent wrongly", event->node);
    }
    node->group_mask |= event->group_mask;
    node->scope = event->scope;
    node->parent = event->parent;
    node->position = event->position;
    node->content = content;
    node->name = event->name;
    for (uint32_t g = 0; g < set->group_count; g++) {
        node->blocks[g] = event->blocks[g];
        if ((event->group_mask >> g & 1) != 0 && event->blocks[g] == ICP_BLOCK_NONE) {
            replica_fail(set, "node %u is stored in group %u without a block", event->node, g);
        }
    }
    if (set->is_dump || is_known || set->news_count == REPLICA_NEWS_COUNT_MAX) return;
    replica_news *news = &set->news[set->news_count++];
    news->node = event->node;
    news->parent = event->parent;
    memcpy(news->blocks, node->blocks, sizeof(news->blocks));
}

static void apply_removed(replica *set, const icp_event *event)
{
    replica_node *node = &set->nodes[event->node];
    if ((node->group_mask & event->group_mask) != event->group_mask) {
        replica_fail(set, "groups %x of node %u are removed, but %x are there", event->group_mask, event->node,
                     node->group_mask);
    }
    node->group_mask &= ~event->group_mask;
}

static void apply_cleared(replica *set, const icp_event *event)
{
    for (uint32_t i = 0; i < REPLICA_NODE_COUNT_MAX; i++) {
        if (event->is_all || set->nodes[i].scope == event->scope) set->nodes[i].group_mask = 0;
    }
}

void replica_event(void *context, const icp_event *event)
{
    replica *set = context;
    if (!set->is_dump && event->sequence != set->sequence + 1) {
        replica_fail(set, "event %llu comes after event %llu", (unsigned long long)event->sequence,
                     (unsigned long long)set->sequence);
    }
    set->sequence = event->sequence;
    set->tick = event->tick;
    if (event->kind == ICP_EVENT_CLEARED) {
        apply_cleared(set, event);
        return;
    }
    if (event->node >= REPLICA_NODE_COUNT_MAX) {
        replica_fail(set, "an event of node %u", event->node);
        return;
    }
    if (event->kind == ICP_EVENT_STORED)
        apply_stored(set, event);
    else
        apply_removed(set, event);
}

/* ---- The model learns the numbers --------------------------------------------------------------------------- */

static bool settle_one(naive *model, const replica_news *news)
{
    uint32_t n = NAIVE_NONE;
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (news->blocks[g] == ICP_BLOCK_NONE) continue;
        n = naive_block_at(model, g, news->blocks[g])->node;
        break;
    }
    if (n == NAIVE_NONE) {
        naive_fail(model, "node %u is stored, but not in the model", news->node);
        return false;
    }
    naive_node *node = &model->now.nodes[n];
    uint32_t parent = ICP_NODE_NONE;
    node->known_as = news->node;
    if (node->parent != NAIVE_NONE) {
        naive_node *above = &model->now.nodes[node->parent];
        if (above->known_as == ICP_NODE_NONE) above->known_as = news->parent;
        parent = above->known_as;
    }
    if (parent == news->parent) return true;
    naive_fail(model, "node %u is stored with parent %d, want %d", news->node, (int)news->parent, (int)parent);
    return false;
}

bool replica_settle(replica *set, naive *model)
{
    bool is_good = true;
    for (uint32_t i = 0; i < set->news_count && is_good; i++) is_good = settle_one(model, &set->news[i]);
    if (set->error[0] != '\0') naive_fail(model, "events: %s", set->error);
    set->news_count = 0;
    return is_good && set->error[0] == '\0';
}

/* ---- Comparison --------------------------------------------------------------------------------------------- */

static uint32_t mask_of(const naive *model, const naive_node *node)
{
    uint32_t mask = 0;
    for (uint32_t g = 0; g < model->group_count; g++) {
        if (node->blocks[g] != NAIVE_NONE) mask |= 1u << g;
    }
    return mask;
}

static bool compare_node(const replica *set, naive *model, uint32_t n, const char *where)
{
    const naive_node *node = &model->now.nodes[n];
    if (node->known_as >= REPLICA_NODE_COUNT_MAX) {
        naive_fail(model, "%s: no event told of a node at depth %u", where, node->depth);
        return false;
    }
    const replica_node *copy = &set->nodes[node->known_as];
    uint32_t parent = node->parent == NAIVE_NONE ? ICP_NODE_NONE : model->now.nodes[node->parent].known_as;
    if (copy->group_mask != mask_of(model, node)) {
        naive_fail(model, "%s: node %u in groups %x, want %x", where, node->known_as, copy->group_mask,
                   mask_of(model, node));
        return false;
    }
    bool is_same = copy->parent == parent && copy->position == (node->depth - 1) * model->block_tokens &&
                   copy->scope == model->now.scopes[node->scope].handle &&
                   content_equal(set, &copy->content, &model->contents[n]);
    for (uint32_t g = 0; g < model->group_count && set->is_dump; g++) {
        is_same = is_same && copy->blocks[g] == node->blocks[g]; /* a dump is of now */
    }
    if (!is_same) naive_fail(model, "%s: node %u is not as in the model", where, node->known_as);
    return is_same;
}

static bool compare_set(const replica *set, naive *model, const char *where)
{
    uint32_t wanted = 0;
    uint32_t count = 0;
    for (uint32_t n = 0; n < model->now.node_count; n++) {
        if (model->now.nodes[n].serial == 0 || !naive_node_has_block(model, n)) continue;
        if (!compare_node(set, model, n, where)) return false;
        wanted++;
    }
    for (uint32_t i = 0; i < REPLICA_NODE_COUNT_MAX; i++) count += set->nodes[i].group_mask != 0;
    if (count != wanted) naive_fail(model, "%s: %u nodes, want %u", where, count, wanted);
    return count == wanted;
}

/* The name in an event is the one that icp_name_chain makes of the whole text. Looks at one node, and at its parent by
 * way of parent_name; over time at all. */
static bool compare_name(const replica *set, naive *model)
{
    if (model->options.name_kind == ICP_NAME_NONE) return true;
    for (uint32_t i = 0; i < model->now.node_count; i++) {
        uint32_t n = (i + (uint32_t)model->operation) % model->now.node_count;
        const naive_node *node = &model->now.nodes[n];
        if (node->serial == 0 || !naive_node_has_block(model, n)) continue;
        icp_name wanted;
        if (!naive_node_name(model, n, &wanted)) return false;
        const icp_name *name = &set->nodes[node->known_as].name;
        if (name->length == wanted.length && memcmp(name->bytes, wanted.bytes, wanted.length) == 0) return true;
        naive_fail(model, "events: node %u has another name than icp_name_chain gives", node->known_as);
        return false;
    }
    return true;
}

bool replica_compare(replica *set, naive *model, replica *dump)
{
    uint64_t sequence = 0;
    replica_open(dump, set->group_count, set->block_tokens, true);
    icp_status status = icp_cache_dump(model->cache, replica_event, dump, &sequence);
    if (status != ICP_OK) {
        naive_fail(model, "icp_cache_dump: %s", icp_status_name(status));
        return false;
    }
    if (dump->error[0] != '\0') naive_fail(model, "dump: %s", dump->error);
    if (sequence != set->sequence) naive_fail(model, "dump: another sequence than the last event's");
    if (model->error[0] != '\0') return false;
    return compare_set(set, model, "events") && compare_set(dump, model, "dump") && compare_name(set, model);
}
