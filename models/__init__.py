"""The keyboard model: vocabulary, batches, configurations, manifest, LSTM, export, evaluation, trigram, corpora.

``vocabulary``, ``batches``, ``configurations``, ``manifest``, ``initial``, ``ngram`` and ``corpora`` are pure (standard
library, numpy, msgspec) and are what the agent imports. ``lstm``, ``program``, ``export``, ``training`` and
``evaluation`` need TensorFlow and belong to the coordinator.
"""
