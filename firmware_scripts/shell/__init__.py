"""Adapters for ``lsblk`` and ``/proc``, disks, compressed images and the terminal. They translate but do not decide."""
