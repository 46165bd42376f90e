/* explain.c - why did my prompt not hit? The usual reasons, provoked one after the other. */
#include <incipit/cache.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(icp_status status)
{
    if (status != ICP_OK) exit((fprintf(stderr, "%s\n", icp_status_text(status)), 1));
}

/* One token a character is enough here. */
static icp_request ask(icp_scope scope, const char *prompt)
{
    static uint32_t tokens[256];
    size_t count = strlen(prompt);
    for (size_t i = 0; i < count; i++) tokens[i] = (unsigned char)prompt[i];
    return (icp_request){.text = {.tokens = tokens, .token_count = count}, .scope = scope};
}

static void serve(icp_cache *cache, icp_scope scope, const char *prompt)
{
    icp_request request = ask(scope, prompt);
    icp_lease lease;
    must(icp_cache_match(cache, &request, &lease, NULL));
    must(icp_lease_extend(cache, lease, (uint32_t)request.text.token_count));
    must(icp_lease_publish(cache, lease, &request.text));
    must(icp_lease_release(cache, lease));
}

static void explain(const icp_cache *cache, icp_scope scope, const char *prompt)
{
    icp_request request = ask(scope, prompt);
    icp_explanation explanation;
    char text[256];
    icp_explanation_init(&explanation);
    must(icp_cache_explain(cache, &request, ICP_EXPLAIN_OTHER_SCOPES, &explanation));
    icp_explanation_text(&explanation, text, sizeof(text));
    printf("%-44s  %s\n", prompt, text);
}

int main(void)
{
    icp_cache_options options;
    icp_cache *cache;
    icp_scope acme;
    icp_cache_options_init(&options);
    options.block_count = 16;
    options.block_tokens = 8;
    must(icp_cache_open(&cache, &options, NULL));
    must(icp_scope_open(cache, &(icp_scope_key){.tenant = "acme"}, &acme));

    explain(cache, 0, "You are a helpful assistant. Be brief.");
    serve(cache, 0, "You are a helpful assistant. Be brief.");
    must(icp_cache_tick(cache, 1));
    explain(cache, 0, "You are a helpful assistant. Be brief.");
    explain(cache, 0, "You are a helpful assistant. Be brief. Hello!");
    explain(cache, 0, "You are a helpful Assistant. Be brief.");
    explain(cache, acme, "You are a helpful assistant. Be brief.");
    must(icp_cache_tick(cache, 100));
    serve(cache, 0,
          "Something else, long enough to need nearly every block that this little cache has, "
          "so that the rest must go.");
    must(icp_cache_tick(cache, 250));
    explain(cache, 0, "You are a helpful assistant. Be brief.");
    icp_cache_close(cache);
    return 0;
}
