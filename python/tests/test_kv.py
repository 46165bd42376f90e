"""An engine that keeps real contents in its blocks never reads a wrong one.

Each position of each block holds a hash of everything that its KV would depend on: scope, tokens and extras up to it.
Before a request computes on, every position that it attends to is compared with its own text; whatever the cache did
in between (shared, copied, evicted, adopted, truncated, took back), a wrong block shows here at once.
"""
import random
import unittest

import incipit
from incipit import BLOCK_NONE, BlockState, Duplicates, Flags, Group, GroupKind, Policy

BLOCK_TOKENS = 4


class Request:
    def __init__(self, scope, tokens, extras):
        self.scope, self.tokens, self.extras = scope, tokens, extras
        self.lease = None
        self.computed = 0  # tokens

    def contents(self):
        """What the KV of each position depends on, as a number."""
        image = {
            position + offset: (id, offset) for position, length, id in self.extras for offset in range(length)
        }
        number, numbers = hash(self.scope and self.scope.handle), []
        for position, token in enumerate(self.tokens):
            number = hash((number, token, image.get(position)))
            numbers.append(number)
        return numbers


class Engine:
    def __init__(self, groups, **options):
        self.groups = groups
        self.cache = incipit.Cache(20, block_tokens=BLOCK_TOKENS, groups=groups, **options)
        self.memory = {}  # (pool, block, offset): (group, number); offset 0 alone for a state
        self.requests = []

    def place(self, group, block, offset=0):
        return (group if self.groups[group].block_count else 0, block, offset)

    def begin(self, request, flags):
        request.lease = self.cache.match(request.tokens, request.extras, scope=request.scope, flags=flags)
        request.computed = request.lease.hit.cached_tokens
        self.requests.append(request)

    def end(self, request):
        self.requests.remove(request)
        request.lease.release()

    def compute(self, request, count):
        """Goes on to count tokens. Full or Quota: nothing was done."""
        request.lease.extend(count)
        self.copy_tails(request)
        numbers = request.contents()
        for group in range(len(self.groups)):
            self.read(request, group, numbers)
        for group in range(len(self.groups)):
            self.write(request, group, numbers, count)
        request.computed = count
        request.lease.publish(request.tokens[:count], request.extras)

    def truncate(self, request, count):
        request.lease.truncate(count)
        request.computed = min(request.computed, count)
        del request.tokens[request.computed :]
        self.copy_tails(request)

    def copy_tails(self, request):
        for group in range(len(self.groups)):
            copy = request.lease.tail(group)
            for offset in range(copy.positions if copy else 0):
                source = self.memory[self.place(group, copy.source, offset)]
                self.memory[self.place(group, copy.target, offset)] = source

    def read(self, request, group, numbers):
        table = list(request.lease.table(group))
        kind = self.groups[group].kind
        position = request.computed
        if kind == GroupKind.STATE:
            places = [((position - 1) // BLOCK_TOKENS, 0, position - 1)] if position else []
        else:
            first = max(0, position - self.groups[group].window_tokens + 1) if kind == GroupKind.WINDOW else 0
            places = [(index // BLOCK_TOKENS, index % BLOCK_TOKENS, index) for index in range(first, position)]
        for entry, offset, index in places:
            held = self.memory.get(self.place(group, table[entry], offset))
            if table[entry] == BLOCK_NONE or held != (group, numbers[index]):
                raise AssertionError(f"group {group}, position {index}: block {table[entry]} holds {held}")

    def write(self, request, group, numbers, count):
        table = request.lease.table(group)
        is_state = self.groups[group].kind == GroupKind.STATE
        for position in range(count - 1 if is_state else request.computed, count):
            block = table[position // BLOCK_TOKENS]
            if self.cache.block(group, block).state != BlockState.PRIVATE:
                raise AssertionError(f"group {group}: block {block} is written while others may read it")
            offset = 0 if is_state else position % BLOCK_TOKENS
            self.memory[self.place(group, block, offset)] = (group, numbers[position])


class TheContents(unittest.TestCase):
    def run_at_random(self, seed, groups, steps=400, **options):
        print(f"[seed {seed}]", end=" ", flush=True)
        chance = random.Random(seed)
        engine = Engine(groups, **options)
        self.texts = [[chance.choice((1, 1, 1, 2)) for _ in range(28)] for _ in range(4)]
        with engine.cache as cache:
            scopes = [None, cache.open_scope(tenant="a"), cache.open_scope(tenant="b")]
            scopes[2].quota(min=2, max=9)
            pins = []
            for step in range(steps):
                cache.tick(step // 2)
                self.one_call(chance, engine, scopes, pins)
                cache.check()
            for request in list(engine.requests):
                engine.end(request)
            cache.check()
            return cache.stats()

    def one_call(self, chance, engine, scopes, pins):
        kind = chance.choices(
            ("begin", "grow", "end", "truncate", "unpublish", "pin", "clear"), (10, 10, 7, 3, 1, 1, 0.2)
        )[0]
        request = chance.choice(engine.requests) if engine.requests else None
        if kind == "begin" and len(engine.requests) < 4:
            tokens = chance.choice(self.texts)[: chance.randint(4, 28)]
            tokens += [chance.choice((1, 2)) for _ in range(chance.randint(1, 3))]
            extras = [(2, 4, chance.choice("xy"))] if chance.random() < 0.2 else []
            request = Request(chance.choice(scopes), tokens, extras)
            engine.begin(request, chance.choice((0, 0, 0, 0, Flags.NO_READ, Flags.NO_STORE)))
            self.grow(engine, request, chance.randint(request.computed + 1, len(tokens)))
        elif kind == "clear":
            chance.choice((engine.cache.clear, scopes[1].clear))()
        elif kind == "pin" and request:
            self.pin(chance, engine.cache, request, pins)
        elif kind == "grow" and request:
            request.tokens += [chance.choice((1, 2)) for _ in range(chance.randint(1, 5))]
            self.grow(engine, request, chance.randint(request.computed + 1, len(request.tokens)))
        elif kind == "end" and request:
            engine.end(request)
        elif kind == "truncate" and request:
            self.truncate(engine, request, chance.randint(0, request.computed))
        elif kind == "unpublish" and request:
            request.lease.unpublish(chance.randint(0, request.computed))
            engine.end(request)

    def changes_nothing(self, engine, call, *statuses):
        """True where a call was refused; then everything is as before."""
        cache = engine.cache
        for request in engine.requests:
            request.lease.extend(0)  # a tail's source of an earlier tick is let go now, and not in between
        before = (cache.dump(), [cache.queue(group) for group in range(len(engine.groups))], self.leases(engine))
        try:
            call()
        except statuses:
            after = (cache.dump(), [cache.queue(group) for group in range(len(engine.groups))], self.leases(engine))
            self.assertEqual(after, before)
            return True
        return False

    def leases(self, engine):
        groups = range(len(engine.groups))
        return [
            (request.lease.info(), [list(request.lease.table(group)) for group in groups])
            for request in engine.requests
        ]

    def grow(self, engine, request, count):
        if self.changes_nothing(engine, lambda: engine.compute(request, count), incipit.Full, incipit.Quota):
            engine.end(request)

    def truncate(self, engine, request, count):
        refused = (incipit.Full, incipit.Quota, incipit.NotFound)
        if self.changes_nothing(engine, lambda: engine.truncate(request, count), *refused):
            engine.end(request)
        elif count == 0:
            request.tokens = [1]

    def pin(self, chance, cache, request, pins):
        if len(pins) == 2:
            with pins.pop(0):  # which unpins, if a clear has not already
                pass
        try:
            pins.append(cache.pin(request.tokens, request.extras, scope=request.scope))
        except (incipit.NotFound, incipit.BadArgument):
            pass

    def test_full_attention(self):
        self.assertGreater(self.run_at_random(1, [Group.full()]).hit_rate, 0.05)
        self.run_at_random(2, [Group.full()], policy=Policy.LRU, tail_tokens_min=incipit.TAIL_OFF)

    def test_duplicates_adopted(self):
        self.run_at_random(3, [Group.full()], duplicates=Duplicates.ADOPT)

    def test_hardly_a_hash(self):
        self.run_at_random(4, [Group.full()], hash_bits=1)

    def test_a_sliding_window_beside_full_attention(self):
        self.run_at_random(5, [Group.full(), Group.window(6)])
        self.run_at_random(6, [Group.full(), Group.window(9, blocks=12)], policy=Policy.LRU)

    def test_a_recurrent_state_beside_full_attention(self):
        self.run_at_random(7, [Group.full(), Group.state(blocks=8)])
        self.run_at_random(8, [Group.state(), Group.full()], duplicates=Duplicates.ADOPT)

    def test_no_full_attention_at_all(self):
        self.run_at_random(9, [Group.window(5)])
        self.run_at_random(10, [Group.window(12), Group.state(blocks=6)])
