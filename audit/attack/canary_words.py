"""What the canaries of an audit show, in one sentence of English and one of Japanese."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ENGLISH = {
    "found": (
        "Canaries (names that never existed): {k} of {n} planted names are found (exact rank p at "
        "most 0.05), with the general model alone {k_general} of {n_general}; about {chance} would "
        "be by chance."
    ),
    "from": " At {count} or more mentions at least half of them are found.",
    "nowhere": " At no planted number of mentions are half of them found.",
    "pairs": " {k} of {n} score above their held-out twins (exact p {p}).",
    "blind": (
        "Canaries (names that never existed): {n} were planted, but {h} held-out names with a score"
        " are too few to find any of them (at least 19 are needed)."
    ),
}
_JAPANESE = {
    "found": (
        "カナリア（実在しない名前）：埋め込んだ {n} 名のうち {k} 名が見つかりました（正確な順位 p "
        "が 0.05 以下）。汎用モデル単独では {n_general} 名のうち {k_general} 名で、"
        "偶然でも約 {chance} 名は見つかります。"
    ),
    "from": "出現回数が {count} 回以上で半数以上が見つかります。",
    "nowhere": "半数が見つかる出現回数は、埋め込んだ範囲にはありません。",
    "pairs": (
        "対になる埋め込まなかった名前よりスコアが高いのは {n} 組のうち {k} 組です（正確な p {p}）。"
    ),
    "blind": (
        "カナリア（実在しない名前）：{n} 名を埋め込みましたが、"
        "スコアの付いた、埋め込まなかった名前が {h} 名しかなく、"
        "1 名も見つけることができません（19 名以上必要です）。"
    ),
}
MIN_HELD_OUT = 19
"""With fewer held-out names the smallest rank p-value is above 0.05."""


def canary_sentence(record: Mapping[str, Any]) -> dict[str, str]:
    """Return "english" and "japanese" of what `exposure_record` measured."""
    return {"english": _sentence(record, _ENGLISH), "japanese": _sentence(record, _JAPANESE)}


def _sentence(record: Mapping[str, Any], words: Mapping[str, str]) -> str:
    measured = record["scores"].get(record["fixed_score"])
    n_held_out = measured["n_held_out"] if measured else 0
    if measured is None or n_held_out < MIN_HELD_OUT:
        text = words["blind"].format(n=record["n_planted"], h=n_held_out)
    else:
        text = _found(record, measured, words)
    twins = measured["all"]["above_twin"] if measured else {"n_total": 0}
    if measured and twins["n_total"]:
        p = measured["all"]["above_twin_p"]
        text += words["pairs"].format(k=twins["n_hits"], n=twins["n_total"], p=_p(p))
    return text


def _found(record: Mapping[str, Any], measured: Mapping[str, Any], words: Mapping[str, str]) -> str:
    found, n_ranks = measured["all"]["found"], 1 + measured["n_held_out"]
    general = record["scores"].get("general_alone")
    by_general = general["all"]["found"] if general else {"n_hits": 0, "n_total": 0}
    by_chance = int(record["alpha"] * n_ranks + 1e-9) / n_ranks  # ranks with p <= alpha
    text = words["found"].format(
        k=found["n_hits"], n=found["n_total"], k_general=by_general["n_hits"],
        n_general=by_general["n_total"], chance=f"{found['n_total'] * by_chance:.1f}",
    )  # fmt: skip
    count = measured["found_from"]["value"]
    if count is None:
        return text + words["nowhere"]
    return text + words["from"].format(count=f"{count:g}")


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
