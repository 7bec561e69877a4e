"""The engine `sky`.

A cluster of one machine for each shard, made by an API server of SkyPilot in any of its clouds. `SkyEngine` decides,
`SkyServer` speaks the server's protocol, `task` says what a cluster is.
"""
