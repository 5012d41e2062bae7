"""Text by GPT-2: `model.safetensors` of Hugging Face's `gpt2`,
with its tokenizer (`pip install "uop-nn[gpt2]"`).

python examples/gpt2.py model.safetensors --prompt "The compiler said" [--length 40]
python examples/gpt2.py --random      writes with a small model of random weights: noise, but no download
"""

import argparse
import time
from pathlib import Path

from uop_nn import CharTokenizer, Gpt2, Gpt2Config, Gpt2Tokenizer, Sampler, Tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("weights", nargs="?", type=Path, default=Path("model.safetensors"))
    parser.add_argument("--prompt", default="The compiler said")
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--random", action="store_true")
    options = parser.parse_args()
    tokenizer: Tokenizer
    if options.random:
        tokenizer = CharTokenizer(options.prompt)
        model = Gpt2(Gpt2Config(len(tokenizer), context=64, layers=2, width=32, heads=2))
    else:
        tokenizer = Gpt2Tokenizer()
        model = Gpt2.from_safetensors(options.weights)
    print(f"{model.parameter_count():,} parameters")
    print(options.prompt, end="", flush=True)
    began = time.perf_counter()
    sampler = Sampler(model, tokenizer)
    for piece in sampler.characters(options.prompt, options.length, temperature=0.8, top_p=0.95):
        print(piece, end="", flush=True)
    print(f"\n{options.length / (time.perf_counter() - began):.1f} tokens/s")


if __name__ == "__main__":
    main()
