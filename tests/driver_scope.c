/* driver_scope.c - scopes, quotas, pins and time. */
#include "driver.h"

uint32_t driver_scope_draw(driver *self)
{
    uint32_t slots[NAIVE_SCOPE_COUNT_MAX];
    uint32_t count = 0;
    for (uint32_t s = 0; s < NAIVE_SCOPE_COUNT_MAX; s++) {
        if (self->model->now.scopes[s].open_count != 0) slots[count++] = s;
    }
    return slots[driver_draw(self, count)];
}

static bool open_scope(driver *self)
{
    uint32_t key = 1 + driver_draw(self, NAIVE_SCOPE_KEY_COUNT - 1);
    icp_scope_key texts = naive_scope_key(key);
    icp_scope scope = 0;
    uint32_t slot = 0;
    driver_begin(self, "open the scope of key %u", key);
    icp_status status = icp_scope_open(self->cache, &texts, &scope);
    return driver_end(self, status, naive_scope_open(self->model, key, scope, &slot));
}

static bool close_scope(driver *self)
{
    uint32_t slot = driver_scope_draw(self);
    icp_scope handle = self->model->now.scopes[slot].handle;
    driver_begin(self, "close scope %u, open %u times", slot, self->model->now.scopes[slot].open_count);
    icp_status status = icp_scope_close(self->cache, handle);
    icp_status wanted = naive_scope_close(self->model, slot);
    if (self->model->now.scopes[slot].open_count == 0)
        self->stale_scopes[driver_draw(self, DRIVER_STALE_COUNT)] = handle;
    return driver_end(self, status, wanted);
}

bool driver_scope(driver *self)
{
    return driver_chance(self, 2) ? open_scope(self) : close_scope(self);
}

bool driver_quota(driver *self)
{
    if (!self->has_quotas) return driver_tick(self);
    uint32_t slot = driver_scope_draw(self);
    uint32_t min = driver_chance(self, 2) ? 0 : driver_draw(self, 8);
    uint32_t max = driver_chance(self, 3) ? 0 : driver_draw(self, self->options.block_count);
    driver_begin(self, "quota of scope %u: %u to %u", slot, min, max);
    icp_status status = icp_scope_quota(self->cache, self->model->now.scopes[slot].handle, min, max);
    return driver_end(self, status, naive_scope_quota(self->model, slot, min, max));
}

bool driver_clear(driver *self)
{
    if (driver_chance(self, 4)) {
        driver_begin(self, "clear");
        icp_status status = icp_cache_clear(self->cache);
        return driver_end(self, status, naive_clear(self->model));
    }
    uint32_t slot = driver_scope_draw(self);
    driver_begin(self, "clear scope %u", slot);
    icp_status status = icp_scope_clear(self->cache, self->model->now.scopes[slot].handle);
    return driver_end(self, status, naive_scope_clear(self->model, slot));
}

bool driver_tick(driver *self)
{
    uint64_t tick = self->model->now.tick + (driver_chance(self, 16) ? driver_draw(self, 100000) : 1);
    driver_begin(self, "tick");
    icp_status status = icp_cache_tick(self->cache, tick);
    return driver_end(self, status, naive_tick(self->model, tick));
}

bool driver_pin(driver *self)
{
    naive_text text;
    icp_extra extras[NAIVE_EXTRA_COUNT_MAX];
    driver_text_draw(self, &text);
    naive_request wanted = {&text, driver_scope_draw(self), 0};
    icp_request request = {naive_text_make(&text, extras), self->model->now.scopes[wanted.scope].handle, 0};
    uint64_t until = driver_chance(self, 3) ? UINT64_MAX : self->model->now.tick + driver_draw(self, 12);
    icp_pin pin = 0;
    uint32_t token_count = 0;
    uint32_t token_count_wanted = 0;
    icp_status status = icp_cache_pin(self->cache, &request, until, &pin, &token_count);
    driver_begin(self, "pin %u tokens of scope %u until %lld: pin %u", text.token_count, wanted.scope, (long long)until,
                 (uint32_t)pin);
    icp_status status_wanted = naive_pin_set(self->model, &wanted, until, pin, &token_count_wanted);
    if (token_count != token_count_wanted) {
        naive_fail(self->model, "%u tokens are pinned, want %u", token_count, token_count_wanted);
    }
    return driver_end(self, status, status_wanted);
}

bool driver_unpin(driver *self)
{
    uint32_t slots[NAIVE_PIN_COUNT_MAX];
    uint32_t count = 0;
    for (uint32_t p = 0; p < NAIVE_PIN_COUNT_MAX; p++) {
        if (self->model->now.pins[p].is_set) slots[count++] = p;
    }
    if (count == 0) return driver_pin(self);
    uint32_t slot = slots[driver_draw(self, count)];
    driver_begin(self, "unpin %u", slot);
    self->stale_pins[driver_draw(self, DRIVER_STALE_COUNT)] = self->model->now.pins[slot].handle;
    icp_status status = icp_cache_unpin(self->cache, self->model->now.pins[slot].handle);
    return driver_end(self, status, naive_unpin(self->model, slot));
}
