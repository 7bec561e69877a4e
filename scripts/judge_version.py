"""Whether the sources of judge and kit are those of the declared version, and the decision when they are not.

    python -m scripts.judge_version              says it; status 1 where a decision is missing
    python -m scripts.judge_version --confirm    the change gives no other verdict of any workspace
    python -m scripts.judge_version --raise      it may: all series of results begin anew

A test fails until one of the two was said.
"""

from __future__ import annotations

import argparse
import sys

from bench.authoring import declare, declared, sources_digest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    decision = parser.add_mutually_exclusive_group()
    decision.add_argument("--confirm", action="store_true", help="verdicts do not change: keep the version")
    decision.add_argument("--raise", action="store_true", dest="raised", help="verdicts may change: the next version")
    said = parser.parse_args()
    if said.confirm or said.raised:
        version, sources = declare(other_verdicts=said.raised)
        print(f"judge {version}, sources {sources[7:19]}")
        return 0
    version, sources = declared()
    found = sources_digest()
    if found == sources:
        print(f"judge {version}: the sources are those that were decided upon")
        return 0
    print(f"judge {version}: the sources are {found[7:19]}, decided upon are {sources[7:19]}; say --confirm or --raise")
    return 1


if __name__ == "__main__":
    sys.exit(main())
