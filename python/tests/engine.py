"""The smallest engine: what a request does with a cache, without any KV."""


def begin(cache, tokens, extras=(), **options):
    """A request that was looked up, given room and published; the caller releases its lease."""
    lease = cache.match(tokens, extras, **options)
    try:
        lease.extend(len(tokens))
        lease.publish(tokens, extras)
    except BaseException:
        lease.release()
        raise
    return lease


def serve(cache, tokens, extras=(), **options):
    """A whole request. Returns what its match found."""
    with begin(cache, tokens, extras, **options) as lease:
        return lease.hit
