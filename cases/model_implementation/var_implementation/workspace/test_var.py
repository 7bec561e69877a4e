"""A quick check while you work on var.py: `python test_var.py`. The judge looks at more than this."""

import unittest

import torch

from var import VAR
from vqvae import VQVAE


class VarTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        self.vae = VQVAE().eval()
        self.model = VAR(self.vae, num_classes=10).eval()
        self.labels = torch.tensor([3, 7])
        with torch.no_grad():
            tokens = self.vae.img_to_tokens(torch.rand(2, 3, 16, 16) * 2 - 1)
            self.teacher = self.vae.quantize.teacher_tokens(tokens)

    def test_forward(self) -> None:
        self.assertEqual(tuple(self.model(self.labels, self.teacher).shape), (2, 21, 64))

    def test_progressive_training(self) -> None:
        self.model.prog_si = 1
        self.assertEqual(tuple(self.model(self.labels, self.teacher).shape), (2, 5, 64))
        self.model.prog_si = 3
        with self.assertRaises(IndexError):
            self.model(self.labels, self.teacher)

    def test_generation(self) -> None:
        for labels in (self.labels, None, 4):
            pictures = self.model.autoregressive_infer_cfg(2, labels, g_seed=1, cfg=1.0, top_k=30, top_p=0.9)
            self.assertEqual(tuple(pictures.shape), (2, 3, 16, 16))
            self.assertTrue(bool(((pictures >= 0) & (pictures <= 1)).all()))
            self.assertGreater(float(pictures.std()), 0.001)


if __name__ == "__main__":
    unittest.main()
