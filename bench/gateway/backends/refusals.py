"""What a provider says of the key or the account, by the status of a wrong request or of another one."""

from __future__ import annotations

_NO_MONEY = (
    "insufficient_quota", "credit balance is too low", "specified api usage limits", "billing hard limit",
    "billing_hard_limit",
)  # fmt: skip
"""What providers say when waiting does not help; some of them by the status of a request that is wrong."""
_NO_ACCOUNT = (
    "api key not valid", "api_key_invalid", "api key expired", "organization has been disabled",
    "location is not supported", "not available in your country",
)  # fmt: skip
"""What they say by that status, whatever is asked, of a key or an account that they do not serve."""
_USED_UP = (402, 429)
USED_UP = "upstream_used_up"
"""Code of an error that agents can bring about: whether others have is seen by their shares."""
RATE_USED_UP = "upstream_rate_used_up"
"""The same, where no money is spoken of: it may be requests that were counted, those that cost nothing among them."""


def is_used_up(status: int, said: str) -> bool:
    """Whether a refusal is about how much the account may use."""
    return status in _USED_UP or is_out_of_money(said)


def is_out_of_money(said: str) -> bool:
    """Whether a provider's refusal says that its account is empty."""
    return any(words in said.lower() for words in _NO_MONEY)


def is_of_account(said: str) -> bool:
    """Whether a refusal is about the key or the account, and not about what was asked."""
    return is_out_of_money(said) or any(words in said.lower() for words in _NO_ACCOUNT)
