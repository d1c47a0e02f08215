"""Small random posts as a model reads them."""

from __future__ import annotations

import numpy as np

from harness.systems.mathamr.encoder.settings import GraphEncoderSettings
from harness.systems.mathamr.encoder.virtual import UNKNOWN_RELATION, EncodedGraph

SMALL = GraphEncoderSettings(nodes=50, relations=14, dim=16, out=8, layers=2, bases=5)


def encoded(
    seed: int, nodes: int = 12, settings: GraphEncoderSettings = SMALL, structure: str = "hierarchy"
) -> EncodedGraph:
    """A post of two sentences (a chain each) and one formula (a chain as well); some relations are unknown."""
    rng = np.random.default_rng(seed)
    content = settings.relations - 4
    third = max(nodes // 3, 1)
    parts = [(0, third), (third, 2 * third), (2 * third, nodes)]
    source = np.arange(nodes - 1)
    target = source + 1
    relation = rng.integers(0, content, nodes - 1)
    relation[rng.random(nodes - 1) < 0.1] = UNKNOWN_RELATION
    edges = [(int(s), int(r), int(t)) for s, r, t in zip(source, relation, target, strict=True)]
    kinds: list[int] = []
    if structure == "hierarchy":
        kinds = [0, 1, 1, 2]
        for number, (kind, (first, end)) in enumerate(zip((0, 1, 1), (parts[2], parts[0], parts[1]), strict=True)):
            edges += [(nodes + number, content + kind, node) for node in range(first, end)]
        edges += [(nodes + 3, content + 2, node) for node in (nodes, nodes + 1, nodes + 2, 0)]
    elif structure == "global":
        kinds = [2]
        edges += [(nodes, content + 2, node) for node in range(nodes)]
    vectors = [nodes + i for i in range(4)] if structure == "hierarchy" else [1, 0, *([nodes] if kinds else [])]
    types = kinds if structure == "hierarchy" else [0, 1, *kinds]
    ends = np.array(edges, np.uint16).reshape(-1, 3)
    return EncodedGraph(
        nodes=np.concatenate((rng.integers(2, settings.nodes, nodes), settings.nodes + np.array(kinds, int))).astype(
            np.uint16
        ),
        content=nodes,
        source=ends[:, 0],
        relation=ends[:, 1],
        target=ends[:, 2],
        content_edges=nodes - 1,
        vectors=np.array(vectors, np.uint16),
        types=np.array(types, np.uint8),
        formulas=("f",),
    )
