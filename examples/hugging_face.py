"""A model of the `transformers` library: BERT from a config, nothing is downloaded.

Needs `pip install transformers`. `from_pretrained` instead of `from_config` would start from
pretrained weights; `timm.create_model(...)` is used in the same way. Amity wants a module
that gives one tensor, so a small one takes `logits` out of what the library's returns.
"""

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, BertConfig

import amity

WORDS, LENGTH, CLASSES = 40, 12, 3


class Bert(nn.Module):
    """Ids of tokens in (0 is padding), a number for each class out."""

    def __init__(self) -> None:
        super().__init__()
        config = BertConfig(
            vocab_size=WORDS,
            max_position_embeddings=LENGTH,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=CLASSES,
        )
        self.bert = AutoModelForSequenceClassification.from_config(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=x, attention_mask=(x != 0).long()).logits


draw = torch.Generator().manual_seed(1)
y = torch.randint(CLASSES, (600,), generator=draw)
x = torch.randint(1, WORDS, (600, LENGTH), generator=draw)
x[:, ::3] = 1 + y[:, None]  # a third of the words tells the class
torch.manual_seed(0)
net = Bert()
result = amity.run(
    data={"x": x.numpy(), "y": y.numpy()},
    model=net,
    peers=3,
    rounds=3,
    strategy="gossip",
    sinks=[],
    **{
        "data.kind": "tokens",
        "model.freeze": "bert.bert.embeddings.*",
        "model.head": "bert.classifier",
    },
    **{"train.optimiser": "adamw", "train.lr": 0.005, "train.epochs": 2, "train.batch": 20},
)
print(f"accuracy {100 * result.accuracy:.0f} %")
