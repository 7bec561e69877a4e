"""A quick check while you work on mla.py: `python test_mla.py`. The judge looks at more than this."""

import unittest

import torch

from mla import MLA


class MLATest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        self.layer = MLA(128, 4)

    def test_shapes(self) -> None:
        out, cache = self.layer(torch.randn(2, 10, 128))
        self.assertEqual(tuple(out.shape), (2, 10, 128))
        self.assertEqual(tuple(cache.shape), (2, 10, 85 + 16))

    def test_dimensions(self) -> None:
        self.assertEqual(self.layer.qk_nope_dim + self.layer.qk_rope_dim, self.layer.dh)
        self.assertEqual(tuple(self.layer.W_ukv.shape), (85, 128 + 4 * 16))


if __name__ == "__main__":
    unittest.main()
