/* scope.c - who shares with whom: the scopes of the cache that jobs use, and the LoRA adapters.
 *
 * A scope is (model, adapter, tenant, salt). The engine keeps every scope open that it has met, up to scope_count_max,
 * so that what is cached under it is found when its tenant comes back. When there is no place for a new one, the one
 * that was not used for longest gives way with all that is cached under it; where jobs use all of them, the new job is
 * refused. (Otherwise a stranger who sends a new salt each time could fill the table for good.)
 *
 * An adapter's part of the scope is its name and the serial of its load: a name that is loaded again, with other
 * weights, finds nothing of the old ones. */
#include "engine/engine.h"

#include <stdio.h>

#define MODEL_BYTES_MAX 48u /* of the model's name in a scope: the four texts together must fit */
#define NONE UINT32_MAX

static uint32_t adapter_find(const icp_engine *engine, const char *name)
{
    for (uint32_t i = 0; i < engine->options.adapter_count_max; i++) {
        if (engine->adapters[i].adapter != NULL && strcmp(engine->adapters[i].name, name) == 0) return i;
    }
    return NONE;
}

static bool has_adapter(const icp_submission *submission)
{
    return submission->adapter != NULL && submission->adapter[0] != '\0';
}

/* ---- Scopes --------------------------------------------------------------------------------------------------- */

/* text: room for what the key points to. NOT_FOUND: no such adapter. */
icp_status icp_engine_scope_key(const icp_engine *engine, const icp_submission *submission, icp_scope_key *key,
                                char *text, size_t text_bytes)
{
    const char *name = engine->shape->name[0] != '\0' ? engine->shape->name : "model";
    *key = (icp_scope_key){.tenant = submission->tenant, .salt = submission->salt};
    int used = snprintf(text, text_bytes, "%.*s", (int)MODEL_BYTES_MAX, name);
    key->model = text;
    if (!has_adapter(submission)) return ICP_OK;
    uint32_t adapter = adapter_find(engine, submission->adapter);
    if (adapter == NONE) return ICP_NOT_FOUND;
    char *adapter_text = text + used + 1;
    (void)snprintf(adapter_text, text_bytes - (size_t)used - 1, "%s#%llu", submission->adapter,
                   (unsigned long long)engine->adapters[adapter].serial);
    key->adapter = adapter_text;
    return ICP_OK;
}

static void entry_forget(icp_engine *engine, icp_scope_entry *entry)
{
    icp_status status = icp_scope_clear(engine->cache, entry->scope);
    ICP_ASSERT(status == ICP_OK);
    status = icp_scope_close(engine->cache, entry->scope);
    ICP_ASSERT(status == ICP_OK);
    *entry = (icp_scope_entry){.adapter = NONE};
}

/* The entry of a scope; else a free one; else the one that was idle for longest, forgotten. NULL: jobs use all. */
static icp_scope_entry *entry_for(icp_engine *engine, icp_scope scope)
{
    icp_scope_entry *best = NULL;
    for (uint32_t i = 0; i < engine->options.scope_count_max; i++) {
        icp_scope_entry *entry = &engine->scopes[i];
        if (scope != 0 && entry->scope == scope) return entry;
        if (entry->job_count != 0) continue;
        if (best == NULL || (best->scope != 0 && (entry->scope == 0 || entry->used < best->used))) best = entry;
    }
    if (best != NULL && best->scope != 0) entry_forget(engine, best);
    return best;
}

icp_status icp_engine_scope_acquire(icp_engine *engine, const icp_submission *submission, uint32_t *out,
                                    icp_error *error)
{
    char text[2 * ICP_SCOPE_TEXT_BYTES_MAX];
    icp_scope_key key;
    icp_scope scope;
    icp_status status = icp_engine_scope_key(engine, submission, &key, text, sizeof(text));
    if (status != ICP_OK) return icp_fail(error, status, "there is no adapter \"%.64s\"", submission->adapter);
    status = icp_scope_open(engine->cache, &key, &scope);
    icp_scope_entry *entry = NULL;
    if (status == ICP_TOO_MANY_SCOPES) {
        entry = entry_for(engine, 0);
        if (entry != NULL) status = icp_scope_open(engine->cache, &key, &scope);
    }
    if (status == ICP_BAD_ARGUMENT) return icp_fail(error, status, "adapter, tenant and salt are too long together");
    if (status != ICP_OK) return icp_fail(error, status, "%s", icp_status_text(status));
    if (entry == NULL) entry = entry_for(engine, scope);
    if (entry == NULL || entry->scope == scope) { /* it is held open by the entry; or nobody can hold it */
        status = icp_scope_close(engine->cache, scope);
        ICP_ASSERT(status == ICP_OK);
    }
    if (entry == NULL) return icp_fail(error, ICP_TOO_MANY_SCOPES, "%s", icp_status_text(ICP_TOO_MANY_SCOPES));
    if (entry->scope != scope) {
        entry->adapter = has_adapter(submission) ? adapter_find(engine, submission->adapter) : NONE;
        entry->scope = scope;
    }
    entry->used = engine->job_serial;
    entry->job_count++;
    if (entry->adapter != NONE) engine->adapters[entry->adapter].job_count++;
    *out = (uint32_t)(entry - engine->scopes);
    return ICP_OK;
}

void icp_engine_scope_release(icp_engine *engine, uint32_t index)
{
    icp_scope_entry *entry = &engine->scopes[index];
    entry->job_count--;
    if (entry->adapter != NONE) engine->adapters[entry->adapter].job_count--;
}

icp_status icp_engine_cache_request(icp_engine *engine, const icp_submission *submission, icp_request *request)
{
    if (engine == NULL || submission == NULL || request == NULL || submission->struct_size < sizeof(size_t))
        return ICP_BAD_ARGUMENT;
    icp_submission known;
    icp_submission_init(&known);
    memcpy(&known, submission, submission->struct_size < sizeof(known) ? submission->struct_size : sizeof(known));
    char text[2 * ICP_SCOPE_TEXT_BYTES_MAX];
    icp_scope_key key;
    icp_status status = icp_engine_scope_key(engine, &known, &key, text, sizeof(text));
    icp_scope scope = 0;
    if (status == ICP_OK) status = icp_scope_open(engine->cache, &key, &scope);
    if (status != ICP_OK) return status;
    *request = (icp_request){.text = {known.tokens, known.token_count, known.extras, known.extra_count},
                             .scope = scope,
                             .flags = known.flags};
    return ICP_OK;
}

/* ---- Adapters ------------------------------------------------------------------------------------------------- */

static icp_status adapter_read(icp_engine *engine, icp_adapter_entry *entry, const char *path, icp_error *error)
{
    icp_status status = icp_gguf_open(&entry->gguf, path, error);
    if (status != ICP_OK) return status;
    status = icp_adapter_open(&entry->adapter, engine->transformer, entry->gguf, error);
    if (status == ICP_OK) return ICP_OK;
    icp_gguf_close(entry->gguf);
    *entry = (icp_adapter_entry){.adapter = NULL};
    return status;
}

icp_status icp_engine_adapter_load(icp_engine *engine, const char *name, const char *path, icp_error *error)
{
    if (engine == NULL || name == NULL || path == NULL) return icp_fail(error, ICP_BAD_ARGUMENT, "an argument is NULL");
    if (name[0] == '\0' || strlen(name) >= ICP_ADAPTER_NAME_BYTES_MAX)
        return icp_fail(error, ICP_BAD_ARGUMENT, "the name of an adapter has 1 to %u bytes",
                        ICP_ADAPTER_NAME_BYTES_MAX - 1);
    if (adapter_find(engine, name) != NONE)
        return icp_fail(error, ICP_BAD_ARGUMENT, "there is an adapter \"%s\" already", name);
    uint32_t index = 0;
    while (index < engine->options.adapter_count_max && engine->adapters[index].adapter != NULL) index++;
    if (index == engine->options.adapter_count_max)
        return icp_fail(error, ICP_FULL, "%u adapters are loaded, which is adapter_count_max", index);
    icp_adapter_entry *entry = &engine->adapters[index];
    icp_status status = adapter_read(engine, entry, path, error);
    if (status != ICP_OK) return status;
    memcpy(entry->name, name, strlen(name) + 1);
    entry->serial = ++engine->adapter_serial;
    return ICP_OK;
}

static void adapter_close(icp_adapter_entry *entry)
{
    icp_adapter_close(entry->adapter);
    if (entry->gguf != NULL) icp_gguf_close(entry->gguf);
    *entry = (icp_adapter_entry){.adapter = NULL};
}

icp_status icp_engine_adapter_unload(icp_engine *engine, const char *name)
{
    if (engine == NULL || name == NULL) return ICP_BAD_ARGUMENT;
    uint32_t index = adapter_find(engine, name);
    if (index == NONE) return ICP_NOT_FOUND;
    if (engine->adapters[index].job_count != 0) return ICP_FULL;
    for (uint32_t i = 0; i < engine->options.scope_count_max; i++) {
        icp_scope_entry *entry = &engine->scopes[i];
        if (entry->scope != 0 && entry->adapter == index) entry_forget(engine, entry);
    }
    adapter_close(&engine->adapters[index]);
    return ICP_OK;
}

void icp_engine_adapters_close(icp_engine *engine)
{
    for (uint32_t i = 0; engine->adapters != NULL && i < engine->options.adapter_count_max; i++) {
        adapter_close(&engine->adapters[i]);
    }
}
