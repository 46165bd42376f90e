"""What a cache does, seen from Python. The library's own tests go deeper; these prove that nothing is lost between."""
import unittest

import incipit
from incipit import BlockState, Extra, Flags, Group, Policy, Why

from .engine import begin, serve


class TheWorkedExample(unittest.TestCase):
    """Ten blocks of four tokens, three requests: vLLM's published example, block for block."""

    def test_blocks_come_and_go_in_vllms_order(self):
        request0 = list(range(100, 117))
        request1 = request0[:10] + [200, 201, 202, 203]
        request2 = request0[:12] + list(range(300, 317))
        with incipit.Cache(10, block_tokens=4, policy=Policy.LRU, tail_tokens_min=incipit.TAIL_OFF) as cache:
            lease0 = begin(cache, request0[:15])  # time 1: three full blocks and one of three tokens
            self.assertEqual(list(lease0.table()), [0, 1, 2, 3])
            self.assertEqual(lease0.info().published_tokens, 12)

            lease0.extend(17)  # time 2: block 3 is full, block 4 follows
            lease0.publish(request0[:16])
            self.assertEqual(list(lease0.table()), [0, 1, 2, 3, 4])

            lease1 = begin(cache, request1)  # time 3: two of the shared blocks are whole
            self.assertEqual(lease1.hit, incipit.Hit(8, 8, 0))
            self.assertEqual(list(lease1.table()), [0, 1, 5, 6])

            lease0.release()  # time 4
            self.assertEqual(cache.queue(), [7, 8, 9, 4, 3, 2])
            lease1.release()  # time 5
            self.assertEqual(cache.queue(), [7, 8, 9, 4, 3, 2, 6, 5, 1, 0])

            lease2 = cache.match(request2)  # time 6: the hit takes 0, 1 and 2 out of the middle
            self.assertEqual(lease2.hit.cached_tokens, 12)
            self.assertEqual(cache.queue(), [7, 8, 9, 4, 3, 6, 5])
            lease2.extend(29)
            self.assertEqual(list(lease2.table()), [0, 1, 2, 7, 8, 9, 4, 3])
            self.assertEqual(cache.queue(), [6, 5])
            self.assertEqual(cache.stats().evicted_count, 1)
            cache.check()
            lease2.release()


class Leases(unittest.TestCase):
    def setUp(self):
        self.cache = incipit.Cache(8, block_tokens=4)
        self.addCleanup(self.cache.close)

    def test_the_last_token_is_always_computed(self):
        serve(self.cache, list(range(8)))
        self.cache.tick(1)
        self.assertEqual(serve(self.cache, list(range(8))), incipit.Hit(7, 4, 3))

    def test_a_full_pool_raises_full_and_changes_nothing(self):
        with begin(self.cache, list(range(20))):
            with self.cache.match(list(range(50, 70))) as lease:
                before = (lease.info(), self.cache.queue(), self.cache.dump())
                with self.assertRaisesRegex(incipit.Full, "^the pool has no block to give: "):
                    lease.extend(20)
                self.assertEqual((lease.info(), self.cache.queue(), self.cache.dump()), before)
                self.assertEqual(self.cache.stats().full_count, 1)
                lease.extend(12)
                self.assertEqual(len(lease.table()), 3)
        self.cache.check()

    def test_a_released_lease_is_stale_in_every_call(self):
        lease = begin(self.cache, [1, 2, 3, 4, 5])
        lease.release()
        self.assertTrue(lease.is_released)
        with self.cache.match([1, 2, 3, 4, 5]):  # may use the same slot
            for call in (
                lambda: lease.extend(8),
                lambda: lease.table(),
                lambda: lease.tail(),
                lambda: lease.publish([1]),
                lambda: lease.truncate(0),
                lambda: lease.unpublish(0),
                lambda: lease.release(),
                lambda: lease.info(),
            ):
                with self.assertRaisesRegex(incipit.Stale, "released or closed before"):
                    call()

    def test_a_with_statement_releases_and_lets_an_early_release_be(self):
        with begin(self.cache, [1, 2, 3]) as lease:
            self.assertEqual(self.cache.stats().lease_count, 1)
            lease.release()
        self.assertEqual(self.cache.stats().lease_count, 0)

    def test_a_tail_is_a_copy_into_a_private_block(self):
        serve(self.cache, [1, 2, 3, 4, 5, 6, 7, 8])
        self.cache.tick(1)
        with self.cache.match([1, 2, 3, 4, 5, 6, 99, 98]) as lease:
            self.assertEqual(lease.hit, incipit.Hit(6, 4, 2))
            with self.assertRaises(incipit.NotFound):
                lease.tail()
            lease.extend(8)
            self.assertEqual(lease.tail(), incipit.Copy(source=1, target=2, positions=2))
            self.assertEqual(list(lease.table()), [0, 2])
            self.assertEqual(self.cache.block(0, 1).reference_count, 1)
            self.cache.tick(2)
            lease.publish([1, 2, 3, 4, 5, 6, 99, 98])
            self.assertIsNone(lease.tail())
            self.assertEqual(self.cache.block(0, 1).state, BlockState.CACHED)

    def test_a_lease_without_a_tail_has_none_to_copy(self):
        with begin(self.cache, [1, 2, 3]) as lease:
            self.assertIsNone(lease.tail())

    def test_truncate_gives_blocks_back(self):
        with begin(self.cache, list(range(12))) as lease:
            lease.truncate(4)
            self.assertEqual(list(lease.table()), [0])
            self.assertEqual(lease.info(), incipit.LeaseInfo(0, 4, 4, 1))
            self.assertEqual(self.cache.stats().block_count_cached, 2)

    def test_truncate_into_a_published_block_takes_a_private_one(self):
        with begin(self.cache, list(range(8))) as lease:
            lease.truncate(6)
            self.assertEqual(list(lease.table()), [0, 2])
            self.assertEqual(lease.tail(), incipit.Copy(1, 2, 2))

    def test_truncate_may_take_a_block_that_it_gives_back(self):
        with incipit.Cache(3, block_tokens=4) as cache, begin(cache, list(range(12))) as lease:
            lease.truncate(2)
            self.assertEqual((list(lease.table()), lease.tail()), ([2], incipit.Copy(0, 2, 2)))
            cache.check()

    def test_unpublish_takes_back_what_a_failed_step_published(self):
        with begin(self.cache, list(range(12))) as lease:
            lease.unpublish(7)
            self.assertEqual(lease.info().published_tokens, 4)
        self.assertEqual(serve(self.cache, list(range(12))).cached_tokens, 4)

    def test_publishing_more_than_there_is_room_for_is_refused(self):
        with self.cache.match([1, 2, 3, 4, 5]) as lease:
            lease.extend(4)
            with self.assertRaises(incipit.BadArgument):
                lease.publish([1, 2, 3, 4, 5])

    def test_a_table_is_the_librarys_own_and_cannot_be_written(self):
        with begin(self.cache, list(range(8))) as lease:
            view = lease.table()
            self.assertEqual((view.format, view.readonly, view.itemsize), ("I", True, 4))
            with self.assertRaises(TypeError):
                view[0] = 5
            lease.truncate(6)  # exchanges the second block
            self.assertEqual(list(view), [0, 2])

    def test_a_lease_of_no_blocks_has_an_empty_table(self):
        with self.cache.match([1]) as lease:
            self.assertEqual(list(lease.table()), [])

    def test_a_group_that_is_not_there_is_refused(self):
        with begin(self.cache, [1]) as lease:
            for call in (lease.table, lease.tail, self.cache.queue, lambda group: self.cache.block(group, 0)):
                with self.assertRaises(incipit.BadArgument):
                    call(1)

    def test_flags_say_what_is_read_stored_and_counted(self):
        text = list(range(8))
        serve(self.cache, text, flags=Flags.NO_STORE)
        self.assertEqual(serve(self.cache, text).cached_tokens, 0)
        self.assertEqual(serve(self.cache, text, flags=Flags.NO_READ).cached_tokens, 0)
        matches = self.cache.stats().match_count
        self.assertEqual(serve(self.cache, text, flags=Flags.UNCOUNTED | Flags.NO_STORE).block_tokens_hit, 4)
        self.assertEqual(self.cache.stats().match_count, matches)

    def test_too_many_leases(self):
        with incipit.Cache(8, lease_count_max=1) as cache, cache.match([1]):
            with self.assertRaises(incipit.TooManyLeases):
                cache.match([1])

    def test_too_long(self):
        with incipit.Cache(8, lease_tokens_max=32) as cache:
            with self.assertRaisesRegex(incipit.TooLong, "longer than lease_tokens_max"):
                cache.match([1] * 33)


class Extras(unittest.TestCase):
    TEXT = [1, 2, 9, 9, 9, 9, 9, 3, 3]

    def test_the_same_tokens_under_another_image_are_another_text(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            serve(cache, self.TEXT, [Extra(2, 5, "imgA")])
            self.assertEqual(serve(cache, self.TEXT, [Extra(2, 5, b"imgA")]).cached_tokens, 8)
            self.assertEqual(serve(cache, self.TEXT, [(2, 5, "imgB")]).block_tokens_hit, 0)
            self.assertEqual(serve(cache, self.TEXT).block_tokens_hit, 0)
            cache.check()

    def test_extras_may_come_from_an_iterator(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            serve(cache, self.TEXT, [Extra(2, 5, "imgA")])
            with cache.match(self.TEXT, iter([Extra(2, 5, "imgA")])) as lease:
                self.assertEqual(lease.hit.cached_tokens, 8)

    def test_extras_out_of_order_are_refused(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            with self.assertRaises(incipit.BadArgument):
                cache.match(self.TEXT, [(4, 2, "b"), (1, 2, "a")])


class Groups(unittest.TestCase):
    def test_a_window_group_gives_back_what_the_window_has_passed(self):
        with incipit.Cache(16, block_tokens=4, groups=[Group.full(), Group.window(5, blocks=8)]) as cache:
            with cache.match(list(range(16))) as lease:
                lease.extend(8)
                lease.extend(16)
                self.assertEqual(list(lease.table(0)), [0, 1, 2, 3])
                self.assertEqual(list(lease.table(1)), [incipit.BLOCK_NONE, 1, 2, 3])
                self.assertEqual(len(cache.queue(1)), 5)
            cache.check()

    def test_a_state_group_has_a_block_for_the_last_position_alone(self):
        with incipit.Cache(16, block_tokens=4, groups=[Group.full(), Group.state(blocks=8)]) as cache:
            with begin(cache, list(range(12))) as lease:
                self.assertEqual(list(lease.table(1)), [incipit.BLOCK_NONE, incipit.BLOCK_NONE, 0])
            cache.check()

    def test_unpublish_leaves_no_node_without_a_block(self):
        with incipit.Cache(16, block_tokens=4, groups=[Group.state()]) as cache:
            with begin(cache, list(range(12))) as lease:
                lease.unpublish(11)
                cache.check()
                self.assertEqual(cache.stats().node_count, 0)

    def test_a_group_says_what_it_is(self):
        self.assertEqual(Group.window(1024, blocks=3), Group(incipit.GroupKind.WINDOW, 1024, 3))
        self.assertEqual(Group.full(), Group(incipit.GroupKind.FULL))
        self.assertEqual(Group.state(2).block_count, 2)


class Pins(unittest.TestCase):
    def test_a_pin_keeps_its_blocks_until_it_is_taken_back(self):
        with incipit.Cache(4, block_tokens=4) as cache:
            serve(cache, list(range(9)))
            with cache.pin(list(range(9))) as pin:
                self.assertEqual(pin.token_count, 8)
                self.assertEqual(cache.block(0, 0).pin_count, 1)
                self.assertEqual(cache.stats().block_count_pinned, 2)
                with self.assertRaises(incipit.Full):
                    serve(cache, list(range(50, 62)))
            with self.assertRaises(incipit.Stale):
                pin.unpin()
            serve(cache, list(range(50, 62)))

    def test_a_pin_runs_out(self):
        with incipit.Cache(4, block_tokens=4) as cache:
            serve(cache, list(range(9)))
            with cache.pin(list(range(9)), until=5):
                cache.tick(4)
                self.assertEqual(cache.stats().pin_count, 1)
                cache.tick(5)
                self.assertEqual(cache.stats().pin_count, 0)

    def test_a_pin_outlives_its_object(self):
        with incipit.Cache(4, block_tokens=4) as cache:
            serve(cache, list(range(9)))
            cache.pin(list(range(9)))
            self.assertEqual(cache.stats().pin_count, 1)

    def test_what_is_not_cached_cannot_be_pinned(self):
        with incipit.Cache(4) as cache:
            with self.assertRaises(incipit.NotFound):
                cache.pin([1, 2, 3])


class Explaining(unittest.TestCase):
    def setUp(self):
        self.cache = incipit.Cache(4, block_tokens=4, ghost_count=1024)
        self.addCleanup(self.cache.close)

    def explain(self, why, *arguments, **options):
        explanation = self.cache.explain(*arguments, **options)
        self.assertEqual(explanation.why, why, explanation.text)
        self.assertIsInstance(explanation.why, Why)
        self.assertTrue(explanation.text)
        self.assertNotIn("\0", explanation.text)
        return explanation

    def test_never_seen(self):
        self.explain(Why.NEVER, [1, 2, 3, 4, 5])

    def test_a_hit(self):
        serve(self.cache, [1, 2, 3, 4, 5])
        self.assertEqual(self.explain(Why.HIT, [1, 2, 3, 4, 5]).hit.cached_tokens, 4)

    def test_where_texts_part(self):
        serve(self.cache, [1, 2, 3, 4, 5, 6, 7, 8])
        explanation = self.explain(Why.DIVERGES, [1, 2, 3, 4, 5, 66, 77, 8, 9])
        self.assertEqual((explanation.position, explanation.shared_tokens), (5, 1))
        self.assertEqual((explanation.cached, explanation.asked), ([6, 7, 8], [66, 77, 8]))
        self.assertIn("5", explanation.text)

    def test_less_than_a_block_is_shared_and_tails_are_off(self):
        self.cache = incipit.Cache(4, block_tokens=4, tail_tokens_min=incipit.TAIL_OFF)
        self.addCleanup(self.cache.close)
        serve(self.cache, [1, 2, 3, 4, 5, 6, 7, 8])
        explanation = self.explain(Why.SHORT, [1, 2, 3, 4, 5, 66, 77, 8, 9])
        self.assertEqual((explanation.position, explanation.shared_tokens), (5, 1))

    def test_another_image(self):
        serve(self.cache, [1, 2, 3, 4, 5], [(2, 2, "a")])
        self.assertEqual(self.explain(Why.EXTRA, [1, 2, 3, 4, 5], [(2, 2, "b")]).position, 2)

    def test_the_cached_text_ends(self):
        serve(self.cache, [1, 2, 3, 4])
        self.assertEqual(self.explain(Why.ENDS, [1, 2, 3, 4, 5, 6, 7, 8, 9]).position, 4)

    def test_evicted(self):
        serve(self.cache, list(range(8)))
        self.cache.tick(3)
        serve(self.cache, list(range(20, 36)))
        self.cache.tick(10)
        explanation = self.explain(Why.EVICTED, list(range(9)))
        self.assertEqual((explanation.position, explanation.evicted_tokens, explanation.evicted_ticks_ago), (0, 8, 7))

    def test_another_scope_is_told_only_to_who_may_know(self):
        with self.cache.open_scope(tenant="a") as scope:
            serve(self.cache, [1, 2, 3, 4, 5], scope=scope)
        self.explain(Why.NEVER, [1, 2, 3, 4, 5])
        self.assertEqual(self.explain(Why.OTHER_SCOPE, [1, 2, 3, 4, 5], other_scopes=True).other_tokens, 4)

    def test_explaining_changes_nothing(self):
        serve(self.cache, [1, 2, 3, 4, 5])
        before = (self.cache.stats(), self.cache.dump(), self.cache.queue())
        self.cache.explain([1, 2, 3, 4, 5])
        self.assertEqual((self.cache.stats(), self.cache.dump(), self.cache.queue()), before)


class Options(unittest.TestCase):
    def test_a_bad_option_is_refused_with_the_librarys_sentence(self):
        for options, word in (
            (dict(block_count=0), "block_count"),
            (dict(block_tokens=1025), "block_tokens"),
            (dict(policy=99), "policy"),
            (dict(duplicates=99), "duplicates"),
            (dict(name_kind=99), "name_kind"),
            (dict(groups=[Group.window(0)]), "window"),
            (dict(groups=[Group.full()] * 17), "group"),
            (dict(hash_bits=65), "hash_bits"),
        ):
            with self.assertRaises(incipit.BadArgument) as caught:
                incipit.Cache(**{"block_count": 8, **options})
            self.assertIn(word, str(caught.exception))
            self.assertNotEqual(str(caught.exception), incipit._errors.status_text(incipit.Status.BAD_ARGUMENT))

    def test_more_memory_than_there_is(self):
        with self.assertRaises((incipit.NoMemory, incipit.BadArgument)):
            incipit.Cache(2**32 - 2, lease_count_max=2**31, lease_tokens_max=2**31)

    def test_the_cache_says_how_much_it_takes(self):
        with incipit.Cache(8) as small, incipit.Cache(1 << 16) as large:
            self.assertLess(small.memory_bytes, large.memory_bytes)


class Looking(unittest.TestCase):
    def test_statistics(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            self.assertEqual(cache.stats().hit_rate, 0.0)
            serve(cache, list(range(8)))
            cache.tick(5)
            with begin(cache, list(range(10))):
                stats = cache.stats()
            self.assertEqual((stats.match_count, stats.queried_tokens, stats.hit_tokens), (2, 18, 8))
            self.assertAlmostEqual(stats.hit_rate, 8 / 18)
            self.assertEqual((stats.block_count, stats.block_count_spare), (8, 5))
            self.assertEqual((stats.block_count_leased, stats.block_count_private), (2, 1))
            self.assertEqual(len(stats.reuse_gap), 33)
            self.assertEqual(stats.reuse_gap[3], 2)  # both blocks after 5 ticks: the bucket of 4 to 7
            self.assertIsInstance(stats.residency, list)

    def test_a_block_says_what_it_holds(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            with begin(cache, list(range(6))):
                self.assertEqual(cache.block(0, 0).state, BlockState.LEASED)
                private = cache.block(0, 1)
                self.assertEqual((private.state, private.node), (BlockState.PRIVATE, None))
                self.assertEqual(cache.block(0, 2).state, BlockState.SPARE)
            self.assertEqual(cache.block(0, 0).state, BlockState.CACHED)
            self.assertEqual(cache.block(0, 0).position, 0)
            with self.assertRaises(incipit.BadArgument):
                cache.block(0, 8)

    def test_clear_forgets(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            serve(cache, list(range(8)))
            cache.clear()
            self.assertEqual(serve(cache, list(range(8))).cached_tokens, 0)
            cache.check()

    def test_time_does_not_go_back(self):
        with incipit.Cache(8) as cache:
            cache.tick(5)
            with self.assertRaises(incipit.BadArgument):
                cache.tick(4)


class Scopes(unittest.TestCase):
    TEXT = list(range(8))

    def setUp(self):
        self.cache = incipit.Cache(8, block_tokens=4)
        self.addCleanup(self.cache.close)

    def test_nothing_is_shared_across_scopes(self):
        keys = [dict(model="m"), dict(adapter="m"), dict(tenant="m"), dict(salt="m")]
        scopes = [self.cache.open_scope(**key) for key in keys]
        self.assertEqual(serve(self.cache, self.TEXT).cached_tokens, 0)
        for scope in scopes[:3]:
            self.assertEqual(serve(self.cache, self.TEXT, scope=scope).cached_tokens, 0)
        for scope in scopes[:3]:
            self.assertGreater(serve(self.cache, self.TEXT, scope=scope).cached_tokens, 0)
        self.cache.check()

    def test_the_same_texts_are_the_same_scope(self):
        one = self.cache.open_scope(tenant="a", salt="s")
        other = self.cache.open_scope(tenant="a", salt="s")
        self.assertEqual(one.handle, other.handle)
        serve(self.cache, self.TEXT, scope=one)
        self.assertEqual(serve(self.cache, self.TEXT, scope=other).block_tokens_hit, 4)

    def test_an_object_closes_its_own_open_once(self):
        one = self.cache.open_scope(tenant="a")
        other = self.cache.open_scope(tenant="a")
        one.close()
        for call in (one.close, one.clear, one.stats, one.quota, lambda: self.cache.match([1], scope=one)):
            with self.assertRaises(incipit.Stale):
                call()
        self.assertEqual(other.stats().match_count, 0)
        other.close()

    def test_what_is_cached_is_found_when_the_scope_is_opened_again(self):
        with self.cache.open_scope(tenant="a") as scope:
            serve(self.cache, self.TEXT, scope=scope)
        with self.cache.open_scope(tenant="a") as scope:
            self.assertEqual(serve(self.cache, self.TEXT, scope=scope).block_tokens_hit, 4)

    def test_clear_forgets_one_scope(self):
        scope = self.cache.open_scope(tenant="a")
        serve(self.cache, self.TEXT, scope=scope)
        serve(self.cache, self.TEXT)
        scope.clear()
        self.assertEqual(serve(self.cache, self.TEXT, scope=scope, flags=Flags.NO_STORE).cached_tokens, 0)
        self.assertEqual(serve(self.cache, self.TEXT).block_tokens_hit, 4)

    def test_a_quota_bounds_a_scope(self):
        scope = self.cache.open_scope(tenant="a")
        scope.quota(min=1, max=2)
        self.assertEqual((scope.stats().quota_min, scope.stats().quota_max), (1, 2))
        with self.cache.match(list(range(12)), scope=scope) as lease:
            with self.assertRaisesRegex(incipit.Quota, "as many blocks as its quota allows"):
                lease.extend(12)
            lease.extend(8)
        with self.assertRaises(incipit.BadArgument):
            scope.quota(3, 2)

    def test_under_quotas_the_oldest_block_of_all_scopes_leaves_first(self):
        for count in range(1, 20):
            with incipit.Cache(4, block_tokens=4, scope_count_max=count) as cache:
                scope = cache.open_scope(tenant="a")
                scope.quota(min=0, max=4)
                serve(cache, self.TEXT)
                serve(cache, self.TEXT, scope=scope)
                cache.tick(1)
                serve(cache, self.TEXT)  # now the scope's blocks are the older ones
                cache.check()
                serve(cache, [50, 51, 52, 53])
                self.assertEqual(scope.stats().block_count, 1)

    def test_statistics_of_a_scope(self):
        scope = self.cache.open_scope(tenant="a")
        serve(self.cache, self.TEXT, scope=scope)
        stats = scope.stats()
        self.assertEqual((stats.match_count, stats.queried_tokens, stats.stored_count), (1, 8, 2))
        self.assertEqual((stats.block_count, stats.block_count_cached, stats.lease_count), (2, 2, 0))
        self.assertEqual(self.cache.default_scope.stats().match_count, 0)

    def test_the_default_scope_is_always_there(self):
        with self.cache.default_scope as scope:
            self.assertEqual(scope.handle, 0)
            with self.assertRaises(incipit.BadArgument):
                scope.close()
            scope.clear()

    def test_a_scope_of_another_cache_is_refused(self):
        with incipit.Cache(8) as other:
            with self.assertRaisesRegex(incipit.BadArgument, "another cache"):
                self.cache.match([1], scope=other.open_scope(tenant="a"))

    def test_limits(self):
        with self.assertRaises(incipit.BadArgument):
            self.cache.open_scope(tenant="x" * 256)
        with incipit.Cache(8, scope_count_max=1) as cache:
            cache.open_scope(tenant="a")
            with self.assertRaises(incipit.TooManyScopes):
                cache.open_scope(tenant="b")
