"""python score.py TOKENS PROBABILITIES: the probability of every word behind each place, by the model in output/.

TOKENS: .npy, whole numbers, N x length. PROBABILITIES: .npy, float32, N x length x words.
"""

import sys

import numpy as np
import torch
from model import Gpt
from safetensors.torch import load_file
from text import vocabulary


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    model = Gpt(len(vocabulary()))
    model.load_state_dict(load_file("output/model.safetensors"))
    tokens = torch.from_numpy(np.load(sys.argv[1]))
    np.save(sys.argv[2], model(tokens).softmax(dim=2).numpy().astype(np.float32))


if __name__ == "__main__":
    main()
