"""Serving a policy to robots over the openpi WebSocket protocol.

This module imports nothing. The robot's side (`wire`, `metadata`, `client`) needs only numpy, msgpack and websockets.
The server's side (`server` and its imports) needs torch.
"""
