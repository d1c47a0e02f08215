from harness.collections.collection import Collection
from harness.collections.corpora import load_corpus
from harness.collections.corpus import Corpus, Document
from harness.collections.load import load_collection
from harness.data.topics import Formula, Topic, Topics
from harness.data.trec import Qrels, Run, read_qrels, read_run
from harness.errors import HarnessError
from harness.experiments.evaluate import Evaluation, compare, evaluate
from harness.experiments.produce import produce
from harness.experiments.task import Task, task
from harness.io.config import names
from harness.render.write import Report
from harness.reports.comparison import report
from harness.scoring.comparison import Comparison
from harness.scoring.protocol import Protocol, load_protocol
from harness.scoring.rankings import Measure
from harness.scoring.scores import Scores
from harness.systems.base import Request, System
from harness.systems.build import load_system
from harness.version import __version__

__all__ = [
    "Collection",
    "Comparison",
    "Corpus",
    "Document",
    "Evaluation",
    "Formula",
    "HarnessError",
    "Measure",
    "Protocol",
    "Qrels",
    "Report",
    "Request",
    "Run",
    "Scores",
    "System",
    "Task",
    "Topic",
    "Topics",
    "__version__",
    "compare",
    "evaluate",
    "load_collection",
    "load_corpus",
    "load_protocol",
    "load_system",
    "names",
    "produce",
    "read_qrels",
    "read_run",
    "report",
    "task",
]
