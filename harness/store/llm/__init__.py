"""Client for all language-model calls: cached answers, rate limits, budget, dry runs.

Its names are imported when they are asked for, because what is missing to call a model is asked without a client.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.store.llm.client import Client
    from harness.store.llm.endpoint import Answer, Ask, Endpoint, Message, Spent, load_endpoint
    from harness.store.llm.estimate import CallEstimate, sample

__all__ = ["Answer", "Ask", "CallEstimate", "Client", "Endpoint", "Message", "Spent", "load_endpoint", "sample"]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    import harness.store.llm.client
    import harness.store.llm.estimate

    names = {**vars(harness.store.llm.endpoint), **vars(harness.store.llm.estimate), **vars(harness.store.llm.client)}
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return names[name]
