"""``python -m nightjar.models``: makes, converts and measures keyboard models."""

from nightjar.commands import models

if __name__ == "__main__":
    models()
