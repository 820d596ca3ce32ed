"""The commands of ``nightjar-coordinator`` other than ``serve`` and ``broker``: inspection, changes and maintenance."""
