"""uop-nn: layers, optimizers, data sets, models, training and sampling on uop-tensor. Weeks 5, 9 and 10."""

from .attention import Block, CausalSelfAttention, FeedForward
from .checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from .data import DataError, MissingDataError, Mnist, load_mnist, load_text, load_tinyshakespeare
from .gpt import Gpt, GptConfig
from .layers import Embedding, LayerNorm, Linear
from .mlp import Mlp
from .module import ModelError, Module
from .optim import SGD, AdamW, Optimizer, OptimizerError
from .rates import warmup_cosine
from .sample import Sampler, SamplingError, load_gpt
from .text import CharTokenizer, RandomBatches, train_validation_split
from .training import TrainingError

__all__ = [
    "SGD",
    "AdamW",
    "Block",
    "CausalSelfAttention",
    "CharTokenizer",
    "CheckpointError",
    "DataError",
    "Embedding",
    "FeedForward",
    "Gpt",
    "GptConfig",
    "LayerNorm",
    "Linear",
    "MissingDataError",
    "Mlp",
    "Mnist",
    "ModelError",
    "Module",
    "Optimizer",
    "OptimizerError",
    "RandomBatches",
    "Sampler",
    "SamplingError",
    "TrainingError",
    "load_checkpoint",
    "load_gpt",
    "load_mnist",
    "load_text",
    "load_tinyshakespeare",
    "save_checkpoint",
    "train_validation_split",
    "warmup_cosine",
]
