"""The demo keyboard: a page that the agent serves on the device it runs on.

``suggestions`` turns typed text into three words, ``app`` is the page and its small JSON interface, ``server`` puts it
on a port. What is typed goes into the device's example store and nowhere else: not to a log, a URL or another host.
This is the only part of the agent that may import Flask.
"""
