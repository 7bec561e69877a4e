"""The engine `batch`.

A job for each shard. `BatchEngine` makes jobs that are runners of GitHub, `ShardBatchEngine` jobs that run a shard by
themselves and leave its bundle in a `ShardPlace`; `setup` looks at the queue before anything is asked of it.
"""
