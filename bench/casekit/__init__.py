"""What case authors import beside `bench.judge`: painters and files for data.py, `services`, measures and marks.

`language_model` and `model_hub` are whole services; `assets` builds what several cases share.

Its modules are its face, and docs/casekit.md has all their names. They run in processes of their own, with the case's
interpreter; standard library and NumPy alone, and `data` and `services` take NumPy only where a value is an array.
"""
