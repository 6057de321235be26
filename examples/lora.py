"""LoRA: peers exchange adapters, not the model. Needs `pip install 'amity[lora]'`.

A small transformer is pretrained here (nothing is downloaded), then frozen by `peft`: only low-rank
adapters and the classifier are trained and travel. The rest is there once for all peers.
"""

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

import amity

WORDS, LENGTH, CLASSES = 40, 12, 4


class Net(nn.Module):
    """An encoder over tokens (0 is padding), and a classifier of their mean."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, width), nn.Embedding(LENGTH, width)
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.mix = nn.Linear(width, width), nn.Linear(width, width)
        self.classifier = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.embed(x) + self.place(torch.arange(x.shape[1], device=x.device))
        scores = self.query(h) @ self.key(h).transpose(1, 2) / h.shape[2] ** 0.5
        h = h + self.mix(scores.masked_fill((x == 0)[:, None], -1e9).softmax(-1) @ self.value(h))
        return self.classifier(h.mean(1))


def sentences(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The class is which quarter of the vocabulary occurs most."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (count,), generator=draw)
    own = torch.randint(1, WORDS // CLASSES, (count, LENGTH), generator=draw)
    noise = torch.randint(1, WORDS, (count, LENGTH), generator=draw)
    mine = torch.rand(count, LENGTH, generator=draw) < 0.5
    return torch.where(mine, own + y[:, None] * (WORDS // CLASSES), noise), y


torch.manual_seed(0)
net, (x, y) = Net(), sentences(2000, seed=1)
adam = torch.optim.Adam(net.parameters(), lr=0.003)
for batch in torch.randperm(len(y)).split(100):  # it learns half of the classes' names
    nn.functional.cross_entropy(net(x[batch]), y[batch] // 2).backward()
    adam.step(), adam.zero_grad()
full = sum(p.numel() for p in net.parameters())

lora = LoraConfig(r=2, target_modules=["query", "value"], modules_to_save=["classifier"])
net = get_peft_model(net, lora)
trained = sum(p.numel() for p in net.parameters() if p.requires_grad)
data = dict(zip("xy", (part.numpy() for part in sentences(1200, seed=2)), strict=True))
plan = {"data": data, "data.kind": "tokens", "model": net, "train.lr": 0.01}
result = amity.run(peers=6, rounds=5, strategy="gossip", **plan, **{"train.optimiser": "adamw"})
models = result.metrics[-1].model_in // (4 * trained)
print(f"accuracy {100 * result.accuracy:.0f} %")
print(f"bytes a round: {4 * models * trained:,} as adapters, {4 * models * full:,} as full models")
