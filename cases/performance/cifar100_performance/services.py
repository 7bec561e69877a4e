"""A stand-in for the W&B service, to which the training reports."""

from bench.casekit.tracker import Tracker

tracker = Tracker("c0ffee00" * 5, row_names=("train_loss", "val_accuracy"))
