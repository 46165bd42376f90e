"""Tests of the binding: cd python && python3 -m unittest. INCIPIT_LIBRARY names another library than the checkout's."""
