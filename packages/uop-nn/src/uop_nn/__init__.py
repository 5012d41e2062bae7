"""Layers, optimizers, data sets, models and training on uop-tensor."""
