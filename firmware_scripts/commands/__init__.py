"""The commands of ``nightjar-firmware``, one module each."""
