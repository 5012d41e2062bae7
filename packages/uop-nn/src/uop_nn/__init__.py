"""uop-nn: layers, optimizers, data sets, models, training and sampling on uop-tensor. Weeks 5, 9 and 10."""

from .adaptive import Adam, AdamW, Lion
from .attention import Block, CausalSelfAttention, FeedForward
from .checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from .data import DataError, MissingDataError, Mnist, load_mnist, load_text, load_tinyshakespeare
from .ema import Ema
from .gpt import Gpt, GptConfig
from .gradients import GradientAccumulator, clip_grad_norm, clip_grad_value
from .layers import Embedding, LayerNorm, Linear
from .mlp import Mlp
from .module import ModelError, Module
from .muon import Muon
from .optim import SGD, CombinedOptimizer, Optimizer, OptimizerError
from .rates import Constant, Cosine, LinearWarmup, OneCycle, StepDecay, warmup_cosine
from .sample import Sampler, SamplingError, load_gpt
from .text import CharTokenizer, RandomBatches, train_validation_split
from .training import TrainingError

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Block",
    "CausalSelfAttention",
    "CharTokenizer",
    "CheckpointError",
    "CombinedOptimizer",
    "Constant",
    "Cosine",
    "DataError",
    "Ema",
    "Embedding",
    "FeedForward",
    "Gpt",
    "GptConfig",
    "GradientAccumulator",
    "LayerNorm",
    "Linear",
    "LinearWarmup",
    "Lion",
    "MissingDataError",
    "Mlp",
    "Mnist",
    "ModelError",
    "Module",
    "Muon",
    "OneCycle",
    "Optimizer",
    "OptimizerError",
    "RandomBatches",
    "Sampler",
    "SamplingError",
    "StepDecay",
    "TrainingError",
    "clip_grad_norm",
    "clip_grad_value",
    "load_checkpoint",
    "load_gpt",
    "load_mnist",
    "load_text",
    "load_tinyshakespeare",
    "save_checkpoint",
    "train_validation_split",
    "warmup_cosine",
]
