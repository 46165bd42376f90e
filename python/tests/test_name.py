"""Names are vLLM's block hashes. The vectors were made by running vLLM (main of 2026-08-22, block size 4)."""
import unittest

import incipit
from incipit import NameKind


class Names(unittest.TestCase):
    def assert_names(self, expected, tokens, extras=(), **options):
        names = incipit.names(tokens, extras, block_tokens=4, **options)
        self.assertEqual([name.hex() for name in names], expected)

    def test_sha256_cbor(self):
        self.assert_names(
            [
                "58d0879dff3800f65f8c5fd449d73048c0f7699dd238a03b84b146b151d55111",
                "0635b25247c8c424c6ee8b74622a4083363a16563bd5ca08a9b64ac233647960",
            ],
            [1, 2, 3, 4, 5, 23, 24, 255, 13],
            kind=NameKind.SHA256_CBOR,
        )

    def test_a_salt_is_in_the_first_block(self):
        self.assert_names(
            [
                "90b3464ce99402758eb8cf217336c5ba10cefd2ed31740e250949c7aa7517fc8",
                "078871255521a628019ce6b4e31e71ce78bc147256e8da2ed2c27f3a1d0e0cf6",
            ],
            range(1, 9),
            kind=NameKind.SHA256_CBOR,
            salt="s3cr\u00e9t",
        )

    def test_an_adapter_is_in_every_block(self):
        self.assert_names(
            [
                "2cc720abac3d8bbd789395e0adf7e7257103f9275265c0eff594ed817e0bae2e",
                "08baed6b88ce57512a52046fee701aa78f458e1837c56ef1144a0ffd19aa0ca6",
            ],
            range(1, 9),
            kind=NameKind.SHA256_CBOR,
            adapter="ad1",
            salt="S",
        )

    def test_images(self):
        self.assert_names(
            [
                "f64e020b2efc837e9ae9c5c0007c861fa8dbb09c69333152be330886f7418a27",
                "1569d127ee34c881d85528257edbd62d3d6bdc929932ae2b639ec7eec7881341",
                "a4285c37c1d7dd670f9986d04dbc0dd7500de58c1e9f4179ab404268f0561621",
            ],
            [1, 2, 9, 9, 9, 9, 9, 3, 3, 8, 8, 4],
            [(2, 5, "imgA"), (9, 2, "imgB")],
            kind=NameKind.SHA256_CBOR,
            adapter="ad1",
            salt="S",
        )

    def test_sha256_is_the_default_as_in_vllm(self):
        self.assert_names(["52a7f141c60918f65779927090482b5a24adbe68c8613a211a1eb4e3edd9361a"], [1, 2, 3, 4])

    def test_xxh3_cbor(self):
        self.assert_names(["0a8577df5ee3430515a8cc1f6e3ac52e"], [1, 2, 3, 4], kind=NameKind.XXH3_CBOR, seed="0")

    def test_model_tenant_and_seed_change_every_name(self):
        names = {
            incipit.names(range(4), block_tokens=4, **options)[0]
            for options in ({}, dict(model="m"), dict(tenant="m"), dict(seed="0"))
        }
        self.assertEqual(len(names), 4)

    def test_a_text_of_no_full_block_has_no_names(self):
        self.assert_names([], [1, 2, 3])

    def test_what_makes_no_sense_is_refused(self):
        for options in (dict(kind=NameKind.NONE), dict(block_tokens=0)):
            with self.assertRaises(incipit.BadArgument):
                incipit.names([1, 2, 3, 4], **options)
