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
    model_config,
    model_folder,
    other_forms,
    sentencepiece_file,
    tensor_header,
    tokenizer,
    tokenizer_files,
    weights_header,
)

PATH = Path(__file__).resolve().parents[1] / "docs" / "models.md"
_HEAD = """# Models

## What to do with a model you have downloaded

An audit compares two models: the hospital's, and the general model that its training started from.
Do this with each of them:

1. Copy its directory, with all files, into a folder for models, and start the app with that folder:
   `KART_AUDIT_MODELS=MODELS make run`.
2. Open *New audit*. If the model can be used, you can choose it there. If not, it stands under
   *Models that cannot be used*, with the reason and what to do. (A directory without `config.json`,
   `adapter_config.json` or weights is not listed.)
3. If the reason is `pytorch_model.bin` or a missing head, choose the model under *Convert a model*;
   for a missing head, choose the general model beside it. The copy can then be chosen; the original
   stays as it is.
4. If the reason is another one, do what it says; the tables [below](#forms-that-are-refused) list
   the reasons. A step that names transformers, `save_pretrained` or another program is for whoever
   trained the model, or for an engineer on a machine where the model's code may run. Then copy the
   new directory here, and start again at step 1.

On the command line, `models convert` does what *Convert a model* does. `FOLDER` is the model's
directory, `NEW_FOLDER` the one to be written, `GENERAL` that of the general model:

```
python -m audit models convert FOLDER --out NEW_FOLDER                      # step 3
python -m audit models convert FOLDER --out NEW_FOLDER --model-type bert    # config.json lacks it
python -m audit models convert FOLDER --out NEW_FOLDER --head-from GENERAL  # without a head
```

The head is the part that gives each word a probability; the attacks need it. The general model's
head is a stand-in: it is right only if the hospital trained that model further and left its head as
it was. Reports say whose head a model has.

Nothing is downloaded, no code of a model runs, and no pickle is loaded except by a conversion, in a
process that can use no network, program or other file ([security](security.md#pickled-weights)).
`make docs` writes this page from the code that reads models.

## What a directory must hold

* `config.json` with the kind of the model (`model_type`);
* `model.safetensors`, complete, in float32, float16, bfloat16 or float64, **with the
  masked-language-model head**, as `save_pretrained` of a `...ForMaskedLM` writes it (of a causal
  model: a `...ForCausalLM`), or the shards `model-00001-of-00002.safetensors` and so on with their
  index `model.safetensors.index.json`;
* the files of the tokenizer that the model was trained with. It must treat capitals as its
  vocabulary does (`do_lower_case`); if it does not, the refusal names the setting that fits.

Other files may lie beside them, such as a training's states or a `README.md`, but no adapter, and
no link that leads out of the directory. The index must name every shard, and each shard must hold
exactly the tensors that the index says; a model of several files needs no conversion.

These forms need no preparation:

* a checkpoint of transformers' Trainer (`checkpoint-500`), and the directory above it if the model
  was saved there;
* a snapshot in a Hugging Face cache (`models--NAME/snapshots/REVISION`), or the directory
  `models--NAME` if it holds one snapshot;
* `BertForPreTraining`: its pooler and its head for the next sentence are not used;
* a head with a matrix of its own (`"tie_word_embeddings": false`), with one bias or two;
* older names of tensors (`gamma`, `beta`, `embed_out`) and older tensors (`position_ids`,
  `rotary_emb.inv_freq`);
* a causal model that was saved without the prefix of its body, such as the first GPT-2;
* Gemma 3 with pictures (`gemma3`): its text part is audited, the rest is not used;
* an embedding with more rows than the tokenizer has tokens;
* weights saved through torch.compile (`_orig_mod.`), DataParallel (`module.`) or a merged adapter
  of PEFT (`base_model.model.`): the prefix is removed, and the report says so.

## LoRA adapters

A directory with `adapter_config.json` and `adapter_model.safetensors`, as PEFT's `save_pretrained`
writes them, is audited as it is; nothing is merged. Choose the adapter as the hospital's model. The
app then offers as general model those whose tensors have the adapter's shapes; on the command line,
write `--general BASE --hospital ADAPTER`. Both models share one copy of the weights: the general
model is the base with the adapter switched off.

* Give the base as it was when the training began. The name in `base_model_name_or_path` is shown,
  never followed, and no file says whether the numbers are the same; reports therefore say "base
  declared".
* The settings may be `r`, `lora_alpha`, `use_rslora`, `target_modules` (plain names or
  `all-linear`), `rank_pattern`, `alpha_pattern`, `fan_in_fan_out`, and `modules_to_save` within
  `embed_tokens` and `lm_head`. Every other setting must have its default value. DoRA, trained
  biases and beginnings that change the base (PiSSA, OLoRA, CorDA, EVA, LoftQ) are refused by name:
  with such an adapter switched off, the rest would be another model than the base.
* If the training loaded its base in 4 bits (QLoRA), round a copy of the same base of 16 or 32 bits,
  and give that copy as the general model: in the app below the base, or by
  `python -m audit models convert BASE --out NEW_BASE --rounding nf4` (`nf4-double` if the training
  used double quantization). The matrices of all layers are rounded to NF4 and back as bitsandbytes
  does it; both models of the pair compute with them, and the report says so. Two whole models must
  be rounded alike. FP4 and 8 bits are not imitated: for these, give the base in 16 or 32 bits. A
  quantised base is refused.
* A tokenizer in the adapter's directory must split text as the base's does. Special tokens that the
  training added, for example one for padding, make no difference.
* An adapter that changes nothing, because it was never trained, gives no verdict: both models are
  the same.
* The base must be a causal model. The adapter of a masked model has to be merged first.
"""
_EXAMPLES = {
    "bert": "Bio_ClinicalBERT, PubMedBERT, UTH-BERT, Tohoku BERT",
    "roberta": "BioMed-RoBERTa, DistilRoBERTa, MedRoBERTa.nl, JMedRoBERTa, rinna japanese-roberta",
    "camembert": "CamemBERT-bio, DrBERT",
    "modernbert": "BioClinical-ModernBERT, ModernBERT-ja",
    "longformer": "Clinical-Longformer",
    "big_bird": "Clinical-BigBird",
    "megatron-bert": "GatorTron",
    "albert": "BioM-ALBERT",
    "llama": "Llama 2 and 3, Swallow, ELYZA, LLM-jp",
    "mistral": "Mistral 7B, BioMistral",
    "qwen2": "Qwen 2 and 2.5",
    "gemma3_text": "MedGemma",
    "phi3": "Phi 3 and 4",
    "gpt2": "BioMedLM",
    "gpt_neox": "Pythia",
}
_PASSES = """
The examples name models of a kind. A published copy of one may lack its head or a file; the app
then says so.

*Pass* says how the model is computed: *packed* by this program's own arithmetic, *plain* by the
modules of transformers. Both are equally exact. The number says about how many times as long an
audit takes as with a BERT of the same shape ([measured](performance.md)). A *causal* model
continues a text from left to right, the others fill gaps in one; the two models of an audit are of
the same sort. Its rotary positions may be plain or of the kinds `linear`, `llama3` and `yarn`,
which follow from numbers in `config.json`; others (`dynamic`, `longrope`) are refused. Longformer
is slow with short passages, because its module pads them to a whole window of attention. BigBird is
computed with full attention, because its sparse attention draws blocks at random; up to 704 tokens
transformers uses full attention too.
"""
_REFUSALS = (
    ("The directory and its weights", (model_folder, tensor_header, weights_header)),
    ("The configuration", (other_forms, architectures, model_config)),
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


_TOKENIZERS = """A `tokenizer.json` is used if there is one, except by `BertJapaneseTokenizer`. A
causal model may have byte-level byte pairs (GPT-2, Llama 3, Qwen, Phi 4), or byte pairs or Unigram
with bytes for unknown characters (Llama 2, Mistral, Gemma, LLM-jp). A `Split` must have one of the
regular expressions of GPT-2, Llama 3, Qwen 2, Mistral Nemo or Phi 4 mini, letter for letter. If
there is only a `tokenizer.model` with byte pairs, load the tokenizer with transformers on another
machine and save it: that writes `tokenizer.json`.
"""
_WORDS = f"""
`mecab_option` may be `-u FILE.dic`: a compiled user dictionary (MANBYO, for example) that lies in
the model's directory, whatever folder the option names. It must be in UTF-8, compiled for the
dictionary that `mecab_dic` names, and at most {mecab_dictionary.MAX_DICTIONARY_BYTES // 10**6} MB.

In languages that write spaces, and where MeCab splits the words, the audit asks for a name by the
word pieces that it has in the sentence. SentencePiece splits a whole sentence at once, so a name
may share a piece with the word beside it. The audit then asks for the pieces that the name has on
its own in the middle of a text. In the demo's Japanese notes nine names in ten have these pieces in
the sentence. A leak of the others can be missed.
"""


def write_reference() -> str:
    """Return the text of docs/models.md."""
    return "\n".join([_HEAD, *_list_sections()])


def _list_sections() -> Iterator[str]:
    yield "## Kinds of models\n"
    yield _write_table(("`model_type`", "kind", "examples", "pass"), _list_kinds())
    yield _PASSES
    yield "## Tokenizers\n"
    yield _TOKENIZERS
    yield _write_table(
        ("class", "files, if there is no tokenizer.json", "types of model in tokenizer.json"),
        _list_tokenizers(),
    )
    yield "\n`BertJapaneseTokenizer` may have these settings:\n"
    yield _write_table(("setting", "values"), _list_japanese_settings())
    yield _WORDS
    yield "## Forms that are refused\n"
    yield "The first row that fits the names of the files counts. Beside a `model.safetensors` only"
    yield "the row of the adapter applies.\n"
    yield _write_table(("files", "what it is", "what to do"), _list_forms())
    yield "\n## Other refusals\n"
    yield "… stands for a name or a number.\n"
    for title, modules in _REFUSALS:
        yield f"### {title}\n"
        rows = sorted({row for module in modules for row in _list_refusals(module)})
        yield _write_table(("refusal", "what to do"), rows) + "\n"


def _list_kinds() -> Iterator[tuple[str, ...]]:
    for model_type, kind in architectures.SUPPORTED_KINDS.items():
        config = architectures.parse_config({"model_type": model_type}, place="config.json")
        if config.is_causal:
            arithmetic = "causal"
        elif config.architecture in forward.PACKED_KINDS:
            arithmetic = "packed"
        else:
            arithmetic = f"plain, {config.slowdown}"
        yield f"`{model_type}`", kind.name, _EXAMPLES.get(model_type, "—"), arithmetic


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
        case ast.Call(func=ast.Name(id="Message"), args=[text_node, *_]):
            return _read_texts(text_node, module)
        case ast.Name(id=name):
            constant = getattr(module, name, None)
            return [constant] if isinstance(constant, str) else []
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
