"""The results branch: records in git, written once and never rewritten.

`ResultsBranch` reads and writes it, `Bundle` is the records of one run, `publish` stores one; `collect_bundle` takes
the artifacts of many jobs as untrusted data. git itself is in `git`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.store.append import Appended, RetriesExhausted, RetryPolicy
    from bench.store.artifacts import LONGEST_WHY, Artifact, Caps, Refusal, find_artifacts, unpack_artifact
    from bench.store.audit import Audit
    from bench.store.branch import ResultsBranch, Via, publish
    from bench.store.bundle import Bundle, StoredFile, stored_files
    from bench.store.collect import Collected, PlanCheck, collect_bundle, read_plan_checks
    from bench.store.decisions import Decision
    from bench.store.git import Git, GitError, init_bare, is_branch_name
    from bench.store.git.backend import git_folder, is_remote, without_secrets
    from bench.store.merge import Taken, measurement_of
    from bench.store.pending import digests_of_pending, discard_pending, load_pending, save_pending
    from bench.store.reader import Copy, is_earlier, open_copy, require_branch
    from bench.store.sources import Sources
    from bench.store.trace_storage import (
        TraceReader,
        open_stored_traces,
        open_trace_reader,
        open_trace_storage,
        store_traces,
    )
    from bench.store.traces import unpack
else:
    __getattr__ = lazy_face(__name__)
