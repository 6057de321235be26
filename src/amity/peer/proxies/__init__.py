r"""Proxies φ: what a peer lets others see of its data distribution. A file in this folder is found
by itself.

| name | φ_i | looks at | needs |
|---|---|---|---|
| `grad` | ∇ of the mean local loss by the proxy layer, at (w_i, β_i) of the start | own | a pass |
| `grad_asker` | the same at the asker's model, by the fact `Probe` | own | a model transfer |
| `grad_ref` | the same at a fixed common point, the initial model | own | a pass, once |
| `feature_mean` | mean input of the head over the local data | own | a forward pass |
| `feature_mean_centered` | as above, minus its mean over the cards known | own | a forward pass |
| `delta` | proxy layer after local training minus before | own | nothing |
| `weight` | the proxy layer itself (almost the same for everyone) | own | nothing |
| `head_drift` | head after training minus the initial head; **tells the labels** | own | nothing |
| `twins` | the model after training alone on either half of the data, minus w⁰ | own | training |
| `twins_body` | the same of all but the head | own | training |
| `body_drift` | all but the head minus the initial one | published | nothing |
| `model_drift` | the whole model minus the initial one | published | nothing |
| `update` | the whole model minus that of the round's start | published | nothing |
| `head_update` | the head of `update`; **tells the labels** | published | nothing |

`grad` is line 11 of Algorithm 1; `grad_asker` is its line 6, with the neighbour's own head.
`weight` is for ablations, `head_drift` a strong signal.

Those that look at the peer's *own* models may tell of a part that its method keeps back, such as
the head that `head_drift` compares. Those that look at what is *published* cannot: they are 0 where
nothing is offered, so their cards tell nothing that the models of the same round do not.

`amity reproduce labels` measures how well each finds friends, and what it tells of labels.
"""

from amity.peer.proxies.base import Proxy, Vectors
from amity.peer.proxies.registry import proxies

__all__ = ["Proxy", "Vectors", "proxies"]
