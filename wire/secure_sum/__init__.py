"""Secure sums: what both sides of the protocol agree on (docs/adr/0037), and how a round asks for one (0038).

The coordinator learns the sum of the updates of at least ``minimum`` devices, and nothing else about any of them, even
together with ``threshold - 1`` of the devices. Devices may drop out at any step. Each adds two kinds of random numbers
to its update: *pair masks*, one with each neighbour in a graph, which cancel in the sum; and a *self mask*, so that a
report that comes late is not laid bare when the pair masks of a dropped device are removed. The seeds of both are
shared among the neighbours beforehand, and one of the two is given back for each device, never both.

============  ======================================  ==========================================================
step          each device sends                       the coordinator answers
============  ======================================  ==========================================================
keys          two public keys, signed                 the roster: who takes part, the neighbours' keys
shares        sealed shares of both seeds             who has shared; the shares meant for this device
report        the masked update; signed: who shared   who has reported; the neighbours' signatures
confirmation  signed: who shared, who has reported    signatures of a quorum for one and the same list
disclosure    a share of one seed of each neighbour   (the sum)
============  ======================================  ==========================================================

Why it holds, for any ``threshold - 1`` devices and a coordinator that lies, of honest devices that join a session once:

- *One list.* Two quorums share at least ``threshold`` members (:meth:`Terms.quorum`), so an honest one, and it signs
  one list. Honest devices that disclose agree on the roster, on who shared and on who reported.
- *One seed.* So for each device, honest neighbours all give shares of the same seed; colluders hold too few of the
  other.
- *All pair masks.* A self mask is removed only if an honest neighbour saw that device's signature on the same list of
  sharers, so the device had added its pair masks with all of them.
- *One sum.* The graph stays connected without ``degree - 1`` devices, which is at most the colluders and those that
  may drop out (:meth:`Terms.degree`). Pair masks between honest devices that reported therefore cancel only in the
  sum of all of them.

Enrolled keys are taken from the roster: a coordinator that invents devices, or certifies keys of its own as theirs, is
not covered, as it is the authority that enrols them.

Sources: Bonawitz et al. 2017, "Practical Secure Aggregation for Privacy-Preserving Machine Learning", figure 4; Bell et
al. 2020, "Secure Single-Server Aggregation with (Poly)Logarithmic Overhead", for the graph and the second signature.
"""
