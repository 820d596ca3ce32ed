"""The process that suggests words: it holds model, lexicons and what is being typed, and has no network.

The agent starts it (:mod:`nightjar.edge_agent.shell.suggester`), hands it its listening sockets, and tells it which
model to use. It serves the keyboard's page, and desktop programs through a Unix socket (docs/suggester.md).
"""
