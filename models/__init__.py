"""The keyboard model: vocabulary, batches, configurations, manifest, LSTM, export, evaluation, trigram, corpora.

``vocabulary``, ``batches``, ``configurations``, ``manifest``, ``initial``, ``ngram`` and ``corpora`` are pure (standard
library, numpy, msgspec); the agent imports only these. ``lstm``, ``program``, ``export``, ``training`` and
``evaluation`` need TensorFlow and run on the coordinator.
"""
