"""Writes docs/models.md: which model folders are accepted, out of the code that accepts them.

python -m benchmarks.models_reference     (make docs)
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from audit.models import (
    architectures,
    character_map,
    components,
    forward,
    mecab_dictionary,
    model_folder,
    other_forms,
    sentencepiece_file,
    tokenizer,
    tokenizer_files,
    weights_header,
)

PATH = Path(__file__).resolve().parents[1] / "docs" / "models.md"
_HEAD = """# Models

Written by `make docs` out of the code that reads models. It says which directories of models are
accepted, how to prepare others, and what every refusal asks for. Nothing is downloaded, no code of
a model runs, and no pickle is opened but by `models convert`.

## What a directory must hold

* `config.json` with the kind of the model (`model_type`);
* `model.safetensors`, whole, in float32, float16, bfloat16 or float64, **with the
  masked-language-model head**, as `save_pretrained` of a `...ForMaskedLM` writes it;
* the files of the tokenizer that the model was trained with.

Anything else may lie beside them: a training's states, other weights, a `README.md`. The list of
models shows every directory under `KART_AUDIT_MODELS` that has a `config.json` or weights, with the
reason if it is refused.

These come in many forms that need no preparation:

* a checkpoint of transformers' Trainer (`checkpoint-500`), and the directory above it if the model
  was saved there;
* a snapshot in a hub's cache (`models--NAME/snapshots/REVISION`), or the directory `models--NAME`
  if it holds one snapshot;
* `BertForPreTraining`: the pooler and the head for the next sentence are left alone;
* a head with a matrix of its own (`"tie_word_embeddings": false`), with one bias or two;
* names of an older time: `gamma` and `beta`, `position_ids`;
* an embedding with more rows than the tokenizer has tokens;
* weights of torch.compile (`_orig_mod.`), DataParallel (`module.`) or a merged adapter of PEFT
  (`base_model.model.`): the prefix is removed, and the report says so.

These become such a directory by one command, which writes a new directory and leaves the old one
as it is:

```
python -m audit models convert FOLDER --out FOLDER                      # pickled, or in shards
python -m audit models convert FOLDER --out FOLDER --model-type bert    # of a kind not named
python -m audit models convert FOLDER --out FOLDER --head-from GENERAL  # saved without a head
```

A head from the general model is a stand-in: it is right only if the hospital trained that model
further and left its head as it was.
"""
_EXAMPLES = {
    "bert": "Bio_ClinicalBERT, PubMedBERT, UTH-BERT, Tohoku BERT",
    "roberta": "BioMed-RoBERTa, DistilRoBERTa, MedRoBERTa.nl, JMedRoBERTa, rinna japanese-roberta",
    "camembert": "CamemBERT-bio, DrBERT",
    "modernbert": "BioClinical-ModernBERT, ModernBERT-ja",
    "deberta-v2": "mDeBERTa",
    "longformer": "Clinical-Longformer",
    "big_bird": "Clinical-BigBird",
    "megatron-bert": "GatorTron",
    "albert": "BioM-ALBERT",
}
_PASSES = """
The pass says how the model is computed. *packed* is this program's own arithmetic. *plain* runs the
modules of transformers: the results are as exact, and an audit takes about so many times as long as
with a BERT of the same shape ([measured](performance.md)). Longformer is slow with short passages,
because its module pads them to a whole window of attention. BigBird is computed with full
attention: the sparse one draws blocks at random, and transformers too uses the full one up to 704
tokens.
"""
_REFUSALS = (
    ("The directory and its weights", (model_folder, weights_header)),
    ("The configuration", (other_forms, architectures)),
    (
        "The tokenizer",
        (
            tokenizer_files,
            components,
            character_map,
            sentencepiece_file,
            mecab_dictionary,
            tokenizer,
        ),
    ),
)


_WORDS = f"""
`mecab_option` may be `-u FILE.dic`: a compiled user dictionary (MANBYO, for example) that lies in
the model's directory, whatever folder the option names. It must be in UTF-8, compiled for the
dictionary that `mecab_dic` names, and no larger than {mecab_dictionary.MAX_DICTIONARY_BYTES:,}
bytes.

In a language with spaces a name is asked by the word pieces that it has in the sentence. In
Japanese this holds for words that MeCab splits. SentencePiece splits a sentence as a whole, and a
name may share a piece with the word beside it. The audit asks for the pieces of the name alone,
after and before other text: in Japanese notes of the demo that is what the sentence has for nine
names in ten. A leak of the others can be missed.
"""


def write_reference() -> str:
    """Return the text of docs/models.md."""
    return "\n".join([_HEAD, *_list_sections()])


def _list_sections() -> Iterator[str]:
    yield "## Kinds of models\n"
    yield _write_table(("`model_type`", "kind", "among others", "pass"), _list_kinds())
    yield _PASSES
    yield "## Tokenizers\n"
    yield "If there is a `tokenizer.json`, it is used, except for Japanese words by MeCab.\n"
    yield _write_table(
        ("class", "files without tokenizer.json", "models in tokenizer.json"), _list_tokenizers()
    )
    yield "\n`BertJapaneseTokenizer` takes these settings:\n"
    yield _write_table(("setting", "values"), _list_japanese_settings())
    yield _WORDS
    yield "\n## Forms that are refused\n"
    yield "They are told by names of files, in this order.\n"
    yield _write_table(("files", "what it is", "what to do"), _list_forms())
    yield "\n## All other refusals\n"
    yield "An ellipsis stands for a name or a number.\n"
    for title, modules in _REFUSALS:
        yield f"### {title}\n"
        rows = sorted({row for module in modules for row in _list_refusals(module)})
        yield _write_table(("refusal", "what to do"), rows) + "\n"


def _list_kinds() -> Iterator[tuple[str, ...]]:
    for kind, name in architectures.KIND_NAMES.items():
        config = architectures.parse_config({"model_type": kind}, place="config.json")
        yield (
            f"`{kind}`",
            name,
            _EXAMPLES.get(kind, ""),
            "packed" if config.architecture in forward.KINDS else f"plain, {config.slowdown}",
        )


def _list_tokenizers() -> Iterator[tuple[str, ...]]:
    for name, (files, parts) in tokenizer_files.TOKENIZER_CLASSES.items():
        yield f"`{name}`", ", ".join(f"`{file}`" for file in files), ", ".join(parts)


def _list_japanese_settings() -> Iterator[tuple[str, ...]]:
    for name, values in tokenizer_files._JAPANESE_SETTINGS.items():
        yield f"`{name}`", ", ".join(f"`{value}`" for value in values)


def _list_forms() -> Iterator[tuple[str, ...]]:
    for form in other_forms.OTHER_FORMS:
        patterns = ", ".join(f"`{pattern}`" for pattern in form.patterns if pattern != "*")
        names = "anything else" if "*" in form.patterns else patterns or "none"
        yield names, _shorten(form.cause), _shorten(form.advice)


def _list_refusals(module: ModuleType) -> Iterator[tuple[str, ...]]:
    """Yield cause and advice of every refusal that a module writes out."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "AuditError" and node.args:
            advice = next((word.value for word in node.keywords if word.arg == "do"), None)
            advices = _read_texts(advice, module) if advice else []
            for cause in _read_texts(node.args[0], module):
                yield _shorten(cause), " Or: ".join(map(_shorten, advices))


def _read_texts(node: ast.expr, module: ModuleType) -> list[str]:
    """Return the texts that an expression can have, as far as the source says."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.IfExp(body=body, orelse=other):
            return _read_texts(body, module) + _read_texts(other, module)
        case ast.Name(id=name):
            text = getattr(module, name, None)
            return [text] if isinstance(text, str) else []
    return []


def _shorten(text: str) -> str:
    """Return a sentence with an ellipsis for each place of a value."""
    return re.sub(r"\{options\}", "", re.sub(r"\{(?!options)\w+[^{}]*\}", "…", text))


def _write_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


if __name__ == "__main__":
    PATH.write_text(write_reference(), encoding="utf-8")
