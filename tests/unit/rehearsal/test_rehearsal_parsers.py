"""The stand-ins for AMR parsers, called by the harness as it calls the real packages."""

from __future__ import annotations

import importlib
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from harness.errors import HarnessError
from harness.rehearsal import amr_text, models
from harness.systems.mathamr.graphs import amr
from harness.systems.mathamr.graphs import parsers as named
from harness.systems.mathamr.graphs.build import UNPARSED, build_graphs, graphs
from harness.systems.mathamr.graphs.graph import FORMULA, Failure, Graph, Sentence, connected
from harness.systems.mathamr.graphs.posts import Post, post_text

pytest.importorskip("penman", reason="penman is not installed")

WORDS = (
    *("I", "you", "it", "we", "not", "no", "if", "because", "to", "what", "can", "must", "prove", "show", "find"),
    *("integrating", "defined", "converge", "solution", "equation", "function", "matrix", "real", "rational", "finite"),
    *("continuous", "number", "sequence", "limit", "Euler", "Cauchy", "Riemann", "theorem", "3", "17", "2.5", "the"),
    *("a", "and", "is", "FORMULA", "FORMULA", ",", ".", "(", "-", '"', "'", "#", ":", "/", "~", "\\", "é", "∑"),
)
SMALL = [
    Post("1", "I want to prove that $x^2$ is not continuous. What is the limit of $y$? It depends on $x^2$."),
    Post("2", "$x$"),  # one token
    Post("3", ""),
    Post("4", "Yes"),
    Post("6", "We add " + " and ".join(f"$x_{{{n}}}$" for n in range(105)) + "."),
    Post("5", "By Euler's theorem we can show that $a=b$ if $n$ is prime."),
]


def packages() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in ("transition_amr_parser", "amrlib")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the packages, from which Python imports them for the time of a test."""
    made = models.make_parsers(tmp_path / "packages", 5)
    monkeypatch.syspath_prepend(made)
    for name in packages():
        monkeypatch.delitem(sys.modules, name)
    amr.loaded.cache_clear()
    yield made
    amr.loaded.cache_clear()
    for name in packages():
        del sys.modules[name]


def texts(count: int, seed: int = 0) -> list[list[list[str]]]:
    """Documents of one to six sentences of random words, with placeholders numbered in each."""
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        number = 0
        document = []
        for _ in range(rng.randint(1, 6)):
            tokens = rng.choices(WORDS, k=rng.randint(1, 30))
            for at, token in enumerate(tokens):
                if token == "FORMULA":
                    tokens[at], number = f"FORMULA_{number}", number + 1
            document.append(tokens)
        out.append(document)
    return out


def is_connected(sentence: Sentence) -> bool:
    return connected(Graph(sentence.labels, bytes(len(sentence.labels)), sentence.edges, sentence.root, (), ()))


def placeholders(said: object) -> set[str]:
    return set(re.findall(r"FORMULA_\d+", str(said)))


# ---- Penman -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_graphs_of_random_words_can_be_read() -> None:
    """By the harness and by the package `penman`: connected, no placeholder lost, and as varied as AMR is."""
    roles: Counter[str] = Counter()
    shared = 0
    decode = importlib.import_module("penman").decode
    for n, document in enumerate(texts(150)):
        written = amr_text.written(amr_text.document(document, random.Random(n)), aligned=bool(n % 2))
        found = amr.read_sentence(written)
        assert is_connected(found), written
        assert placeholders(found.labels) == placeholders(document)
        assert decode(written).top
        roles.update(re.findall(r":[A-Za-z][\w-]*", written))
        targets = Counter(target for _, _, target in found.edges)
        shared += max(targets.values(), default=0) > 1
    assert {":ARG0", ":ARG1-of", ":mod", ":op1", ":name", ":polarity", ":quant", ":snt6", ":same-as"} <= roles.keys()
    assert shared > 50  # graphs in which a node has several parents


def test_a_sentence_by_hand() -> None:
    tokens = ["FORMULA_0", "is", "not", "rational", "if", "3", "numbers", "exist", "."]
    written = amr_text.written(amr_text.document([tokens], random.Random(0)))
    assert written.startswith("(r / rational~3\n    :polarity -~2")  # no formula is the root
    assert {"FORMULA_0~0", "if~4", "numbers~6", "3~5"} <= set(re.findall(r"[\w-]+~\d", written))
    assert re.search(r"numbers~6\s+:quant 3~5", written)
    assert amr_text.written(amr_text.document([["."]], random.Random(0))) == amr_text.EMPTY


def test_a_long_sentence_is_not_too_deep() -> None:
    tokens = [*(["prove", "theorem", "because"] * 300)]
    written = amr_text.written(amr_text.document([tokens], random.Random(0)))
    assert max(len(line) - len(line.lstrip()) for line in written.splitlines()) <= 4 * (amr_text.DEEPEST + 1)
    amr.read_sentence(written)


@pytest.mark.slow
def test_some_are_broken_and_some_missing() -> None:
    made = [amr_text.penman(1, [["prove", "theorem", str(n)]]) for n in range(3000)]
    assert made == [amr_text.penman(1, [["prove", "theorem", str(n)]]) for n in range(3000)]
    assert made[:50] != [amr_text.penman(2, [["prove", "theorem", str(n)]]) for n in range(50)]
    missing = sum(each is None for each in made)
    bad = 0
    for each in made:
        try:
            amr.read_sentence(each or "(a / b)")
        except HarnessError:
            bad += 1
    assert 5 <= missing <= 30
    assert 5 <= bad <= 30


def test_each_way_to_break_is_noticed() -> None:
    written = amr_text.written(amr_text.document([["prove", "theorem"]], random.Random(0)))
    made = {amr_text.broken(written, random.Random(n)) for n in range(60)}
    assert len(made) == 5
    for each in made:
        with pytest.raises(HarnessError):
            amr.read_sentence(each)


# ---- the packages -----------------------------------------------------------------------------------------------


def module(name: str) -> ModuleType:
    importlib.invalidate_caches()
    return importlib.import_module(name)


def test_the_transition_parser(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = module("transition_amr_parser.parse")
    assert Path(str(found.__file__)).is_relative_to(folder)
    parser = found.AMRParser.from_pretrained("AMR3-structbart-L")
    line = 'It doesn\'t hold: f(x)=2.5, "i.e." FORMULA_0-regular (see FORMULA_12).'
    tokens, positions = parser.tokenize(line)
    expected = 'It does n\'t hold : f ( x ) = 2.5 , " i.e. " FORMULA_0 - regular ( see FORMULA_12 ) .'
    assert " ".join(tokens) == expected
    assert [line[start:end] for start, end in positions] == tokens
    assert parser.tokenize("By FORMULA_99 and FORMULA_100 .")[0] == ["By", "FORMULA_99", "and", "FORMULA_", "100", "."]
    penman, machines = parser.parse_sentences([tokens, ["Prove", "it"]])
    assert len(penman) == len(machines) == 2
    assert penman[0].startswith(f"# ::tok {expected}\n(")
    assert penman[0].endswith(")\n")
    (document,), _ = parser.parse_docs([[tokens, ["Prove", "it"]]])
    assert amr.read_sentence(document).labels[0] == "document"
    assert "Running on batch size: 2" in capsys.readouterr().out  # as the real one does
    with pytest.raises(IndexError):
        parser.parse_docs([[["one"]], [["two", "tokens"]]])
    for call in (parser.parse_docs, parser.parse_sentences):
        with pytest.raises(ZeroDivisionError):
            call([])


def test_weights(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"AMR model 'lost'.*not in our library"):
        amr.transition_amr("lost")
    checkpoint = tmp_path / "both_doc+sen" / "seed42" / "checkpoint.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    with pytest.raises(HarnessError, match=r"Missing .*machine_config"):
        amr.transition_amr(str(checkpoint))
    (checkpoint.parent / "machine_config.json").write_text("{}")
    assert "(d / document" in amr.transition_amr(str(checkpoint))(["We prove it .\nWe know it ."])[0]
    with pytest.raises(HarnessError, match=r"cannot be loaded: .*amrlib_meta\.json"):
        amr.amrlib(str(tmp_path))


def test_amrlib(folder: Path) -> None:
    package = module("amrlib")
    assert Path(str(package.__file__)).is_relative_to(folder)
    model = package.load_stog_model(model_dir=str(models.make_parser_model(folder / "amrlib-model")))
    (plain,) = model.parse_sents(["We prove FORMULA_0."], add_metadata=False)
    (said,) = model.parse_sents(["We prove FORMULA_0."])
    assert said == f"# ::snt We prove FORMULA_0.\n{plain}"
    assert "~" not in plain
    assert "FORMULA_0" in amr.read_sentence(plain).labels


@pytest.mark.parametrize("seed", [1, 2])
def test_the_seed_is_in_the_packages(tmp_path: Path, seed: int) -> None:
    """In a process of its own, which knows nothing of the harness."""
    made = models.make_parsers(tmp_path, 1 if seed == 1 else 2)
    code = (
        "from transition_amr_parser.parse import AMRParser, SEED; import amrlib; assert amrlib.SEED == SEED; "
        "print(SEED, AMRParser().parse_sentence(['prove', 'the', 'theorem'])[0])"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(made)!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{seed} # ::tok prove the theorem\n(p / prove-01~0\n    :" in done.stdout
    assert done.stderr == ""


# ---- through the harness ----------------------------------------------------------------------------------------


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences end at line ends: spaCy, which takes seconds, is tested elsewhere."""
    monkeypatch.setattr(amr, "parsed_sentences", lambda found: [text.splitlines() for text in found])


@pytest.mark.slow
@pytest.mark.usefixtures("folder", "lines")
@pytest.mark.parametrize(
    "package",
    ["transition-amr", "amrlib", pytest.param("transition-amr:AMR3-structbart-L", marks=pytest.mark.slow)],
)
def test_many_texts(package: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is broken or missing is counted; all other graphs are connected and hold every placeholder."""
    name, _, model = package.partition(":")
    if name == "amrlib":
        model = str(models.make_parser_model(folder / "amrlib-model"))
    model = model or amr.DOCUMENT_MODEL
    given = ["\n".join(" ".join(tokens) for tokens in document) for document in texts(200, 4)]
    found = amr.AMRParser(name, model)(given)
    assert len(found) == 200
    failed = [each for each in found if isinstance(each, Failure)]
    assert all(each.kind == amr.UNDECODED for each in failed)
    nothing = sum(each == [] for each in found)
    bound = 16 if name == "amrlib" or "AMR3" in package else 8  # one broken sentence costs its chunk
    assert len(failed) + nothing <= bound
    lost = 0
    for text, each in zip(given, found, strict=True):
        if isinstance(each, list) and each:
            labels = {label for sentence in each for label in sentence.labels}
            lost += placeholders(labels) != placeholders(text)
            assert all(map(is_connected, each))
    # Of a document every placeholder is there; of single sentences those are missing whose parse is None.
    assert lost <= (0 if model == amr.DOCUMENT_MODEL else 24)
    assert capsys.readouterr().out == ""
    assert amr.AMRParser(name, model)(given) == found


@pytest.mark.usefixtures("folder", "lines")
def test_posts_become_graphs(tmp_path: Path) -> None:
    """By the name of the configuration, with posts of no token and of one; a repeated formula has a node for each."""
    parser = named.load("transition-amr")
    assert named.missing({"parser": "transition-amr"}) == named.missing()
    made = dict(graphs(SMALL, parser.parse))
    assert isinstance(made["3"], Failure)
    for post in SMALL:
        graph = made[post.id]
        if isinstance(graph, Graph):
            count = len(post_text(post.text, post.formulas).formulas)
            assert connected(graph)
            assert ":math" not in {relation for _, relation, _ in graph.edges}  # on which dropped placeholders hang
            assert graph.kinds.count(FORMULA) == len(graph.formulas) == count
            ends = {end for source, _, target in graph.edges for end in (source, target)}
            assert count == 1 or {each.node for each in graph.formulas} <= ends
    built, _ = build_graphs(SMALL, parser.parse, tmp_path, "graphs/key", batch=2, keep=False)
    assert (built.posts, built.graphs) == (6, 5)
    assert UNPARSED not in built.failures
