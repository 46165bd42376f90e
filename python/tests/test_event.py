"""Events carry everything a replica needs, and a callback's exceptions come out where they belong."""
import random
import unittest

import incipit
from incipit import EventKind, Extra, Flags, Group

from .engine import begin, serve


class Replica:
    """What can be found, and in which groups, by events alone."""

    def __init__(self):
        self.nodes = {}
        self.sequence = 0

    def __call__(self, event):
        self.sequence += 1
        if event.sequence != self.sequence:
            raise AssertionError(f"event {event.sequence} came after {self.sequence - 1}")
        if event.kind == EventKind.STORED:
            self.store(event)
        elif event.kind == EventKind.REMOVED:
            what, blocks = self.nodes[event.node]
            for group in groups_of(event):
                del blocks[group]
            if not blocks:
                del self.nodes[event.node]
        elif event.is_all:
            self.nodes.clear()
        else:
            self.nodes = {node: value for node, value in self.nodes.items() if value[0][0] != event.scope}

    def store(self, event):
        what = (event.scope, event.parent, event.position, event.tokens, event.extras, event.name, event.parent_name)
        if event.parent is not None and event.parent not in self.nodes:
            raise AssertionError("a node was stored before its parent")
        known, blocks = self.nodes.setdefault(event.node, (what, {}))
        if known != what:
            raise AssertionError("a node was stored again as another")
        blocks.update((group, event.blocks[group]) for group in groups_of(event))

    def found(self):
        """The nodes and the groups that each can be found in, whatever blocks they are in."""
        return {node: (what, sorted(blocks)) for node, (what, blocks) in self.nodes.items()}

    @classmethod
    def of_dump(cls, cache):
        replica = cls()
        events, replica.sequence = cache.dump()
        for event in events:
            if event.kind != EventKind.STORED or event.sequence != replica.sequence:
                raise AssertionError(f"not an event of a dump: {event}")
            replica.store(event)
        return replica


def groups_of(event):
    return [group for group in range(32) if event.group_mask >> group & 1]


class TheReplica(unittest.TestCase):
    def run_at_random(self, seed, steps=400, **options):
        """Requests at random, one call at a time, the replica compared after each."""
        print(f"[seed {seed}]", end=" ", flush=True)
        chance = random.Random(seed)
        replica = Replica()
        with incipit.Cache(24, block_tokens=4, event=replica, **options) as cache:
            scopes = [None, cache.open_scope(tenant="a"), cache.open_scope(salt="b")]
            leases = []
            for step in range(steps):
                cache.tick(step // 3)
                try:
                    self.one_call(chance, cache, scopes, leases)
                except (incipit.Full, incipit.Quota, incipit.NotFound):
                    if leases:
                        leases.pop(0)[0].release()
                cache.check()
                dumped = Replica.of_dump(cache)
                self.assertEqual(replica.found(), dumped.found(), f"step {step}")
                self.assertEqual(replica.sequence, dumped.sequence)
            for lease, *_ in leases:
                lease.release()
            cache.check()
            return cache.stats()

    def one_call(self, chance, cache, scopes, leases):
        kind = chance.choices(("begin", "grow", "release", "truncate", "unpublish", "clear"), (8, 8, 6, 2, 1, 0.2))[0]
        if kind == "begin" and len(leases) < 5:
            tokens = [chance.choice((1, 1, 1, 2)) for _ in range(chance.randint(1, 30))]
            extras = [(3, 4, chance.choice("xy"))] if chance.random() < 0.2 else []
            lease = cache.match(tokens, extras, scope=chance.choice(scopes))
            leases.append((lease, tokens, extras))
            lease.extend(len(tokens))
            lease.publish(tokens, extras)
        elif kind == "clear":
            chance.choice((cache.clear, scopes[1].clear))()
        elif leases:
            index = chance.randrange(len(leases))
            lease, tokens, extras = leases[index]
            if kind == "grow":
                tokens = tokens[: lease.info().token_count]
                tokens += [chance.choice((1, 2)) for _ in range(chance.randint(1, 6))]
                lease.extend(len(tokens))
                lease.publish(tokens, extras)
                leases[index] = (lease, tokens, extras)
            elif kind == "release":
                leases.pop(index)
                lease.release()
            elif kind == "truncate":
                count = chance.randint(0, len(tokens))
                lease.truncate(count)
                leases[index] = (lease, tokens[:count], extras)
            else:
                lease.unpublish(chance.randint(0, len(tokens)))

    def test_events_and_dump_agree(self):
        for seed in range(4):
            stats = self.run_at_random(seed)
            self.assertGreater(stats.evicted_count, 0)

    def test_events_and_dump_agree_with_names_and_few_hash_bits(self):
        self.run_at_random(10, name_kind=incipit.NameKind.SHA256_CBOR, hash_bits=2)

    def test_events_and_dump_agree_under_vllms_policy_adopting_duplicates(self):
        self.run_at_random(20, policy=incipit.Policy.LRU, duplicates=incipit.Duplicates.ADOPT)

    def test_events_and_dump_agree_with_groups(self):
        self.run_at_random(30, groups=[Group.full(), Group.window(6, blocks=16)])
        self.run_at_random(31, groups=[Group.full(), Group.state()])
        self.run_at_random(32, groups=[Group.full(), Group.window(9), Group.state(blocks=6)])


    def test_a_block_that_takes_over_from_a_released_one_is_told(self):
        replica = Replica()
        with incipit.Cache(8, block_tokens=4, event=replica) as cache:
            first = begin(cache, [1, 2, 3, 4])
            with begin(cache, [1, 2, 3, 4], flags=Flags.NO_READ):  # a duplicate, kept
                first.release()
                self.assertEqual(replica.nodes, Replica.of_dump(cache).nodes)

    def test_a_block_that_takes_over_from_a_free_one_is_told(self):
        replica = Replica()
        with incipit.Cache(8, block_tokens=4, event=replica) as cache:
            serve(cache, [1, 2, 3, 4])
            with begin(cache, [1, 2, 3, 4], flags=Flags.NO_READ):
                self.assertEqual(replica.nodes, Replica.of_dump(cache).nodes)


class Events(unittest.TestCase):
    def test_a_stored_block_says_everything(self):
        events = []
        with incipit.Cache(8, block_tokens=4, event=events.append) as cache:
            cache.tick(7)
            scope = cache.open_scope(tenant="a")
            serve(cache, [1, 2, 3, 4, 5, 6, 7, 8, 9], [(2, 4, b"im\0g")], scope=scope)
            first, second = events
            self.assertEqual((first.kind, first.sequence, first.tick), (EventKind.STORED, 1, 7))
            self.assertEqual((first.scope, first.parent, first.position), (scope.handle, None, 0))
            self.assertEqual((first.group_mask, first.blocks, first.tokens), (1, (0,), (1, 2, 3, 4)))
            self.assertEqual(first.extras, (Extra(2, 4, b"im\0g"),))
            self.assertEqual((first.name, first.parent_name), (b"", b""))
            self.assertEqual((second.sequence, second.parent, second.position), (2, first.node, 4))
            self.assertEqual((second.tokens, second.extras), ((5, 6, 7, 8), (Extra(2, 4, b"im\0g"),)))

    def test_names_in_events_are_the_chain(self):
        events = []
        options = dict(name_kind=incipit.NameKind.SHA256_CBOR)
        with incipit.Cache(8, block_tokens=4, event=events.append, **options) as cache:
            serve(cache, list(range(8)))
        expected = incipit.names(range(8), block_tokens=4, kind=incipit.NameKind.SHA256_CBOR)
        self.assertEqual([event.name for event in events], expected)
        self.assertEqual(
            events[0].parent_name.hex(), "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0"
        )
        self.assertEqual(events[1].parent_name, expected[0])

    def test_removed_and_cleared(self):
        events = []
        with incipit.Cache(2, block_tokens=4, event=events.append) as cache:
            serve(cache, list(range(8)))
            serve(cache, list(range(50, 54)))
            self.assertEqual([event.kind.name for event in events], ["STORED", "STORED", "REMOVED", "STORED"])
            self.assertEqual((events[2].node, events[2].blocks, events[2].tokens), (events[1].node, (), ()))
            cache.clear()
            self.assertEqual((events[-1].kind, events[-1].is_all), (EventKind.CLEARED, True))
            self.assertEqual(cache.dump(), ([], events[-1].sequence))

    def test_an_exception_is_raised_by_the_call_that_caused_it(self):
        seen = []

        def fail(event):
            seen.append(event)
            raise KeyError(len(seen))

        with incipit.Cache(8, block_tokens=4, event=fail) as cache:
            lease = cache.match(list(range(9)))
            lease.extend(9)
            with self.assertRaises(KeyError) as caught:
                lease.publish(list(range(9)))
            self.assertEqual(caught.exception.args, (1,))  # the first of two
            self.assertEqual(len(seen), 2)  # and the second was delivered
            self.assertEqual(lease.info().published_tokens, 8)  # the call did its work
            lease.release()

    def test_a_callback_must_not_call_back(self):
        def call_back(event):
            cache.stats()

        with incipit.Cache(8, block_tokens=4, event=call_back) as cache:
            with self.assertRaisesRegex(RuntimeError, "must not call back"):
                serve(cache, list(range(8)))
            cache.check()

    def test_a_callback_must_not_close(self):
        def close(event):
            cache.close()

        with incipit.Cache(8, block_tokens=4, event=close) as cache:
            with self.assertRaisesRegex(RuntimeError, "must not call back"):
                serve(cache, list(range(8)))
            self.assertFalse(cache.is_closed)

    def test_a_with_statement_releases_though_the_callback_fails(self):
        def fail(event):
            raise OSError("down")

        with incipit.Cache(2, block_tokens=4, event=fail) as cache:
            with self.assertRaisesRegex(OSError, "down"):
                with cache.match(list(range(8))) as lease:
                    lease.extend(8)
                    lease.publish(list(range(8)))
            self.assertTrue(lease.is_released)
            self.assertEqual(cache.stats().lease_count, 0)
