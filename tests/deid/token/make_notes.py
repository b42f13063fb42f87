"""Small annotated notes whose spans follow from the words around them, and an encoder's reader."""

from __future__ import annotations

import string

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from audit.deid.network.config import Shape, TaggerSettings
from audit.deid.network.decode import TokenizerReader
from audit.notes.spans import CONTACT, IDENTIFIER, LINKAGE_CODE, Span, TaggedDocument

SURNAMES = ["山田", "鈴木", "高橋", "中村", "小林", "吉川", "森田", "池上"]
GIVEN = ["太郎", "花子", "健一", "美咲", "直樹", "由美"]
SMALL = Shape(width=32, dilations=(1, 2, 4, 1))


def quick(**changes) -> TaggerSettings:
    values = {
        "n_tokens": 32, "overlap": 8, "n_epochs": 4.0, "batch": 8, "micro_batch": 4,
        "learning_rate": 5e-3, "n_evaluations": 2, "checkpoint_every": 7, "hidden_share": 0.3,
        "precision": "float32",
    }  # fmt: skip
    return TaggerSettings(**values | changes)


def note(number: int) -> TaggedDocument:
    surname, given = SURNAMES[number % 8], GIVEN[number // 8 % 6]
    parts = [
        ("氏名：", None), (surname + given, IDENTIFIER), ("　様\nID ", None),
        (f"{1000 + 37 * number}", LINKAGE_CODE), (" 電話：", None),
        (f"03-{number:04d}-55", CONTACT), ("。血圧は正常である。\n", None),
    ]  # fmt: skip
    text, spans = "", []
    for part, label in parts:
        if label:
            spans.append(Span(len(text), len(text) + len(part), label))
        text += part
    return TaggedDocument(f"n{number}", text, tuple(spans), patient_id=f"p{number}")


def notes(n: int) -> tuple[TaggedDocument, ...]:
    return tuple(note(number) for number in range(n))


def reader_of(inner: Tokenizer, *, pad: str, unk: str | None) -> TokenizerReader:
    return TokenizerReader.of(
        PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=pad, unk_token=unk)
    )


def wordpiece() -> TokenizerReader:
    signs = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = [*string.ascii_lowercase, *string.digits, "山", "田", "太", "郎", "##郎", "##b", "キ"]
    vocabulary = {sign: i for i, sign in enumerate([*signs, *pieces])}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.BertNormalizer(handle_chinese_chars=True)]
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return reader_of(inner, pad="[PAD]", unk="[UNK]")
