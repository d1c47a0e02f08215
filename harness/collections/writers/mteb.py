"""Writer of mteb's form: a folder that `datasets` loads, and a task class for mteb."""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.collections.writers import beir
from harness.collections.writers.contents import Contents, Seen
from harness.io.files import read_bytes, sha256, sha256_file, write_all

_TEMPLATE = Path(__file__).with_name("mteb_task.py.txt")
# ISO 15924 codes of the scripts of languages that are not written in Latin letters; the others are in `Latn`.
_SCRIPTS = {
    **dict.fromkeys(("ara", "arb", "ckb", "fas", "pes", "snd", "uig", "urd"), "Arab"),
    **dict.fromkeys(("bel", "bul", "kaz", "kir", "mkd", "mon", "rus", "srp", "tat", "tgk", "ukr"), "Cyrl"),
    **dict.fromkeys(("hin", "mar", "nep", "npi", "san"), "Deva"),
    **{"amh": "Ethi", "ben": "Beng", "cmn": "Hans", "ell": "Grek", "guj": "Gujr", "heb": "Hebr", "hye": "Armn"},
    **{"jpn": "Jpan", "kan": "Knda", "kat": "Geor", "khm": "Khmr", "kor": "Hang", "lao": "Laoo", "mal": "Mlym"},
    **{"mya": "Mymr", "pan": "Guru", "sin": "Sinh", "tam": "Taml", "tel": "Telu", "tha": "Thai", "zho": "Hans"},
}


def write(data: Contents, folder: Path) -> Seen:
    """Writes BEIR's files without metadata, and `task.py` with its data in `task.json`; returns what was written."""
    seen = beir.write(data, folder, metadata=False)
    files = sorted(path for path in folder.rglob("*.jsonl"))
    lines = (f"{path.relative_to(folder).as_posix()} {sha256_file(path)}" for path in files)
    task = {
        "name": task_name(data.collection.name),
        "description": data.collection.title,
        "revision": sha256("\n".join(lines).encode())[:40],
        "eval_langs": languages(data),
        "main_score": "ndcg_at_10",
    }
    text = json.dumps(task, ensure_ascii=False, indent=1)
    write_all({folder / "task.json": f"{text}\n", folder / "task.py": read_bytes(_TEMPLATE)})
    return seen


def task_name(collection: str) -> str:
    """Returns the name of a collection as mteb's tasks are named.

    Examples
    --------
    >>> task_name("arqmath-3-task1"), task_name("mini-theorems")
    ('Arqmath3Task1', 'MiniTheorems')
    """
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", collection))


def languages(data: Contents) -> list[str]:
    """Returns the languages of the topics with their scripts, such as `eng-Latn`."""
    return sorted(script_of(code) for code in {topic.language for topic in data.topics})


def script_of(language: str) -> str:
    """Returns a language with its script, as mteb names it.

    Examples
    --------
    >>> script_of("eng"), script_of("pes")
    ('eng-Latn', 'pes-Arab')
    """
    return f"{language}-{_SCRIPTS.get(language, 'Latn')}"
