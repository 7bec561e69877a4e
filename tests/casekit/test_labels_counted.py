"""The labels that a training went through, whatever its loss."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.casekit import labels_counted
from tests.helpers.cells import write_files
from tests.helpers.torch_scripts import run_script

BEGUN = """
import json
import torch
from torch import nn
from torch.nn import functional as F
import labels_counted

def made():
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)]
    return nn.Sequential(*layers)

net, other = made(), made()
x, y = torch.randn(8, 3, 12, 12), torch.randint(0, 10, (8,))
hot = F.one_hot(y, 10).float()
"""
ONCE = [
    "F.cross_entropy(net(x), y)",
    "F.cross_entropy(net(x), y, label_smoothing=0.1)",
    "F.cross_entropy(net(x), y, reduction='none').mean()",
    "F.binary_cross_entropy_with_logits(net(x), hot)",
    "F.mse_loss(net(x).softmax(1), hot)",
    "-(hot * net(x).log_softmax(1)).sum(1).mean() + sum((it**2).sum() for it in net.parameters())",
    "(lambda z: 0.3 * F.cross_entropy(z, y) + 0.7 * F.cross_entropy(z, y.flip(0)))(net(x))",
    "F.cross_entropy(net(x), y) + F.cross_entropy(other(x), y)",
    # Whatever a loss on rows is about: other things than classes, or means of each class.
    "F.mse_loss(nn.Sequential(*net[:5])(x), torch.ones(8, 4))",
    "F.cross_entropy(net(x), y) + nn.Sequential(*net[:5])(x).square().mean()",
    "-torch.zeros(10, 10).index_add(0, y, net(x).log_softmax(1)).diagonal().sum()",
]
TWICE = [
    "F.cross_entropy(net(torch.cat([x, x.flip(3)])), torch.cat([y, y]))",
    "F.cross_entropy(net(x), y) + F.cross_entropy(net(x.flip(3)), y)",
]


def told(folder: Path, text: str) -> str:
    (folder / "labels_counted.py").write_bytes(labels_counted.source())
    return run_script(folder, BEGUN + text)


def test_each_version_of_a_picture_counts_once_for_a_parameter(tmp_path: Path) -> None:
    losses = ", ".join(ONCE + TWICE)
    asked = f"""
def of(loss, parameter):
    return sum(n for parameters, n in labels_counted.labels([loss], 10) if any(it is parameter for it in parameters))
print(json.dumps([max(of(it, one) for one in [*net.parameters(), *other.parameters()]) for it in ({losses})]))
"""
    assert json.loads(told(tmp_path, asked)) == [8] * len(ONCE) + [16] * len(TWICE)


ONE_ROW = [
    "F.cross_entropy(net(x)[:1], y[:1])",
    "F.binary_cross_entropy_with_logits(net(x)[:1], hot[:1])",
    "-net(x)[:1].log_softmax(1)[torch.arange(1), y[:1]].mean()",
    "F.mse_loss(net(x)[:1].softmax(1), hot[:1])",
]
RESHAPED = [
    "F.cross_entropy(net(x), y, reduction='none').view(4, 2).mean()",
    "F.cross_entropy(net(x.repeat(5, 1, 1, 1)), y.repeat(5), reduction='none').view(-1, 10).mean()",
    "F.cross_entropy(net(x.repeat(5, 1, 1, 1)), y.repeat(5), reduction='none').view(10, -1).T.mean()",
    "F.cross_entropy(net(torch.cat([x, x[:2]])), torch.cat([y, y[:2]]), reduction='none')[None].mean()",
    "F.binary_cross_entropy_with_logits(net(x).view(-1), hot.view(-1))",
]


def test_one_row_is_one_label_and_another_shape_changes_no_count(tmp_path: Path) -> None:
    asked = f"""
losses = [{", ".join(ONE_ROW + RESHAPED)}]
print(json.dumps([sum(count for _, count in labels_counted.labels([it], 10)) for it in losses]))
"""
    assert json.loads(told(tmp_path, asked)) == [1] * len(ONE_ROW) + [8, 40, 40, 10, 8]


IN_ONE_LOSS = [
    "F.cross_entropy(net(x) + net(x.flip(3)), y)",
    "F.cross_entropy(torch.logsumexp(torch.stack([net(x), net(x.flip(3))]), 0), y)",
    "F.cross_entropy(net(torch.cat([x, x.flip(3)])).reshape(2, 8, 10).mean(0), y)",
    "F.cross_entropy(patched(x) + patched(x.flip(3)), y)",
]
ONE_VERSION = [
    "F.cross_entropy(net(x) + net(x), y)",
    "F.cross_entropy(torch.cat([net(it) for it in x.split(4)]), y)",
    "F.cross_entropy(net(F.interpolate(x, size=(24, 24))), y)",
    "F.cross_entropy(net(0.3 * x + 0.7 * x.flip(0)), y)",
    "F.cross_entropy(patched(x), y)",
    "F.cross_entropy(net(x) + other(x.flip(3)), y)",
]


def test_versions_that_one_loss_takes_count_where_the_size_of_an_example_is_told(tmp_path: Path) -> None:
    asked = f"""
patches = nn.Linear(48, 10)
patched = lambda it: patches(F.unfold(it, 4, stride=4).transpose(1, 2)).mean(1)
def most(loss, numbers):
    counts = {{}}
    for parameters, count in labels_counted.labels([loss], 10, numbers):
        for it in parameters:
            counts[id(it)] = counts.get(id(it), 0) + count
    return max(counts.values())
losses = [{", ".join(IN_ONE_LOSS + ONE_VERSION)}]
print(json.dumps([[most(it, 3 * 12 * 12) for it in losses], most(losses[0], 0)]))
"""
    counts, untold = json.loads(told(tmp_path, asked))
    assert counts == [16] * len(IN_ONE_LOSS) + [8] * len(ONE_VERSION)
    assert untold == 8


@pytest.mark.parametrize(
    "derive", ["{}.backward()", "torch.autograd.grad({}, list(net.parameters()))"], ids=["backward", "grad"]
)
def test_pictures_trained_on_again_count_again_and_measured_ones_never(tmp_path: Path, derive: str) -> None:
    step = derive.format("F.cross_entropy(net(x), y)")
    told(tmp_path, f'labels_counted.begin(torch, 10, "labels.json")\n{step}\n{step}\nF.cross_entropy(net(x), y).item()')
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 16, "together": 16}


def test_networks_count_apart_and_together_and_no_training_is_none(tmp_path: Path) -> None:
    step = "(F.cross_entropy(net(x), y) + F.cross_entropy(other(x), y)).backward()"
    told(tmp_path, f'labels_counted.begin(torch, 10, "labels.json")\n{step}')
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 8, "together": 16}
    told(tmp_path, 'labels_counted.begin(torch, 10, "labels.json")')
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 0, "together": 0}


def test_a_gradient_that_is_used_twice_counts_twice(tmp_path: Path) -> None:
    used = """
labels_counted.begin(torch, 10, "labels.json", steps=True)
one, two = torch.optim.SGD(net.parameters()), torch.optim.Adam(other.parameters())
(F.cross_entropy(net(x), y) + F.cross_entropy(other(x), y)).backward()
one.step()
two.step()
F.cross_entropy(net(x), y).backward()
F.cross_entropy(net(x), y).backward()
one.step()
one.zero_grad()
one.step()
"""
    told(tmp_path, used)
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 24, "together": 32}
    told(tmp_path, used + "two.step()\ntwo.step()")
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 24, "together": 48}
    copied = """
for mine, its in zip(net.parameters(), (twin := made()).parameters()):
    its.grad = torch.ones_like(its)
torch.optim.SGD(twin.parameters()).step()
"""
    told(tmp_path, used + copied)
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 24, "together": 40}
    own = """
features, part = nn.Sequential(*net[:5]), nn.Linear(4, 3)
third = torch.optim.SGD([*net.parameters(), *part.parameters()])
third.zero_grad()
(F.cross_entropy(net(x), y) + part(features(x)).square().mean()).backward()
third.step()
"""
    told(tmp_path, used + own)
    # The part has a gradient of its own, by a term that has no labels.
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 32, "together": 40}
    told(tmp_path, used.replace(", steps=True", "") + "two.step()")
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 24, "together": 32}


def test_an_optimiser_that_derives_within_its_step_counts_what_it_derives(tmp_path: Path) -> None:
    told(
        tmp_path,
        """
labels_counted.begin(torch, 10, "labels.json", steps=True)
opt = torch.optim.LBFGS(net.parameters(), max_iter=1, max_eval=1)

def closure():
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    return loss

opt.step(closure)
opt.step(closure)
""",
    )
    assert json.loads((tmp_path / "labels.json").read_text()) == {"labels": 16, "together": 16}


FORKED = "import os\nchild = os.fork()\nif child == 0: os._exit(0)\n"
CHILDREN = {
    "": False,
    "import subprocess, sys\nsubprocess.run([sys.executable, '-c', ''])": True,
    "import os\nos.system('true')": True,
    FORKED: True,
    f"{FORKED}os.waitpid(child, 0)": True,
    "import multiprocessing\nmultiprocessing.get_context('fork').Process(target=print).start()": True,
    "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', ''])": True,
    "import os\nchild = os.fork()\nif child: os.waitpid(child, 0), os._exit(0)": True,
    "import os, subprocess, sys\nif len(sys.argv) == 1:\n"
    "    subprocess.run([sys.executable, __file__, 'child'])\n    os._exit(0)": True,
}


@pytest.mark.parametrize("text", CHILDREN)
def test_whether_there_were_children_is_told_at_the_end(tmp_path: Path, text: str) -> None:
    begun = "import labels_counted\nlabels_counted.note_children('children.json')\n"
    write_files(tmp_path, {"labels_counted.py": labels_counted.source().decode(), "program.py": begun + text})
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, timeout=60)
    assert json.loads((tmp_path / "children.json").read_text()) is CHILDREN[text]
