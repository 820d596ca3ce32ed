"""Adapters: ``lsblk`` and ``/proc``, disks, compressed images, the terminal. They translate and decide nothing."""
