"""The demo keyboard: a web page that the agent serves on its own device.

``suggestions`` turns typed text into three words, ``app`` is the page with its small JSON API, and ``server`` serves it
on a port. Typed text goes into the device's example store and nowhere else: not into a log, a URL or to another host.
This is the only part of the agent that may import Flask.
"""
