"""The coordinator: samples devices, collects their reports, averages them and rolls the next model out.

``core`` is pure: state machines and arithmetic without clock, socket, file or random source. ``ports`` says what the
core's driver needs of the world, ``shell`` is that world, ``driver`` joins them. The agent is never imported.
"""
