from cifar10_classifier.data import CIFAR10DataModule
from cifar10_classifier.model import CIFAR10Classifier

__all__ = ["CIFAR10Classifier", "CIFAR10DataModule"]
