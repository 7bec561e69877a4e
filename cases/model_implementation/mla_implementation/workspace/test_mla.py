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

    def test_the_cache_holds_raw_values(self) -> None:
        x = torch.randn(2, 5, 128)
        torch.testing.assert_close(self.layer(x)[1], x @ self.layer.W_dkv)

    def test_one_step_after_another(self) -> None:
        x = torch.randn(1, 7, 128)
        whole, _ = self.layer(x)
        out, cache = self.layer(x[:, :4])
        parts = [out]
        for step in range(4, 7):
            out, cache = self.layer(x[:, step : step + 1], kv_cache=cache, past_length=step)
            parts.append(out)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-4)


if __name__ == "__main__":
    unittest.main()
