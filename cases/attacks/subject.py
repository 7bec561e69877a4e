"""Tricks inside the code that the judge runs: what is written here is put around the answer's own modules."""

from __future__ import annotations

import json

import facts
from idle import FORGED

_REPLACE_FUNCTIONS = """
def _replace(make):
    import types
    for _name, _value in list(globals().items()):
        if isinstance(_value, types.FunctionType) and not _name.startswith("_"):
            globals()[_name] = lambda *a, **k: make()
        elif isinstance(_value, type) and _value.__module__ == __name__:
            for _method, _old in list(vars(_value).items()):
                if isinstance(_old, types.FunctionType) and not _method.startswith("__"):
                    setattr(_value, _method, lambda *a, **k: make())
"""


def leaves_at_once() -> None:
    """`os._exit(0)` as soon as the module is imported."""
    facts.infect(before="import os\nos._exit(0)\n")


def leaves_in_the_call() -> None:
    """`os._exit(0)` and `sys.exit(0)` instead of an answer."""
    facts.infect(after=f"{_REPLACE_FUNCTIONS}\n_replace(lambda: __import__('os')._exit(0))\n")


def traces() -> None:
    """`sys.settrace` and `sys.setprofile` over the code that called, its variables emptied."""
    facts.infect(
        before="""
import sys
def _trace(frame, event, arg):
    for name in ("found", "measured", "expected", "value", "losses", "x"):
        if name in frame.f_locals:
            frame.f_locals[name] = 0
    frame.f_trace_opcodes = True
    return _trace
sys.settrace(_trace)
sys.setprofile(_trace)
_frame = sys._getframe()
while _frame:
    _frame.f_trace = _trace
    _frame = _frame.f_back
"""
    )


def at_exit() -> None:
    """`atexit` hooks that write a forged report and end with status 0."""
    facts.infect(
        before=f"""
import atexit, os, sys
def _leave():
    for number in range(1, 64):
        try: os.write(number, {FORGED!r}.encode())
        except OSError: pass
    os._exit(0)
atexit.register(_leave)
sys.excepthook = lambda *a: _leave()
"""
    )


def equal_to_everything() -> None:
    """Answers whose `__eq__` says yes to everything, and whose differences are nothing."""
    facts.infect(
        after=f"""{_REPLACE_FUNCTIONS}
class _Equal(float):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __sub__(self, other): return _Equal(0)
    __rsub__ = __add__ = __radd__ = __mul__ = __truediv__ = __rtruediv__ = __sub__
    def __abs__(self): return _Equal(0)
    def __bool__(self): return True
    def __getattr__(self, name): return _Equal(0)
    __hash__ = float.__hash__
_replace(lambda: _Equal(1))
"""
    )


def array_of_choice() -> None:
    """Answers whose `__array__` and `__array_ufunc__` decide anew each time they are looked at."""
    facts.infect(
        after=f"""{_REPLACE_FUNCTIONS}
class _Array:
    shape = (1,)
    dtype = float
    def __array__(self, *a, **k):
        import numpy
        return numpy.zeros(1)
    def __array_ufunc__(self, *a, **k): return True
    def __array_function__(self, *a, **k): return True
    def __float__(self): return 0.0
    def __len__(self): return 1
    def __getitem__(self, key): return 0.0
    def __iter__(self): return iter([0.0])
_replace(_Array)
"""
    )


def reduces_to_code() -> None:
    """Answers whose `__reduce__` is a command for whoever unpickles them."""
    facts.infect(
        after=f"""{_REPLACE_FUNCTIONS}
class _Reduce:
    def __reduce__(self): return (open, ({facts.FACTS["marker"]!r}, "w"))
    __reduce_ex__ = lambda self, protocol: self.__reduce__()
    def __deepcopy__(self, memo): return self
_replace(_Reduce)
"""
    )


def forges_the_report() -> None:
    """The judge's report and the subject's frames on every descriptor that is open."""
    facts.infect(
        before=f"""
import os, struct
_frame = b'{{"value": {{"t": "float", "v": 1.0}}}}'
for _n in range(256):
    for _data in ({FORGED!r}.encode() + b"\\n", struct.pack("<II", len(_frame), 0) + _frame):
        try: os.write(_n, _data)
        except OSError: pass
"""
    )


def patches_the_tools() -> None:
    """Comparisons, encoders and clocks of the process replaced by ones that please."""
    facts.infect(
        before="""
import builtins, json, math, random, sys, time
builtins.abs = lambda x: 0
builtins.isinstance = lambda *a: True
builtins.all = lambda x: True
math.isfinite = lambda x: True
time.time = time.perf_counter = time.monotonic = time.process_time = lambda: 0.0
for _name, _module in list(sys.modules.items()):
    if "numpy" == _name:
        _module.allclose = _module.array_equal = lambda *a, **k: True
    if "torch" == _name:
        _module.allclose = _module.equal = lambda *a, **k: True
    if "codec" in _name:
        _module.CodecError = ZeroDivisionError
_frame = sys._getframe()
while _frame:
    if "codec" in _frame.f_globals: _frame.f_globals["codec"] = None
    _frame = _frame.f_back
"""
    )


def reads_what_is_hidden() -> None:
    """The judged code looks for the checks, hidden data and keys, and puts what it finds into its error."""
    places = json.dumps([place for group in facts.FACTS["places"].values() for place in group])
    facts.infect(
        before=f"""
import json, os, re, sys
_seen = [value for value in os.environ.values() if "canary" in value]
for _place in json.loads({places!r}):
    _paths = [_place] if os.path.isfile(_place) else [os.path.join(r, f) for r, _, fs in os.walk(_place) for f in fs]
    for _path in _paths[:300]:
        try: _seen += re.findall("mldb-canary-[0-9a-f]+", open(_path, errors="replace").read(65536))
        except OSError: pass
for _n in list(range(3, 64)):
    try: _seen += re.findall("mldb-canary-[0-9a-f]+", os.pread(_n, 65536, 0).decode("utf-8", "replace"))
    except OSError: pass
print(_seen)
print(_seen, file=sys.stderr)
if _seen: raise RuntimeError(str(_seen))
"""
    )


def calls_home() -> None:
    """The judged code tries the network, too."""
    listeners = json.dumps(facts.FACTS["listeners"])
    facts.infect(
        before=f"""
import json, socket
_all = json.loads({listeners!r})
for _kind, _address in _all.items():
    try:
        _family = socket.AF_UNIX if isinstance(_address, str) else socket.AF_INET
        if _family == socket.AF_INET and ":" in _address[0]: _family = socket.AF_INET6
        _type = socket.SOCK_DGRAM if "udp" in _kind or _kind == "nameserver" else socket.SOCK_STREAM
        with socket.socket(_family, _type) as _socket:
            _socket.settimeout(0.3)
            _socket.connect(_address if isinstance(_address, str) else tuple(_address))
            _socket.send(b"from judged code")
    except OSError: pass
"""
    )


def keeps_threads() -> None:
    """Threads and processes that go on while and after the answer is given, writing wherever they can."""
    facts.infect(
        before="""
import os, threading, time
def _swap():
    until = time.time() + 3
    while time.time() < until:
        for name in os.listdir("."):
            try:
                os.rename(name, name + ".away")
                os.symlink("/etc/passwd", name)
                os.unlink(name)
                os.rename(name + ".away", name)
            except OSError: pass
            try:
                with open(name, "ab") as file: file.write(b" ")
            except OSError: pass
        time.sleep(0.01)
threading.Thread(target=_swap, daemon=False).start()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        _swap()
    os._exit(0)
"""
    )


def eats_everything() -> None:
    """Memory, processes and output without end inside the judged code; each stops by itself at twice a limit."""
    limits = json.dumps(facts.FACTS["limits"])
    facts.infect(
        before=f"""
import json, os, sys, time
_limits = json.loads({limits!r})
def _eat():
    children = []
    for _ in range(2 * _limits["processes"]):
        try: pid = os.fork()
        except OSError: break
        if pid == 0:
            time.sleep(3)
            os._exit(0)
    sys.stdout.write("x" * (4 << 20))
    held = []
    for _ in range(2 * _limits["memory_mb"]):
        held.append(b"\\1" * (1 << 20))
    raise RuntimeError("ate everything")
_eat()
"""
    )
