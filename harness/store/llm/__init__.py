"""Client for all language-model calls: cached answers, rate limits, budget, dry runs."""

from harness.store.llm.client import Client
from harness.store.llm.endpoint import Answer, Ask, Endpoint, Message, Spent, load_endpoint
from harness.store.llm.estimate import CallEstimate, sample

__all__ = ["Answer", "Ask", "CallEstimate", "Client", "Endpoint", "Message", "Spent", "load_endpoint", "sample"]
