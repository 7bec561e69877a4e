"""The results branch: records in git, written once and never rewritten.

`ResultsBranch` reads and writes it, `Bundle` is the records of one run, `publish` stores one; `collect_bundle` takes
the artifacts of many jobs as untrusted data. git itself is in `git`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.store.append import RetriesExhausted as RetriesExhausted
    from bench.store.append import RetryPolicy as RetryPolicy
    from bench.store.artifacts import Caps as Caps
    from bench.store.artifacts import Refusal as Refusal
    from bench.store.artifacts import find_artifacts as find_artifacts
    from bench.store.audit import Audit as Audit
    from bench.store.branch import Committed as Committed
    from bench.store.branch import ResultsBranch as ResultsBranch
    from bench.store.branch import Via as Via
    from bench.store.branch import publish as publish
    from bench.store.bundle import Bundle as Bundle
    from bench.store.collect import Collected as Collected
    from bench.store.collect import Taken as Taken
    from bench.store.collect import collect_bundle as collect_bundle
    from bench.store.collect import read_plan_checks as read_plan_checks
    from bench.store.decisions import Decision as Decision
    from bench.store.decisions import Kind as Kind
    from bench.store.git import Git as Git
    from bench.store.git import GitError as GitError
    from bench.store.git import init_bare as init_bare
    from bench.store.git import is_branch_name as is_branch_name
    from bench.store.git.backend import git_folder as git_folder
    from bench.store.git.backend import is_remote as is_remote
    from bench.store.git.backend import without_secrets as without_secrets
    from bench.store.pending import discard_bundle as discard_bundle
    from bench.store.pending import keep_bundle as keep_bundle
    from bench.store.pending import load_bundle as load_bundle
    from bench.store.reader import Copy as Copy
    from bench.store.reader import open_copy as open_copy
    from bench.store.trace_storage import keep_traces as keep_traces
    from bench.store.trace_storage import open_stored_traces as open_stored_traces
    from bench.store.trace_storage import open_trace_storage as open_trace_storage
    from bench.store.traces import unpack as unpack
else:
    __getattr__ = lazy_face(
        __name__,
        {
            "append": "RetriesExhausted RetryPolicy",
            "artifacts": "Caps Refusal find_artifacts",
            "audit": "Audit",
            "branch": "Committed ResultsBranch Via publish",
            "bundle": "Bundle",
            "collect": "Collected Taken collect_bundle read_plan_checks",
            "decisions": "Decision Kind",
            "git": "Git GitError init_bare is_branch_name",
            "git.backend": "git_folder is_remote without_secrets",
            "pending": "discard_bundle keep_bundle load_bundle",
            "reader": "Copy open_copy",
            "trace_storage": "keep_traces open_stored_traces open_trace_storage",
            "traces": "unpack",
        },
    )
