"""Nothing is used after it is gone, whatever is closed, dropped or copied first."""
import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
import unittest
import warnings
import weakref
from pathlib import Path

import incipit

from .engine import begin, serve

try:
    import numpy
except ImportError:
    numpy = None


class AfterClose(unittest.TestCase):
    def test_every_call_says_that_the_cache_is_closed(self):
        cache = incipit.Cache(8, block_tokens=4, event=lambda event: None)
        scope = cache.open_scope(tenant="a")
        lease = begin(cache, list(range(8)))
        pin = cache.pin(list(range(8)))
        cache.close()
        cache.close()  # does nothing
        self.assertTrue(cache.is_closed and lease.is_released)
        for call in (
            lambda: cache.match([1]),
            lambda: cache.explain([1]),
            lambda: cache.tick(1),
            lambda: cache.open_scope(tenant="a"),
            lambda: cache.pin([1]),
            lambda: cache.clear(),
            lambda: cache.dump(),
            lambda: cache.stats(),
            lambda: cache.block(0, 0),
            lambda: cache.queue(),
            lambda: cache.check(),
            lambda: cache.memory_bytes,
            lambda: lease.extend(8),
            lambda: lease.table(),
            lambda: lease.tail(),
            lambda: lease.publish([1]),
            lambda: lease.truncate(0),
            lambda: lease.unpublish(0),
            lambda: lease.release(),
            lambda: lease.info(),
            lambda: pin.unpin(),
            lambda: scope.quota(1, 2),
            lambda: scope.clear(),
            lambda: scope.stats(),
            lambda: scope.close(),
        ):
            with self.assertRaisesRegex(incipit.Closed, "^the cache is closed$"):
                call()
        for thing in (cache, scope, lease, pin):
            repr(thing)

    def test_with_statements_end_quietly(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            with cache.open_scope(tenant="a") as scope, begin(cache, list(range(8)), scope=scope):
                with cache.pin(list(range(8)), scope=scope):
                    cache.close()

    def test_a_lease_keeps_its_cache(self):
        lease = begin(incipit.Cache(8, block_tokens=4), list(range(8)))
        gc.collect()
        self.assertEqual(list(lease.table()), [0, 1])
        lease.release()


class Views(unittest.TestCase):
    def test_a_view_ends_with_its_lease(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            lease = begin(cache, list(range(8)))
            views = [lease.table() for _ in range(100)]
            lease.release()
            for view in views:
                with self.assertRaisesRegex(ValueError, "released memoryview"):
                    view[0]

    def test_a_view_ends_with_its_cache(self):
        cache = incipit.Cache(8, block_tokens=4)
        lease = begin(cache, list(range(8)))
        view = lease.table()
        cache.close()
        with self.assertRaisesRegex(ValueError, "released memoryview"):
            view[0]

    def test_what_stands_on_a_view_stays_safe_to_read(self):
        cache = incipit.Cache(8, block_tokens=4)
        lease = begin(cache, list(range(8)))
        view = lease.table()
        slices = [view[1:], memoryview(view)]
        if numpy is not None:
            slices.append(numpy.asarray(view))
        lease.release()
        serve(cache, list(range(50, 58)))
        cache.close()
        del cache, lease, view
        gc.collect()
        for part in slices:
            self.assertTrue(all(0 <= int(number) <= incipit.BLOCK_NONE for number in part))

    def test_other_leases_views_go_on(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            one, other = begin(cache, [1, 2, 3, 4, 5]), begin(cache, [1, 2, 3, 4, 6])
            view = other.table()
            one.release()
            self.assertEqual(list(view), [0, 2])
            other.release()

    def test_views_that_nobody_holds_are_forgotten(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            lease = begin(cache, list(range(8)))
            for _ in range(1000):
                lease.table()
            self.assertLessEqual(len(cache._views[lease._handle]), 32)
            lease.release()
            self.assertEqual(cache._views, {})


class Dropped(unittest.TestCase):
    def test_a_dropped_lease_warns_and_is_released_at_the_next_tick(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            with self.assertWarnsRegex(ResourceWarning, "Lease .* was never released"):
                begin(cache, list(range(8)))
                gc.collect()
            self.assertEqual(cache.stats().lease_count, 1)
            cache.tick(1)
            self.assertEqual(cache.stats().lease_count, 0)
            self.assertEqual(serve(cache, list(range(8))).cached_tokens, 7)

    def test_a_released_lease_is_dropped_quietly(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with incipit.Cache(8, block_tokens=4) as cache:
                begin(cache, list(range(8))).release()
                closed = begin(cache, list(range(8)))
            del closed
            gc.collect()

    def test_a_dropped_cache_is_freed_at_once(self):
        cache = incipit.Cache(8, event=lambda event: None)
        reference = weakref.ref(cache)
        gc.disable()
        self.addCleanup(gc.enable)
        del cache
        self.assertIsNone(reference())

    def test_a_program_may_end_with_everything_open(self):
        program = (
            "import incipit\n"
            "cache = incipit.Cache(8, block_tokens=4, event=print)\n"
            "lease = cache.match([1, 2, 3, 4, 5]); lease.extend(5); lease.publish([1, 2, 3, 4, 5])\n"
            "view = lease.table(); scope = cache.open_scope(tenant='a'); pin = cache.pin([1, 2, 3, 4, 5])\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))


class Copies(unittest.TestCase):
    def test_nothing_is_copied_or_pickled(self):
        with incipit.Cache(8, block_tokens=4) as cache, begin(cache, list(range(8))) as lease:
            for thing in (cache, lease, cache.open_scope(tenant="a"), cache.pin(list(range(8)))):
                for how in (copy.copy, copy.deepcopy, pickle.dumps):
                    with self.assertRaisesRegex(TypeError, "cannot be copied or pickled"):
                        how(thing)

    def test_an_open_cache_is_not_opened_again(self):
        with incipit.Cache(8) as cache:
            with self.assertRaises(RuntimeError):
                cache.__init__(8)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_forked_child_has_a_cache_of_its_own(self):
        with incipit.Cache(8, block_tokens=4) as cache:
            serve(cache, list(range(8)))
            child = os.fork()
            if child == 0:
                try:
                    cache.clear()
                    os._exit(0 if cache.stats().node_count == 0 else 1)
                finally:
                    os._exit(2)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(cache.stats().node_count, 2)
            cache.check()


class Threads(unittest.TestCase):
    def test_a_second_thread_is_refused_while_a_call_runs(self):
        refused = []

        def in_another_thread():
            try:
                cache.stats()
            except RuntimeError as error:
                refused.append(str(error))

        def on_event(event):
            thread = threading.Thread(target=in_another_thread)
            thread.start()
            thread.join()

        with incipit.Cache(8, block_tokens=4, event=on_event) as cache:
            serve(cache, [1, 2, 3, 4])
            self.assertEqual(len(refused), 1)
            self.assertIn("threads must take turns", refused[0])

    def test_threads_that_take_turns_share_a_cache(self):
        lock = threading.Lock()

        def work(first):
            for turn in range(50):
                with lock:
                    serve(cache, [first, turn, 3, 4, 5])

        with incipit.Cache(8, block_tokens=4) as cache:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(cache.stats().match_count, 200)
            cache.check()
