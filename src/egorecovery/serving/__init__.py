"""Serving a policy to robots over the openpi WebSocket protocol.

Nothing is imported here: the robot's side (`wire`, `metadata`, `client`) runs where only numpy, msgpack and websockets
are installed, the server's side (`server` and what it uses) where torch is.
"""
