"""Masked sums (`net.masked=true`): a receiver learns the weighted sum of the models of those whom
it chose, its crowd, and no model alone.

Member j of the crowd C of receiver i sends, modulo 2^32 and in fixed point,

    y_j = ϖ_ij ŵ_j + Σ_{k ∈ C, k > j} m_jk − Σ_{k ∈ C, k < j} m_jk,

where the mask m_jk is a stream of ChaCha20 that only j and k can compute: its key comes from their
X25519 keys and from who asks, for which crowd, under which number. The masks cancel in Σ_j y_j, and
in no sum that lacks a member (Bonawitz et al. 2017, without a server).

Three rules keep a sum from being taken apart:

* a crowd has `net.crowd` members at least, all on the roster of each of them;
* a model is part of one sum for each receiver, ever: who asks again for another crowd is refused;
* so who drops out costs the receiver this round's sum: it keeps its own model. It asks nobody anew,
  and leaves who failed out of its crowds for twice as many rounds each time.
"""
