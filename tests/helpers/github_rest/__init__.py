"""GitHub's REST API over real HTTP, kept in memory beside a real bare repository: what stands in for GitHub itself.

Paths, fields, status codes and paging follow https://docs.github.com/en/rest as of 2026. One repository a server. What
is not served answers 404, so that a program that asks for more than its documentation names is seen.
"""

from tests.helpers.github_rest.server import TOKEN, Fault, Service, github_rest

__all__ = ["TOKEN", "Fault", "Service", "github_rest"]
