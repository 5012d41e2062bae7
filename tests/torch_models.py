"""Models by PyTorch's own layers, under the names of ours, to compare with."""

from __future__ import annotations

from typing import Any

from uop_nn import GptConfig


def resnet18(torch: Any) -> Any:
    """As in torchvision, which is not needed for it."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1:
                shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

        def forward(self, x: Any) -> Any:
            straight = x if self.downsample is None else self.downsample(x)
            return (self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())) + straight).relu()

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            for stage in range(4):
                inputs, outputs = 64 << max(stage - 1, 0), 64 << stage
                first = Block(inputs, outputs, 1 if stage == 0 else 2)
                setattr(self, f"layer{stage + 1}", nn.Sequential(first, Block(outputs, outputs, 1)))
            self.fc = nn.Linear(512, 1000)

        def forward(self, x: Any) -> Any:
            x = self.maxpool(self.bn1(self.conv1(x)).relu())
            for stage in range(1, 5):
                x = getattr(self, f"layer{stage}")(x)
            return self.fc(x.mean((2, 3)))

    return Model()


def mlp(torch: Any) -> Any:
    """The perceptron of digits."""
    nn = torch.nn

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.hidden, self.output = nn.Linear(784, 128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.output(self.hidden(x).relu())

    return Model()


def cnn(torch: Any) -> Any:
    """The small network of digits."""
    nn = torch.nn

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
            self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
            self.output = nn.Linear(32 * 7 * 7, 10)

        def forward(self, x: Any) -> Any:
            x = nn.functional.max_pool2d(self.conv1(x.reshape(-1, 1, 28, 28)).relu(), 2)
            x = nn.functional.max_pool2d(self.conv2(x).relu(), 2)
            return self.output(x.flatten(1))

    return Model()


def llama(torch: Any, config: Any) -> Any:
    """The model by torch's functions, with rotary positions as complex numbers."""
    nn = torch.nn
    size = config.width // config.heads

    def linear(inputs: int, outputs: int) -> Any:
        return nn.Linear(inputs, outputs, bias=False)

    class Attention(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.q_proj = linear(config.width, config.width)
            self.k_proj = linear(config.width, config.groups * size)
            self.v_proj = linear(config.width, config.groups * size)
            self.o_proj = linear(config.width, config.width)

        def forward(self, x: Any, turns: Any) -> Any:
            def heads(y: Any) -> Any:
                return y.view(*x.shape[:2], -1, size).transpose(1, 2)

            def turned(y: Any) -> Any:
                pairs = torch.complex(y[..., : size // 2], y[..., size // 2 :]) * turns
                return torch.cat([pairs.real, pairs.imag], -1)

            q, k, v = (heads(layer(x)) for layer in (self.q_proj, self.k_proj, self.v_proj))
            mixed = nn.functional.scaled_dot_product_attention(
                turned(q), turned(k), v, is_causal=True, enable_gqa=True
            )
            return self.o_proj(mixed.transpose(1, 2).reshape(x.shape))

    class Mlp(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.gate_proj = linear(config.width, config.hidden)
            self.up_proj = linear(config.width, config.hidden)
            self.down_proj = linear(config.hidden, config.width)

        def forward(self, x: Any) -> Any:
            return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.input_layernorm = nn.RMSNorm(config.width, eps=config.eps)
            self.self_attn = Attention()
            self.post_attention_layernorm = nn.RMSNorm(config.width, eps=config.eps)
            self.mlp = Mlp()

    class Body(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed_tokens = nn.Embedding(config.vocabulary, config.width)
            self.layers = nn.ModuleList(Block() for _ in range(config.layers))
            self.norm = nn.RMSNorm(config.width, eps=config.eps)

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = Body()
            self.lm_head = linear(config.width, config.vocabulary)

        def forward(self, tokens: Any) -> Any:
            frequencies = config.theta ** (-torch.arange(0, size, 2) / size)
            angles = torch.outer(torch.arange(tokens.shape[1]), frequencies)
            turns = torch.polar(torch.ones_like(angles), angles)
            x = self.model.embed_tokens(tokens)
            for block in self.model.layers:
                x = x + block.self_attn(block.input_layernorm(x), turns)
                x = x + block.mlp(block.post_attention_layernorm(x))
            return self.lm_head(self.model.norm(x))

    return Model()


def gpt2(torch: Any, config: Any) -> Any:
    """The model by torch's functions, under Hugging Face's names."""
    nn = torch.nn

    class Conv1D(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.2)
            self.bias = nn.Parameter(torch.randn(outputs))

        def forward(self, x: Any) -> Any:
            return torch.addmm(self.bias, x.flatten(0, -2), self.weight).view(*x.shape[:-1], -1)

    class Attention(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.c_attn = Conv1D(config.width, 3 * config.width)
            self.c_proj = Conv1D(config.width, config.width)

        def forward(self, x: Any) -> Any:
            shape = (*x.shape[:2], config.heads, -1)
            q, k, v = (part.view(shape).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1))
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.c_proj(mixed.transpose(1, 2).reshape(x.shape))

    class Mlp(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.c_fc = Conv1D(config.width, 4 * config.width)
            self.c_proj = Conv1D(4 * config.width, config.width)

        def forward(self, x: Any) -> Any:
            return self.c_proj(nn.functional.gelu(self.c_fc(x), approximate="tanh"))

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
            self.attn, self.mlp = Attention(), Mlp()

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.wte = nn.Embedding(config.vocabulary, config.width)
            self.wpe = nn.Embedding(config.context, config.width)
            self.h = nn.ModuleList(Block() for _ in range(config.layers))
            self.ln_f = nn.LayerNorm(config.width)

        def forward(self, tokens: Any) -> Any:
            x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
            for block in self.h:
                x = x + block.attn(block.ln_1(x))
                x = x + block.mlp(block.ln_2(x))
            return self.ln_f(x) @ self.wte.weight.T

    return Model()


def gpt(torch: Any, config: GptConfig) -> Any:
    """The GPT of characters."""
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
            self.out = nn.Linear(config.width, config.width, bias=False)

        def forward(self, x: Any) -> Any:
            batch, time, width = x.shape
            heads = (batch, time, config.heads, width // config.heads)
            q, k, v = (part.view(heads).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(batch, time, width))

    class FeedForward(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(config.width, 4 * config.width, bias=False)
            self.down = nn.Linear(4 * config.width, config.width, bias=False)

        def forward(self, x: Any) -> Any:
            return self.down(functional.gelu(self.up(x), approximate="tanh"))

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
            self.attention, self.feed_forward = Attention(), FeedForward()

        def forward(self, x: Any) -> Any:
            x = x + self.attention(self.norm1(x))
            return x + self.feed_forward(self.norm2(x))

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Embedding(config.vocabulary, config.width)
            self.position = nn.Embedding(config.context, config.width)
            self.blocks = nn.ModuleList(Block() for _ in range(config.layers))
            self.norm = nn.LayerNorm(config.width)
            self.head = nn.Linear(config.width, config.vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return Model()
