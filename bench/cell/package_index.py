"""Where builds of agents' environments get packages: what the owner of this machine has configured for pip or uv.

Only that is handed on, and no password: see `PackageSources`.
"""

from __future__ import annotations

import base64
import configparser
import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from bench.base.errors import UserError
from bench.base.files import walk_files
from bench.cell.egress import Origin
from bench.sandbox import Mount, Sandbox

_GUEST = "/build/sources"
_PORTS = {"http": 80, "https": 443}
# Handed on as they are; every other option of pip stays on this side.
_PLAIN = (
    *("no-index", "pre", "prefer-binary", "only-binary", "no-binary", "require-hashes", "retries", "timeout"),
    *("default-timeout", "trusted-host", "use-pep517", "no-build-isolation", "ignore-requires-python"),
)
_FILES = ("constraint", "build-constraint")
_LINKS = ("index-url", "extra-index-url", "find-links")
_UV = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "constraint": ("UV_CONSTRAINT",),
    "no-index": ("UV_NO_INDEX",),
}
# pip's own index, and where its files lie: where nothing else is configured, the owner's choice as much as any, and on
# some machines the name of a mirror nearby.
_PYPI = (Origin("https", "pypi.org", 443), Origin("https", "files.pythonhosted.org", 443))
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_LINK = re.compile(rb"""href\s*=\s*["']([^"'#?]+)""", re.IGNORECASE)
_MAX_PAGES = 50
_PAGE_BYTES = 1 << 18


@dataclass
class PackageSources:
    """What a build is given to reach the configured indexes.

    Files of this machine are mounted, read-only. An index at another address is reached through the proxy, which adds
    its password: in the sandbox no address holds one.
    """

    sandbox: Sandbox
    variables: dict[str, str] = field(default_factory=dict)
    mounts: list[Mount] = field(default_factory=list)
    origins: dict[Origin, str] = field(default_factory=dict)
    """The configured indexes, with the value of the header `Authorization` for each."""
    npm_registry: str = "https://registry.npmjs.org/"
    """The address of npm's registry."""

    def place(self, path: Path, name: str = "") -> str:
        """The path in the guest of a file or folder of this machine that is mounted there."""
        mount = Mount(path, f"{_GUEST}/{name or f'{len(self.mounts)}/{path.name}'}")
        self.mounts.append(mount)
        return self.sandbox.guest_path(mount)


def package_sources(sandbox: Sandbox, env: Mapping[str, str] = os.environ, *, npm: bool = False) -> PackageSources:
    """What the settings of this machine offer; raises `UserError` for an index that cannot be used without a secret."""
    settings, found = read_settings(env), PackageSources(sandbox)
    for name in _PLAIN:
        if settings.get(name):
            found.variables[_variable(name)] = " ".join(settings[name])
    for name in _LINKS:
        words = [_link(word, name, found) for word in settings.get(name, [])]
        if words:
            found.variables[_variable(name)] = " ".join(words)
    if "no-index" not in settings and "index-url" not in settings:
        found.origins.setdefault(_PYPI[0], "")
    if _PYPI[0] in found.origins:
        found.origins.setdefault(_PYPI[1], "")
    for name in _FILES:
        words = [_constraint(word, name, found) for word in settings.get(name, [])]
        if words:
            found.variables[_variable(name)] = " ".join(words)
    if npm:
        found.npm_registry = _remote(urlsplit(_npm_registry(env) or found.npm_registry), "registry of npm", found)
    bundle = next(iter(settings.get("cert", [])), "") or next(filter(None, map(env.get, _BUNDLES)), "")
    if bundle and Path(bundle).exists():
        guest = found.place(Path(bundle).resolve())
        names = ("PIP_CERT", *_BUNDLES, "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO")
        found.variables |= dict.fromkeys(names, guest)
    return found


def _npm_registry(env: Mapping[str, str]) -> str:
    """npm's registry by its variable or its files; empty where nothing is configured. No token is read."""
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        if env.get(name, "").strip():
            return env[name].strip()
    home = Path(env.get("HOME") or Path.home())
    for path in (Path(env.get("NPM_CONFIG_USERCONFIG") or home / ".npmrc"), Path("/etc/npmrc")):
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text(encoding="utf-8").splitlines():
                if match := re.fullmatch(r"\s*registry\s*=\s*[\"']?(https?://[^\s\"']+)[\"']?\s*", line):
                    return match[1]
    return ""


def read_settings(env: Mapping[str, str]) -> dict[str, list[str]]:
    """pip's options with their words, from its files and then from variables; uv's where pip has none."""
    found: dict[str, list[str]] = {}
    for path in _files(env):
        found |= _read(path)
    for name, value in env.items():
        if name.startswith("PIP_") and value.strip():
            found[_option(name.removeprefix("PIP_"))] = value.split()
    for name, variables in _UV.items():
        words = [word for variable in variables for word in re.split(r"[\s,]+", env.get(variable, "")) if word]
        if words and name not in found:
            # uv lets an index have a name.
            found[name] = [word.partition("=")[2] if re.match(r"[\w-]+=\w+:", word) else word for word in words]
    return found


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    """pip's configuration files, each above those before it."""
    named = env.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    for folder in reversed(env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")):
        yield Path(folder, "pip", "pip.conf")
    yield Path("/etc/pip.conf")
    home = Path(env.get("HOME") or Path.home())
    yield home / ".pip" / "pip.conf"
    yield Path(env.get("XDG_CONFIG_HOME") or home / ".config", "pip", "pip.conf")
    if named:
        yield Path(named)


def _read(path: Path) -> dict[str, list[str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, configparser.Error) as error:
        fault = f"cannot be read: {str(error).splitlines()[0]}"
        raise UserError(fault, where=path, remedy="correct it; `pip config debug` reads it, too") from None
    found: dict[str, list[str]] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            found |= {_option(name): value.split() for name, value in parser.items(section) if value.strip()}
    return found


def _option(name: str) -> str:
    return name.lower().replace("_", "-").removeprefix("--")


def _variable(option: str) -> str:
    return f"PIP_{option.upper().replace('-', '_')}"


def _link(word: str, option: str, found: PackageSources) -> str:
    """An index or a folder of packages as the guest finds it."""
    parts = urlsplit(word)
    if parts.scheme in _PORTS:
        return _remote(parts, option, found)
    if parts.scheme not in ("", "file"):
        raise UserError(
            f"{parts.scheme}: addresses are not supported",
            where=f"pip's {option}" if "npm" not in option else option,
            remedy="use https",
        )
    path = Path(unquote(parts.path) if parts.scheme else word).expanduser()
    if not path.exists():
        # pip passes over a folder that is not there, too.
        return word
    path = path.resolve()
    number = f"{len(found.mounts)}"
    guest = found.place(path, f"{number}/{path.name}")
    for sibling in sorted(_siblings(path)) if option != "find-links" else []:
        found.place(sibling, f"{number}/{sibling.name}")
    return f"file://{guest}" if parts.scheme else guest


def _remote(parts: SplitResult, option: str, found: PackageSources) -> str:
    scheme, host = parts.scheme, (parts.hostname or "").rstrip(".")
    origin = Origin("https" if scheme == "https" else "http", host, parts.port or _PORTS[scheme])
    header = ""
    if parts.username is not None:
        if scheme == "https":
            raise UserError(
                f"the index at {host} wants a password over https, which builds of agents would be able to read",
                where=f"pip's {option}" if "npm" not in option else option,
                remedy="name an index without a password, such as a mirror on this machine that adds it "
                "(http://127.0.0.1:3141/simple); over http the password is added outside the sandbox",
            )
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        header = f"Basic {base64.b64encode(login.encode()).decode()}"
    found.origins[origin] = header or found.origins.get(origin, "")
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _constraint(word: str, option: str, found: PackageSources) -> str:
    parts = urlsplit(word)
    if parts.scheme in _PORTS:
        return _remote(parts, option, found)
    path = Path(unquote(parts.path) if parts.scheme == "file" else word).expanduser()
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", where=path, remedy=f"correct pip's {option}") from None
    if re.search(r"://[^/\s]*@", text):
        fault = "holds an address with a password, which builds of agents would be able to read"
        raise UserError(fault, where=path, remedy="remove the address")
    return found.place(path.resolve())


def _siblings(index: Path) -> set[Path]:
    """Folders beside an index that its pages lead to: the files of an index often lie next to it."""
    found = set()
    for count, (name, entry) in enumerate(walk_files(index)):
        if count >= _MAX_PAGES:
            break
        if not name.endswith((".html", ".htm")) or not entry.is_file(follow_symlinks=False):
            continue
        with open(entry.path, "rb") as file:
            links = _LINK.findall(file.read(_PAGE_BYTES))
        for link in links:
            target = os.path.normpath(os.path.join(os.path.dirname(name), unquote(os.fsdecode(link))))
            up, _, rest = target.partition("/")
            first = rest.partition("/")[0]
            if up == ".." and first not in ("", "..", index.name) and (index.parent / first).is_dir():
                found.add(index.parent / first)
    return found
