"""uop-nn: layers, optimizers, data sets, models, training and sampling on uop-tensor. Weeks 5, 9 and 10."""

from . import init
from .adaptive import Adam, AdamW, Lion
from .attention import Block, CausalSelfAttention, FeedForward, MultiheadAttention
from .bpe import Gpt2Tokenizer
from .cache import KvCache
from .checkpoint import load_checkpoint, save_checkpoint
from .cnn import Cnn
from .convolution import AvgPool2d, Conv1d, Conv2d, ConvTranspose2d, MaxPool2d
from .data import DataError, MissingDataError, Mnist, load_mnist, load_text, load_tinyshakespeare
from .ema import Ema
from .gpt import Gpt, GptConfig
from .gpt2 import Gpt2, Gpt2Config
from .gradients import GradientAccumulator, clip_grad_norm, clip_grad_value
from .image_sets import Cifar10, load_cifar10, load_fashion_mnist
from .layers import Dropout, Embedding, Linear
from .llama import Llama, LlamaBlock, LlamaConfig
from .mlp import Mlp
from .module import ModelError, Module, Sequential
from .muon import Muon
from .norms import BatchNorm2d, GroupNorm, LayerNorm, RMSNorm
from .optim import SGD, CombinedOptimizer, Optimizer, OptimizerError
from .rates import Constant, Cosine, LinearWarmup, OneCycle, StepDecay, warmup_cosine
from .resnet import ResNet, resnet18, resnet34
from .sample import LanguageModel, Sampler, SamplingError, Tokenizer, load_gpt
from .tensor_file import CheckpointError, load_safetensors, save_safetensors
from .text import CharTokenizer, RandomBatches, train_validation_split
from .training import TrainingError

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AvgPool2d",
    "BatchNorm2d",
    "Block",
    "CausalSelfAttention",
    "CharTokenizer",
    "CheckpointError",
    "Cifar10",
    "Cnn",
    "CombinedOptimizer",
    "Constant",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "Cosine",
    "DataError",
    "Dropout",
    "Ema",
    "Embedding",
    "FeedForward",
    "Gpt",
    "Gpt2",
    "Gpt2Config",
    "Gpt2Tokenizer",
    "GptConfig",
    "GradientAccumulator",
    "GroupNorm",
    "KvCache",
    "LanguageModel",
    "LayerNorm",
    "Linear",
    "LinearWarmup",
    "Lion",
    "Llama",
    "LlamaBlock",
    "LlamaConfig",
    "MaxPool2d",
    "MissingDataError",
    "Mlp",
    "Mnist",
    "ModelError",
    "Module",
    "MultiheadAttention",
    "Muon",
    "OneCycle",
    "Optimizer",
    "OptimizerError",
    "RMSNorm",
    "RandomBatches",
    "ResNet",
    "Sampler",
    "SamplingError",
    "Sequential",
    "StepDecay",
    "Tokenizer",
    "TrainingError",
    "clip_grad_norm",
    "clip_grad_value",
    "init",
    "load_checkpoint",
    "load_cifar10",
    "load_fashion_mnist",
    "load_gpt",
    "load_mnist",
    "load_safetensors",
    "load_text",
    "load_tinyshakespeare",
    "resnet18",
    "resnet34",
    "save_checkpoint",
    "save_safetensors",
    "train_validation_split",
    "warmup_cosine",
]
