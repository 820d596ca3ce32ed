"""Decisions about disks, images and confirmations, from values alone: no file, process or clock."""
