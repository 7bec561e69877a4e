"""The static site: pages and data files made from records and case descriptions, and from nothing else.

`build_site` writes it; templates and styles lie in site/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.base.faces import lazy_face

if TYPE_CHECKING:
    from bench.pages.asked import asked_of
    from bench.pages.board import BuiltFrom, CaseInfo
    from bench.pages.build import SiteOptions, Written, build_site, write_site
    from bench.pages.engine import start_engine
    from bench.pages.example import ABOUT, TITLE, example_year
    from bench.pages.made import notes_if_unchanged, remember
    from bench.pages.plot_files import write_plots
    from bench.pages.traces import MOST_BYTES, BranchTraces, FolderTraces, TraceSource
else:
    __getattr__ = lazy_face(__name__)
