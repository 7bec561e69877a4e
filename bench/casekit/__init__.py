"""What case authors import beside `bench.judge`: `data` for data.py, `services` for services.py.

`language_model` and `model_hub` are whole services; `assets` builds what several cases share.

Its modules are its face. Both run in processes of their own, with the case's interpreter; standard library, and NumPy
where a value is an array.
"""
