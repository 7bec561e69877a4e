"""A quick check while you work on channel_vit.py: `python test_channel_vit.py`. The judge looks at more than this."""

import unittest

import torch

from channel_vit import ChannelViT

SETTINGS = {"img_size": [32], "patch_size": 8, "in_chans": 6, "embed_dim": 48, "depth": 2, "num_heads": 4}


class ChannelViTTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        self.model = ChannelViT(**SETTINGS).eval()

    def test_sizes_of_the_parameters(self) -> None:
        embedding = sum(p.numel() for p in self.model.patch_embed.parameters())
        self.assertEqual(embedding, 48 * (8 * 8 + 1) + 48 * 6)
        self.assertEqual(self.model.pos_embed.numel(), 48 * (16 + 1))
        self.assertEqual(self.model.cls_token.numel(), 48)

    def test_all_channels(self) -> None:
        out = self.model(torch.randn(3, 6, 32, 32))
        self.assertEqual(tuple(out.shape), (3, 6 * 16 + 1, 48))

    def test_other_channels_for_each_sample(self) -> None:
        for first, second in (([0, 2, 4], [1, 3, 5]), ([1, 4], [2, 5])):
            x = torch.randn(1, len(first), 32, 32).repeat(2, 1, 1, 1)
            out = self.model(x, torch.tensor([first, second]))
            self.assertEqual(tuple(out.shape), (2, len(first) * 16 + 1, 48))
            self.assertFalse(torch.allclose(out[0], out[1]))


if __name__ == "__main__":
    unittest.main()
