"""``python -m nightjar.simulation``: the demo, the laboratory and rounds under a virtual clock."""

from nightjar.commands import simulation

if __name__ == "__main__":
    simulation()
