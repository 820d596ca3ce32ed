"""Federated learning for keyboards: everything is imported as ``nightjar.wire``, ``nightjar.coordinator`` and so on.

The packages are folders at the top of the repository; here they are relative links, which an installed package holds as
real folders. So nothing but this name reaches an environment, and each module has one name.
"""
