def get_best_model():
    """The best model, in evaluation mode, with its weights out of `checkpoints`: N normalised pictures to N x 10."""
    return None
