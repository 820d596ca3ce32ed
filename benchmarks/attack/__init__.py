"""Attacks on the federation: what a report or two versions give away, and what bad devices do to the model.

- ``scene``: the text, the warm start and the device of all attacks;
- ``defences``: what stands between a device and an attacker, by name;
- ``recover_words``, ``canary``: attacks on confidentiality; that on membership is in ``measure_leaks``;
- ``malicious``: attacks on the model;
- ``measure_leaks``, ``measure_harm``: run them through the product's own training, codec and averaging;
- ``measure_programs``, ``measure_orders``: attacks by a lying coordinator, and what checks leave of them, as ``gains``.
"""

import nightjar.host.one_thread  # noqa: F401 - before numpy, as in an agent: threads that spin cost four times the work
