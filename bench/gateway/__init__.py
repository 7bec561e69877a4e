"""The local model proxy of one cell: meters, prices, limits and records every model call.

`server` is the way in. `protocol` reads requests, `meter` counts and reserves, `prices` knows what tokens cost,
`ledger` writes calls.jsonl, and `backend`, `replay` and `live` answer.
"""
