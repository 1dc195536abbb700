"""Which blocks of a model to run again in backward, so that a training step fits into less memory."""
