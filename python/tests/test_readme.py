"""The examples that people read are run."""
import doctest
import unittest
from pathlib import Path

import incipit

README = Path(__file__).resolve().parent.parent / "README.md"


class Examples(unittest.TestCase):
    def test_the_readme(self):
        result = doctest.testfile(str(README), module_relative=False)
        self.assertGreater(result.attempted, 5)
        self.assertEqual(result.failed, 0)

    def test_the_packages_own_words(self):
        result = doctest.testmod(incipit)
        self.assertGreater(result.attempted, 2)
        self.assertEqual(result.failed, 0)
