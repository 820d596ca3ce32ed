"""Reads from the TFLite converter's output which operations it refused. Pure; does not import TensorFlow."""

from __future__ import annotations

import re

_INSTEAD = {
    "Relu6Grad": "use ReLU",
    "LeakyReluGrad": "use ReLU",
    "EluGrad": "use ReLU or tanh",
    "SeluGrad": "use ReLU or tanh",
    "SoftplusGrad": "use ReLU or tanh",
    "DepthwiseConv2dNativeBackpropFilter": "use Conv2D",
    "DepthwiseConv2dNativeBackpropInput": "use Conv2D",
    "FusedBatchNormGradV3": "use GroupNormalization or LayerNormalization",
    "TensorListPopBack": "unroll the loop: unroll=True of a recurrent layer",
    "ZerosLike": "unroll the loop: unroll=True of a recurrent layer",
}
_ELSE = "use Dense, Conv2D, pooling, ReLU, tanh, sigmoid, LayerNormalization or GroupNormalization"
_LOCATED = re.compile(r'fused\["(?P<op>\w+):", "(?P<name>[^"@]+)')
_REFUSED = re.compile(r"error: '?tf\.(?P<op>\w+)'? op is neither")


def refused_operations(output: str) -> list[str]:
    """Which operations the converter refused, in which layer, and what to use instead, from its output.

    >>> refused_operations('''loc(fused["EluGrad:", "gradients/m/hidden_1/Elu_grad/EluGrad@f"]): error: 'tf.EluGrad' op
    ... is neither'''.replace(chr(10), " "))
    ['EluGrad in layer hidden: use ReLU or tanh']
    """
    found: dict[str, None] = {}
    for line in output.splitlines():
        refused = _REFUSED.search(line)
        located = _LOCATED.search(line)
        if refused is None or located is None:
            continue
        op = refused["op"]
        layer = _layer(located["name"])
        found[f"{op} in {layer}: {_INSTEAD.get(op, _ELSE)}"] = None
    return list(found)


def _layer(name: str) -> str:
    """The layer in the name of an operation: scopes are ``gradients``, the model, the layer, the operation."""
    scopes = [scope for scope in name.split("/") if not scope.startswith("gradient")]
    # Keras numbers a layer's second scope: the model was called before.
    return f"layer {scopes[1].removesuffix('_1')}" if len(scopes) > 2 else f"operation {name}"
